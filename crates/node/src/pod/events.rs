//! [`PodEvents`]: the kubelet's events about pods and their containers.

use k8s_openapi::api::core::v1::ObjectReference;
use setpoint_runtime::{EventType, Recorder};

use super::bound_pod::{BoundPod, ContainerKind};

/// Records events about pods.
#[derive(Debug, Clone)]
pub(crate) struct PodEvents {
    /// `None` records nothing.
    pub(crate) recorder: Option<Recorder>,
}

impl PodEvents {
    /// An event about the pod.
    pub(crate) fn pod(
        &self,
        pod: &BoundPod,
        event_type: EventType,
        reason: &str,
        message: impl Into<String>,
    ) {
        if let Some(recorder) = &self.recorder {
            recorder.record(reference(pod, None), event_type, reason, message);
        }
    }

    /// An event of type Normal about a container of the pod.
    pub(crate) fn normal(&self, pod: &BoundPod, container: &str, reason: &str, message: impl Into<String>) {
        self.container(pod, container, EventType::Normal, (reason, message.into()));
    }

    /// An event of type Warning about a container of the pod.
    pub(crate) fn warning(&self, pod: &BoundPod, container: &str, reason: &str, message: impl Into<String>) {
        self.container(pod, container, EventType::Warning, (reason, message.into()));
    }

    fn container(
        &self,
        pod: &BoundPod,
        container: &str,
        event_type: EventType,
        (reason, message): (&str, String),
    ) {
        if let Some(recorder) = &self.recorder {
            recorder.record(
                reference(pod, field_path(pod, container)),
                event_type,
                reason,
                message,
            );
        }
    }
}

fn reference(pod: &BoundPod, field_path: Option<String>) -> ObjectReference {
    let meta = &pod.object.metadata;
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        field_path,
    }
}

fn field_path(pod: &BoundPod, container: &str) -> Option<String> {
    let (kind, _) = pod.find_container(container)?;
    let list = match kind {
        ContainerKind::Init => "initContainers",
        ContainerKind::Regular => "containers",
        ContainerKind::Ephemeral => "ephemeralContainers",
    };
    Some(format!("spec.{list}{{{container}}}"))
}
