//! The pods of a DaemonSet: each targets one node and tolerates most of the taints it may have.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration,
};
use setpoint_runtime::TypedObject;

use crate::revisions::HASH_LABEL;
use crate::template;

const GENERATION_LABEL: &str = "pod-template-generation";
const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";

/// Tolerations that the set's pods get in addition to the template's, by key and effect.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
const NO_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// The spec of the set's pods, for any node.
pub(crate) fn spec(set: &DaemonSet) -> PodSpec {
    let mut spec = set.spec.template.spec.clone().unwrap_or_default();
    let is_on_host = spec.host_network == Some(true);
    let tolerations = spec.tolerations.get_or_insert_default();
    let more = TOLERATED.into_iter().chain(is_on_host.then_some(NO_NETWORK));
    for (key, effect) in more {
        let new = Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        if !tolerations.contains(&new) {
            tolerations.push(new);
        }
    }
    spec
}

/// A new pod of the set for this node, of the template with this hash.
pub(crate) fn new_pod(object: &TypedObject<DaemonSet>, set: &DaemonSet, node: &str, hash: &str) -> Pod {
    let mut pod = template::new_pod(object, set.spec.template.clone());
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(HASH_LABEL.to_owned(), hash.to_owned());
    let annotations = set.metadata.annotations.as_ref();
    if let Some(generation) = annotations.and_then(|own| own.get(GENERATION_ANNOTATION)) {
        labels.insert(GENERATION_LABEL.to_owned(), generation.clone());
    }
    let mut spec = spec(set);
    let affinity = spec.affinity.get_or_insert_default();
    let of_node = affinity.node_affinity.get_or_insert_default();
    of_node.required_during_scheduling_ignored_during_execution = Some(NodeSelector {
        node_selector_terms: vec![NodeSelectorTerm {
            match_expressions: None,
            match_fields: Some(vec![NodeSelectorRequirement {
                key: "metadata.name".to_owned(),
                operator: "In".to_owned(),
                values: Some(vec![node.to_owned()]),
            }]),
        }],
    });
    pod.spec = Some(spec);
    pod
}
