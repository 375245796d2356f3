//! Binding a pod to the node that was chosen for it.

use compact_str::CompactString;
use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod};
use setpoint_api::{Key, Status};
use setpoint_runtime::Client;

use crate::pod_info::PodInfo;

/// Result of a binding request.
#[derive(Debug)]
pub(crate) enum BindResult {
    Bound,
    /// Another scheduler bound the pod first, or it was deleted: the normal end of a race.
    Superseded,
    /// It can be tried again.
    Failed(Box<Status>),
}

/// A finished binding: the pod, the node, the result.
#[derive(Debug)]
pub(crate) struct BindOutcome {
    pub(crate) key: Key,
    pub(crate) uid: CompactString,
    pub(crate) node: CompactString,
    pub(crate) result: BindResult,
}

/// Posts the binding, with the uid so that a later pod of the same name is never bound.
pub(crate) async fn bind(client: Client, pod: PodInfo) -> BindOutcome {
    let mut binding = Binding::default();
    binding.metadata.name = Some(pod.key.name().to_owned());
    binding.metadata.namespace = Some(pod.key.namespace().to_owned());
    binding.metadata.uid = Some(pod.uid.to_string());
    binding.target = ObjectReference {
        kind: Some("Node".to_owned()),
        name: Some(pod.node.to_string()),
        ..ObjectReference::default()
    };
    let pods = client.namespaced::<Pod>(pod.key.namespace());
    let result = match pods.create_subresource(pod.key.name(), "binding", &binding).await {
        Ok(_) => BindResult::Bound,
        Err(status) if status.is_conflict() || status.is_not_found() => BindResult::Superseded,
        Err(status) => BindResult::Failed(Box::new(status)),
    };
    BindOutcome {
        key: pod.key,
        uid: pod.uid,
        node: pod.node,
        result,
    }
}
