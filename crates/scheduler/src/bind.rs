//! Binding a pod to the node that was chosen for it.

use compact_str::CompactString;
use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod};
use setpoint_api::{Key, Status};
use setpoint_runtime::Client;

use crate::pod_info::PodInfo;

/// What came of a binding.
#[derive(Debug)]
pub(crate) enum Bound {
    Done,
    /// Somebody else was faster, or the pod is gone: the normal end of a race.
    Lost,
    /// It can be tried again.
    Failed(Box<Status>),
}

/// A binding that came to its end.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) key: Key,
    pub(crate) uid: CompactString,
    pub(crate) node: CompactString,
    pub(crate) bound: Bound,
}

/// Binds this very pod to its node.
pub(crate) async fn bind(client: Client, pod: PodInfo) -> Finished {
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
    let bound = match pods.create_sub(pod.key.name(), "binding", &binding).await {
        Ok(_) => Bound::Done,
        Err(status) if status.is_conflict() || status.is_not_found() => Bound::Lost,
        Err(status) => Bound::Failed(Box::new(status)),
    };
    Finished {
        key: pod.key,
        uid: pod.uid,
        node: pod.node,
        bound,
    }
}
