//! A file with a static pod, and the kubelet's defaults for it.

use std::path::Path;

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use serde_json::Value;
use setpoint_api::Key;

/// Annotations of static pods.
pub(super) const CONFIG_HASH: &str = "kubernetes.io/config.hash";
const CONFIG_SOURCE: &str = "kubernetes.io/config.source";
const CONFIG_SEEN: &str = "kubernetes.io/config.seen";
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// Whether the pod comes from a file of the node, by an annotation that its mirror has too.
pub(crate) fn is_static(pod: &v1::Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    let source = annotations.and_then(|annotations| annotations.get(CONFIG_SOURCE));
    source.is_some_and(|source| source != "api")
}

/// Reads the pod of a file on this node. `Err` is why it cannot be used.
pub(super) fn read(
    path: &Path,
    decode: fn(&[u8]) -> Result<Value, String>,
    (node, now): (&str, Timestamp),
) -> Result<v1::Pod, String> {
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    let value = decode(&text)?;
    if value["kind"] != "Pod" {
        return Err(format!("invalid pod: its kind is {}", value["kind"]));
    }
    let pod: v1::Pod = serde_json::from_value(value).map_err(|error| error.to_string())?;
    let source = format!("host:{node}file:{}", path.display());
    with_defaults(pod, &hash(&[&text, source.as_bytes()]), (node, now))
}

/// The key of a static pod.
pub(super) fn key(pod: &v1::Pod) -> Key {
    let meta = &pod.metadata;
    Key::new(
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

fn with_defaults(mut pod: v1::Pod, hash: &str, (node, now): (&str, Timestamp)) -> Result<v1::Pod, String> {
    let meta = &mut pod.metadata;
    let name = meta.name.take().filter(|name| !name.is_empty());
    let name = name.ok_or("invalid pod: name is needed for the pod")?;
    meta.name = Some(format!("{name}-{}", node.to_lowercase()));
    meta.namespace.get_or_insert_with(|| "default".to_owned());
    let uid = meta.uid.get_or_insert_with(|| hash.to_owned()).clone();
    let annotations = meta.annotations.get_or_insert_default();
    annotations.insert(CONFIG_HASH.to_owned(), uid);
    annotations.insert(CONFIG_SOURCE.to_owned(), "file".to_owned());
    annotations.insert(CONFIG_SEEN.to_owned(), now.to_string());
    let spec = pod.spec.get_or_insert_default();
    spec.node_name = Some(node.to_owned());
    spec.restart_policy.get_or_insert_with(|| "Always".to_owned());
    spec.dns_policy.get_or_insert_with(|| "ClusterFirst".to_owned());
    spec.termination_grace_period_seconds
        .get_or_insert(DEFAULT_GRACE_SECONDS);
    spec.tolerations.get_or_insert_default().push(v1::Toleration {
        operator: Some("Exists".to_owned()),
        effect: Some("NoExecute".to_owned()),
        ..v1::Toleration::default()
    });
    let init = spec.init_containers.iter_mut().flatten();
    for container in init.chain(&mut spec.containers) {
        set_pull_policy(container);
    }
    pod.status = Some(v1::PodStatus {
        phase: Some("Pending".to_owned()),
        ..v1::PodStatus::default()
    });
    Ok(pod)
}

/// The latest image is always pulled.
fn set_pull_policy(container: &mut v1::Container) {
    let image = container.image.as_deref().unwrap_or_default();
    let name = image.rsplit('/').next().unwrap_or_default();
    let is_latest = !name.contains(':') || name.ends_with(":latest");
    let policy = if is_latest { "Always" } else { "IfNotPresent" };
    container
        .image_pull_policy
        .get_or_insert_with(|| policy.to_owned());
}

/// A hash of 128 bits in hexadecimal: FNV-1a.
fn hash(parts: &[&[u8]]) -> String {
    let bytes = parts.iter().flat_map(|part| part.iter());
    let hash = bytes.fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    });
    format!("{hash:032x}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_static_pod_is_named_after_its_node_and_tolerates_its_taints() {
        let pod = json!({ "metadata": { "name": "web" }, "spec": { "containers": [
            { "name": "a", "image": "example.com:5000/a" }, { "name": "b", "image": "b:1" },
        ] } });
        let pod = with_defaults(
            serde_json::from_value(pod).unwrap(),
            "abc",
            ("N1", Timestamp::UNIX_EPOCH),
        );
        let pod = serde_json::to_value(pod.unwrap()).unwrap();
        assert_eq!(pod["metadata"]["name"], "web-n1");
        assert_eq!(pod["metadata"]["namespace"], "default");
        assert_eq!(pod["metadata"]["uid"], "abc");
        assert_eq!(pod["metadata"]["annotations"][CONFIG_HASH], "abc");
        assert_eq!(pod["metadata"]["annotations"][CONFIG_SOURCE], "file");
        assert_eq!(pod["spec"]["nodeName"], "N1");
        let toleration = json!({ "operator": "Exists", "effect": "NoExecute" });
        assert_eq!(pod["spec"]["tolerations"][0], toleration);
        assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], "Always");
        assert_eq!(pod["spec"]["containers"][1]["imagePullPolicy"], "IfNotPresent");
    }

    #[test]
    fn a_pod_without_a_name_is_an_error() {
        let error = with_defaults(v1::Pod::default(), "abc", ("n", Timestamp::UNIX_EPOCH)).unwrap_err();
        assert_eq!(error, "invalid pod: name is needed for the pod");
    }
}
