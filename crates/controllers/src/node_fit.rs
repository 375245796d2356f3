//! Whether a pod may run on a node: name, node selector, affinity and taints.

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration};
use serde::Deserialize;
use setpoint_api::Stored;
use setpoint_values::{node_selector, toleration};

/// Whether a node fits a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The pod should run there.
    Run,
    /// It should not be created there, but may continue to run.
    Stay,
    /// It must not run there.
    Leave,
}

/// The taints of a node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "RawNode")]
pub(crate) struct NodeView {
    pub(crate) taints: Vec<Taint>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawNode {
    spec: RawNodeSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawNodeSpec {
    taints: Vec<Taint>,
}

impl From<RawNode> for NodeView {
    fn from(node: RawNode) -> Self {
        Self {
            taints: node.spec.taints,
        }
    }
}

impl NodeView {
    /// The taints with the NoExecute effect.
    pub(crate) fn no_execute_taints(&self) -> Vec<Taint> {
        let taints = self.taints.iter().filter(|taint| taint.effect == "NoExecute");
        taints.cloned().collect()
    }
}

/// Whether the node fits a pod of this spec.
pub(crate) fn fit(spec: &PodSpec, node: &Stored) -> Fit {
    let is_named = spec
        .node_name
        .as_deref()
        .is_none_or(|name| name.is_empty() || name == node.key().name());
    if !is_named || !matches_node_selector(spec, node) {
        return Fit::Leave;
    }
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let Ok(view) = node.view::<NodeView>() else {
        return Fit::Leave;
    };
    let repels = |effect: &str| {
        let mut taints = view.taints.iter().filter(|taint| taint.effect == effect);
        taints.any(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
    };
    match (repels("NoExecute"), repels("NoSchedule")) {
        (true, _) => Fit::Leave,
        (false, true) => Fit::Stay,
        (false, false) => Fit::Run,
    }
}

/// Whether the toleration tolerates the taint.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let toleration = toleration::Toleration {
        key: toleration.key.as_deref().unwrap_or_default(),
        operator: toleration.operator.as_deref().unwrap_or_default(),
        value: toleration.value.as_deref().unwrap_or_default(),
        effect: toleration.effect.as_deref().unwrap_or_default(),
    };
    toleration.tolerates(toleration::Taint {
        key: &taint.key,
        value: taint.value.as_deref().unwrap_or_default(),
        effect: &taint.effect,
    })
}

/// Whether the node has the labels and fields that the pod's node selector and affinity require.
fn matches_node_selector(spec: &PodSpec, node: &Stored) -> bool {
    let mut selector = spec.node_selector.iter().flatten();
    let by_labels = selector.all(|(name, value)| node.label(name) == Some(value));
    let affinity = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|own| own.required_during_scheduling_ignored_during_execution.as_ref());
    by_labels
        && required.is_none_or(|required| {
            required
                .node_selector_terms
                .iter()
                .any(|term| fits_term(term, node))
        })
}

fn fits_term(term: &NodeSelectorTerm, node: &Stored) -> bool {
    let labels = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    // An empty term matches nothing.
    (!labels.is_empty() || !fields.is_empty())
        && labels.iter().all(|one| fits(one, node.label(&one.key)))
        && fields
            .iter()
            .all(|one| fits(one, (one.key == "metadata.name").then(|| node.key().name())))
}

fn fits(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    node_selector::is_met(&requirement.operator, values, value)
}

/// The node that the affinity of a DaemonSet's pod names. It matters only until the pod is bound, so it is not cached.
pub(crate) fn target_node(pod: &Stored) -> Option<String> {
    let pod: RawPod = pod.decode().ok()?;
    let affinity = pod.spec.affinity.node_affinity;
    let required = affinity.required_during_scheduling_ignored_during_execution;
    let terms = required.node_selector_terms.into_iter();
    let mut fields = terms.flat_map(|term| term.match_fields);
    let named = fields.find(|field| field.key == "metadata.name")?;
    named.values.into_iter().next()
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPod {
    spec: PodSpecFields,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpecFields {
    affinity: RawAffinity,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawAffinity {
    node_affinity: RawNodeAffinity,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawNodeAffinity {
    required_during_scheduling_ignored_during_execution: RawRequired,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawRequired {
    node_selector_terms: Vec<RawTerm>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawTerm {
    match_fields: Vec<RawRequirement>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawRequirement {
    key: String,
    values: Vec<String>,
}
