//! Labels and annotations of sandboxes and containers, by which the kubelet, crictl and other tools recognize them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;

use super::{identity, spec};

/// The label with the name of the pod.
pub const POD_NAME: &str = "io.kubernetes.pod.name";
/// The label with the namespace of the pod.
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// The label with the uid of the pod.
pub const POD_UID: &str = "io.kubernetes.pod.uid";
/// The label with the name of the container.
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";

/// The labels of a sandbox: those of the pod, and its identity.
pub(super) fn sandbox_labels(pod: &v1::Pod) -> BTreeMap<String, String> {
    let mut labels = pod.metadata.labels.clone().unwrap_or_default();
    labels.extend(pod_identity(pod));
    labels
}

/// The labels of a container.
pub(super) fn container_labels(pod: &v1::Pod, container: &v1::Container) -> BTreeMap<String, String> {
    let name = (CONTAINER_NAME.to_owned(), container.name.clone());
    pod_identity(pod).into_iter().chain([name]).collect()
}

/// The annotations of a container, by which an agent that restarts knows what it needs for stopping it.
pub(super) fn container_annotations(
    pod: &v1::Pod,
    container: &v1::Container,
    attempt: u32,
) -> BTreeMap<String, String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let json = |value: serde_json::Result<String>| value.ok();
    let pre_stop = container
        .lifecycle
        .as_ref()
        .and_then(|lifecycle| lifecycle.pre_stop.as_ref());
    let ports = container.ports.as_ref().filter(|ports| !ports.is_empty());
    let grace = spec(pod).termination_grace_period_seconds;
    let deletion_grace = pod.metadata.deletion_grace_period_seconds;
    let entries = [
        ("container.hash", Some(container_hash(container))),
        ("container.restartCount", Some(attempt.to_string())),
        (
            "container.terminationMessagePath",
            Some(text(&container.termination_message_path)),
        ),
        (
            "container.terminationMessagePolicy",
            Some(text(&container.termination_message_policy)),
        ),
        (
            "pod.deletionGracePeriod",
            deletion_grace.map(|grace| grace.to_string()),
        ),
        ("pod.terminationGracePeriod", grace.map(|grace| grace.to_string())),
        (
            "container.preStopHandler",
            pre_stop.and_then(|hook| json(serde_json::to_string(hook))),
        ),
        (
            "container.ports",
            ports.and_then(|ports| json(serde_json::to_string(ports))),
        ),
    ];
    let entry = |(name, value): (&str, Option<String>)| Some((format!("io.kubernetes.{name}"), value?));
    entries.into_iter().filter_map(entry).collect()
}

/// A hash of what makes a running container outdated: its name and its image.
pub fn container_hash(container: &v1::Container) -> String {
    let image = container.image.as_deref().unwrap_or_default();
    let bytes = container.name.bytes().chain([0]).chain(image.bytes());
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    format!("{hash:x}")
}

fn pod_identity(pod: &v1::Pod) -> [(String, String); 3] {
    let [name, namespace, uid] = identity(pod);
    [(POD_NAME, name), (POD_NAMESPACE, namespace), (POD_UID, uid)]
        .map(|(label, value)| (label.to_owned(), value.to_owned()))
}
