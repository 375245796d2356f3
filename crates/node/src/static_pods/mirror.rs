//! Mirror pods: what the API shows of static pods.

use k8s_openapi::api::core::v1::{Node, Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use setpoint_api::options::DeleteOptions;
use setpoint_runtime::{Client, Error, TypedObject};

use super::file::{CONFIG_HASH, key};
use crate::shutdown;

/// The annotation of mirror pods: the hash of their static pod.
const CONFIG_MIRROR: &str = "kubernetes.io/config.mirror";

/// Whether the pod is a mirror pod.
pub(crate) fn is_mirror(pod: &Pod) -> bool {
    annotation(pod, CONFIG_MIRROR).is_some()
}

/// Whether the pod is the mirror of this static pod, and stays.
pub(crate) fn is_current(mirror: &Pod, static_pod: &Pod) -> bool {
    let hash = annotation(mirror, CONFIG_MIRROR);
    hash.is_some()
        && hash == annotation(static_pod, CONFIG_HASH)
        && mirror.metadata.deletion_timestamp.is_none()
}

/// The pod that the node runs: the mirror, which has the API server's defaults and the status, with the uid of the static
/// pod. Without a mirror it is the static pod itself. One that ended because its node was shut down starts again.
pub(crate) fn pod_to_run(static_pod: &Pod, mirror: Option<Pod>) -> Pod {
    let Some(mut pod) = mirror else {
        return static_pod.clone();
    };
    pod.metadata.uid.clone_from(&static_pod.metadata.uid);
    let was_shut_down = |status: &PodStatus| status.reason.as_deref() == Some(shutdown::REASON);
    if pod.status.as_ref().is_some_and(was_shut_down) {
        pod.status.clone_from(&static_pod.status);
    }
    pod
}

/// Creates the mirror of a static pod, which its node owns.
pub(crate) async fn create(client: &Client, static_pod: &Pod, node: &str) -> Result<(), Error> {
    let owner = client.all::<Node>().get(node).await?;
    let mirror = mirror(static_pod, node, owner.uid());
    let pods = client.namespaced::<Pod>(key(static_pod).namespace());
    match pods.create(&mirror).await {
        Err(status) if status.is_already_exists() => Ok(()),
        created => Ok(created.map(drop)?),
    }
}

/// Deletes a mirror pod at once: nothing of it runs.
pub(crate) async fn delete(client: &Client, mirror: &TypedObject<Pod>) -> Result<(), Error> {
    let options = DeleteOptions {
        grace_period_seconds: Some(0),
        uid: Some(mirror.uid().to_owned()),
        ..DeleteOptions::default()
    };
    let pods = client.namespaced::<Pod>(mirror.stored().key().namespace());
    match pods.delete(mirror.stored().key().name(), options).await {
        Err(status) if status.is_not_found() || status.is_conflict() => Ok(()),
        deleted => Ok(deleted.map(drop)?),
    }
}

fn mirror(static_pod: &Pod, node: &str, node_uid: &str) -> Pod {
    let mut mirror = static_pod.clone();
    let hash = annotation(static_pod, CONFIG_HASH).unwrap_or_default().to_owned();
    let meta = &mut mirror.metadata;
    meta.uid = None;
    meta.annotations
        .get_or_insert_default()
        .insert(CONFIG_MIRROR.to_owned(), hash);
    meta.owner_references = Some(vec![OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.to_owned(),
        uid: node_uid.to_owned(),
        controller: Some(true),
        ..OwnerReference::default()
    }]);
    mirror
}

fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    Some(pod.metadata.annotations.as_ref()?.get(name)?.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mirror_has_the_hash_of_its_pod_and_belongs_to_the_node() {
        let pod =
            json!({ "metadata": { "name": "web-n1", "uid": "abc", "annotations": { CONFIG_HASH: "abc" } } });
        let static_pod: Pod = serde_json::from_value(pod).unwrap();
        let mirror = mirror(&static_pod, "n1", "node-uid");
        assert!(is_mirror(&mirror) && !is_mirror(&static_pod));
        assert!(is_current(&mirror, &static_pod));
        let shown = serde_json::to_value(&mirror).unwrap();
        assert_eq!(shown["metadata"]["ownerReferences"][0]["uid"], "node-uid");
        assert_eq!(shown["metadata"]["uid"], json!(null));
        let mut changed = static_pod.clone();
        let annotations = changed.metadata.annotations.get_or_insert_default();
        annotations.insert(CONFIG_HASH.to_owned(), "other".to_owned());
        assert!(!is_current(&mirror, &changed));
        assert_eq!(
            pod_to_run(&static_pod, Some(mirror)).metadata.uid.as_deref(),
            Some("abc")
        );
    }

    #[track_caller]
    fn check_phase(reason: &str, expected: &str) {
        let static_pod = json!({ "metadata": {}, "status": { "phase": "Pending" } });
        let mirror = json!({ "metadata": {}, "status": { "phase": "Failed", "reason": reason } });
        let mirror = serde_json::from_value(mirror).unwrap();
        let pod = pod_to_run(&serde_json::from_value(static_pod).unwrap(), Some(mirror));
        assert_eq!(pod.status.unwrap().phase.as_deref(), Some(expected));
    }

    #[test]
    fn a_pod_that_ended_with_its_node_starts_again() {
        check_phase("Terminated", "Pending");
        check_phase("DeadlineExceeded", "Failed");
    }
}
