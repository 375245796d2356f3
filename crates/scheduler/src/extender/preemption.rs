//! Preemption by extenders: each gets the candidates with their victims, and returns those that it leaves, with its victims
//! (upstream: `ProcessPreemption`).

use std::collections::BTreeMap;
use std::sync::Arc;

use compact_str::CompactString;
use serde::Deserialize;
use serde_json::json;
use setpoint_api::Stored;

use super::Extender;
use crate::framework::PreemptionCandidate;
use crate::state::ClusterState;

/// A candidate, with the objects of its victims.
#[derive(Debug)]
pub(crate) struct CandidateObjects {
    pub(crate) candidate: PreemptionCandidate,
    /// Those that still exist, in the order of the victims.
    pub(crate) victims: Vec<Arc<Stored>>,
}

/// The response (upstream: `ExtenderPreemptionResult`).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct PreemptionResponse {
    #[serde(alias = "nodeNameToMetaVictims")]
    node_name_to_meta_victims: Option<BTreeMap<CompactString, Option<MetaVictims>>>,
}

/// The victims on a node, by their uids.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct MetaVictims {
    #[serde(alias = "pods")]
    pods: Option<Vec<MetaPod>>,
    #[serde(rename = "NumPDBViolations", alias = "numPDBViolations")]
    violations: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct MetaPod {
    #[serde(rename = "UID", alias = "uid")]
    uid: CompactString,
}

impl Extender {
    /// Whether it takes part in preemption.
    pub(crate) fn preempts(&self) -> bool {
        !self.config.preempt_verb.is_empty()
    }

    /// The candidates that it leaves, by node.
    pub(crate) async fn process_preemption(
        &self,
        pod: &Stored,
        candidates: &[CandidateObjects],
    ) -> Result<BTreeMap<CompactString, MetaVictims>, String> {
        let body = arguments(pod, candidates, self.config.node_cache_capable);
        let response: PreemptionResponse = self.send(&self.config.preempt_verb, body).await?;
        let mut left = BTreeMap::new();
        for (node, victims) in response.node_name_to_meta_victims.into_iter().flatten() {
            let victims = victims.unwrap_or_default();
            match victims.pods.as_ref().is_some_and(|pods| !pods.is_empty()) {
                true => drop(left.insert(node, victims)),
                false if self.is_ignorable() => {}
                false => return Err(format!("expected at least one victim pod on node {node:?}")),
            }
        }
        Ok(left)
    }
}

/// The candidates that an extender left, with their victims as the cluster has them.
pub(crate) fn resolve_victims(
    extender: &Extender,
    left: BTreeMap<CompactString, MetaVictims>,
    cluster: &ClusterState,
) -> Result<Vec<PreemptionCandidate>, String> {
    let mut candidates = Vec::new();
    for (name, victims) in left {
        let node = cluster.find_node(&name);
        let node = node.ok_or_else(|| format!("nodeinfo not found for node name {name:?}"))?;
        let find = |victim: &MetaPod| {
            let mut pods = node.pods().iter();
            let pod = pods.find(|pod| pod.uid == victim.uid).cloned();
            pod.ok_or_else(|| {
                format!(
                    "extender: {} claims to preempt pod (UID: &{{{}}}) on node: {name}, but the pod is not found on that node",
                    extender.config.url_prefix, victim.uid
                )
            })
        };
        let pods = victims.pods.iter().flatten().map(find);
        candidates.push(PreemptionCandidate {
            victims: pods.collect::<Result<_, _>>()?,
            violations: victims.violations,
            node: name,
        });
    }
    Ok(candidates)
}

/// The arguments (upstream: `ExtenderPreemptionArgs`): the victims by uid, or as objects.
fn arguments(pod: &Stored, candidates: &[CandidateObjects], by_uid: bool) -> String {
    let pod = String::from_utf8_lossy(pod.json());
    let nodes = candidates.iter().map(|one| {
        let pods: Vec<String> = match by_uid {
            true => {
                let victims = one.candidate.victims.iter();
                victims
                    .map(|pod| json!({"UID": pod.uid.as_str()}).to_string())
                    .collect()
            }
            false => {
                let victims = one.victims.iter();
                victims
                    .map(|pod| String::from_utf8_lossy(pod.json()).into_owned())
                    .collect()
            }
        };
        format!(
            "{}:{{\"Pods\":[{}],\"NumPDBViolations\":{}}}",
            json!(one.candidate.node.as_str()),
            pods.join(","),
            one.candidate.violations
        )
    });
    let nodes: Vec<String> = nodes.collect();
    let (by_object, by_name) = match by_uid {
        true => ("null".to_owned(), format!("{{{}}}", nodes.join(","))),
        false => (format!("{{{}}}", nodes.join(",")), "null".to_owned()),
    };
    format!("{{\"Pod\":{pod},\"NodeNameToVictims\":{by_object},\"NodeNameToMetaVictims\":{by_name}}}")
}
