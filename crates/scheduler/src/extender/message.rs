//! The messages of extenders, with upstream's field names. Objects are sent as they are cached, without decoding them.

use std::collections::HashMap;

use compact_str::CompactString;
use serde::Deserialize;
use serde_json::json;
use setpoint_api::Stored;

use super::Candidate;
use crate::framework::Rejection;
use crate::pod_info::PodInfo;

/// The response to a filter request (upstream: `ExtenderFilterResult`).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct FilterResponse {
    #[serde(alias = "nodes")]
    pub(super) nodes: Option<NodeList>,
    #[serde(alias = "nodenames", alias = "nodeNames")]
    pub(super) node_names: Option<Vec<CompactString>>,
    #[serde(alias = "failedNodes")]
    failed_nodes: Option<HashMap<CompactString, String>>,
    #[serde(alias = "failedAndUnresolvableNodes")]
    failed_and_unresolvable_nodes: Option<HashMap<CompactString, String>>,
    #[serde(alias = "error")]
    pub(super) error: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeList {
    items: Option<Vec<NamedNode>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NamedNode {
    metadata: NodeMeta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeMeta {
    name: CompactString,
}

/// A score of a prioritize response (upstream: `HostPriority`).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct HostPriority {
    #[serde(alias = "host")]
    pub(super) host: CompactString,
    #[serde(alias = "score")]
    pub(super) score: i64,
}

/// The response to a bind request (upstream: `ExtenderBindingResult`).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct BindingResponse {
    #[serde(alias = "error")]
    pub(super) error: String,
}

impl FilterResponse {
    /// The rejected nodes. What preemption cannot change takes precedence.
    pub(super) fn rejections(&self) -> impl Iterator<Item = (&CompactString, Rejection)> {
        let unresolvable = self.failed_and_unresolvable_nodes.iter().flatten();
        let is_unresolvable = |name: &CompactString| {
            let nodes = self.failed_and_unresolvable_nodes.as_ref();
            nodes.is_some_and(|nodes| nodes.contains_key(name))
        };
        let failed = self.failed_nodes.iter().flatten();
        let failed = failed.filter(move |(name, _)| !is_unresolvable(name));
        unresolvable
            .map(|(name, reason)| (name, Rejection::unresolvable(reason.clone())))
            .chain(failed.map(|(name, reason)| (name, Rejection::unschedulable(reason.clone()))))
    }
}

impl NodeList {
    pub(super) fn names(&self) -> Vec<CompactString> {
        let items = self.items.iter().flatten();
        items.map(|node| node.metadata.name.clone()).collect()
    }
}

/// The arguments of filter and prioritize (upstream: `ExtenderArgs`): the nodes by name, or as objects.
pub(super) fn arguments(pod: &Stored, candidates: &[Candidate], by_name: bool) -> String {
    let pod = String::from_utf8_lossy(pod.json());
    match by_name {
        true => {
            let names: Vec<&str> = candidates.iter().map(|one| one.name.as_str()).collect();
            format!("{{\"Pod\":{pod},\"Nodes\":null,\"NodeNames\":{}}}", json!(names))
        }
        false => {
            let objects = candidates.iter().filter_map(|one| one.object.as_ref());
            let objects: Vec<_> = objects
                .map(|object| String::from_utf8_lossy(object.json()))
                .collect();
            let items = objects.join(",");
            format!(
                "{{\"Pod\":{pod},\"Nodes\":{{\"metadata\":{{}},\"items\":[{items}]}},\"NodeNames\":null}}"
            )
        }
    }
}

/// The arguments of bind (upstream: `ExtenderBindingArgs`).
pub(super) fn binding_arguments(pod: &PodInfo, node: &str) -> String {
    let arguments = json!({
        "PodName": pod.key.name(),
        "PodNamespace": pod.key.namespace(),
        "PodUID": pod.uid.as_str(),
        "Node": node,
    });
    arguments.to_string()
}
