//! Decisions of the provisioner: which claims get a volume here, what it looks like, and which volumes are deleted.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use serde::Deserialize;
use serde_json::{Value, json};

use super::PROVISIONER;

/// The annotation with the node that the scheduler selected for a claim.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The annotation with the provisioner of a volume.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// The fields of a PersistentVolumeClaim that the provisioner needs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ClaimView {
    pub(super) metadata: Metadata,
    pub(super) spec: ClaimSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Metadata {
    name: String,
    namespace: String,
    uid: String,
    annotations: BTreeMap<String, String>,
    #[serde(rename = "deletionTimestamp")]
    deletion_timestamp: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ClaimSpec {
    pub(super) storage_class_name: String,
    volume_name: String,
    volume_mode: String,
    access_modes: Vec<String>,
    resources: ClaimResources,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimResources {
    requests: BTreeMap<String, String>,
}

/// The fields of a StorageClass that the provisioner needs.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ClassView {
    provisioner: String,
    reclaim_policy: String,
    mount_options: Vec<String>,
}

/// The fields of a PersistentVolume that the provisioner needs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct VolumeView {
    metadata: Metadata,
    pub(super) spec: VolumeSpec,
    status: VolumeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct VolumeSpec {
    persistent_volume_reclaim_policy: String,
    pub(super) local: LocalSource,
    node_affinity: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LocalSource {
    pub(super) path: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct VolumeStatus {
    phase: String,
}

/// Whether the claim waits for a volume on this node. Block devices are not provisioned.
pub(super) fn waits_for(claim: &ClaimView, node: &str) -> bool {
    let selected = claim.metadata.annotations.get(SELECTED_NODE);
    selected.is_some_and(|selected| selected == node)
        && claim.spec.volume_name.is_empty()
        && claim.spec.volume_mode != "Block"
        && claim.metadata.deletion_timestamp.is_none()
}

/// Whether volumes of the class are those of this provisioner.
pub(super) fn is_provisioned_here(class: &ClassView) -> bool {
    class.provisioner == PROVISIONER
}

/// The name of a claim's volume: always the same, so that a repeated creation finds the first one.
pub(super) fn volume_name(claim: &ClaimView) -> String {
    format!("pvc-{}", claim.metadata.uid)
}

/// The volume of a claim: a directory that only pods of this node can use.
pub(super) fn volume(claim: &ClaimView, class: &ClassView, node: &str, path: &Path) -> Value {
    let hostname = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": [node] });
    let policy = match class.reclaim_policy.as_str() {
        "" => "Delete",
        policy => policy,
    };
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": volume_name(claim),
            "annotations": { PROVISIONED_BY: PROVISIONER },
        },
        "spec": {
            "capacity": claim.spec.resources.requests,
            "accessModes": claim.spec.access_modes,
            "storageClassName": claim.spec.storage_class_name,
            "persistentVolumeReclaimPolicy": policy,
            "mountOptions": class.mount_options,
            "volumeMode": "Filesystem",
            "local": { "path": path },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [hostname] }] } },
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim.metadata.namespace,
                "name": claim.metadata.name,
                "uid": claim.metadata.uid,
            },
        },
    })
}

/// Whether the volume is one of this node's that is released and whose data go with it. Its path is directly below the
/// directory, whatever a user wrote into the object.
pub(super) fn is_deletable(volume: &VolumeView, node: &str, directory: &Path) -> bool {
    let path = Path::new(&volume.spec.local.path);
    let terms = &volume.spec.node_affinity["required"]["nodeSelectorTerms"];
    let is_ours = volume
        .metadata
        .annotations
        .get(PROVISIONED_BY)
        .is_some_and(|name| name == PROVISIONER);
    is_ours
        && volume.status.phase == "Released"
        && volume.spec.persistent_volume_reclaim_policy == "Delete"
        && volume.metadata.deletion_timestamp.is_none()
        && terms[0]["matchExpressions"][0]["values"] == json!([node])
        && path.parent() == Some(directory)
        && matches!(path.components().next_back(), Some(Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(annotations: Value, spec: Value) -> ClaimView {
        let mut whole = json!({
            "storageClassName": "local-path", "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "1Gi" } },
        });
        whole
            .as_object_mut()
            .unwrap()
            .extend(spec.as_object().unwrap().clone());
        let metadata =
            json!({ "name": "data", "namespace": "team-1", "uid": "u1", "annotations": annotations });
        serde_json::from_value(json!({ "metadata": metadata, "spec": whole })).unwrap()
    }

    fn annotations(node: &str) -> Value {
        json!({ SELECTED_NODE: node })
    }

    #[track_caller]
    fn check_waits(annotations: Value, spec: Value, expected: bool) {
        assert_eq!(waits_for(&claim(annotations, spec), "n1"), expected);
    }

    #[test]
    fn a_claim_that_waits_for_this_node_gets_a_volume() {
        check_waits(annotations("n1"), json!({}), true);
        check_waits(annotations("n2"), json!({}), false);
        check_waits(json!({}), json!({}), false);
        check_waits(annotations("n1"), json!({ "volumeName": "pvc-u1" }), false);
        check_waits(annotations("n1"), json!({ "volumeMode": "Block" }), false);
    }

    #[test]
    fn a_class_of_another_provisioner_is_left_alone() {
        for (provisioner, expected) in [(PROVISIONER, true), ("other", false)] {
            let class = serde_json::from_value(json!({ "provisioner": provisioner })).unwrap();
            assert_eq!(is_provisioned_here(&class), expected);
        }
    }

    fn provisioned_volume(phase: &str, change: impl FnOnce(&mut Value)) -> VolumeView {
        let claim = claim(annotations("n1"), json!({}));
        let mut volume = volume(&claim, &ClassView::default(), "n1", Path::new("/data/pvc-u1"));
        volume["status"] = json!({ "phase": phase });
        change(&mut volume);
        serde_json::from_value(volume).unwrap()
    }

    #[track_caller]
    fn check_deletable(volume: &VolumeView, expected: bool) {
        assert_eq!(
            is_deletable(volume, "n1", Path::new("/data")),
            expected,
            "{volume:?}"
        );
    }

    #[test]
    fn a_released_volume_of_this_node_is_deleted() {
        check_deletable(&provisioned_volume("Released", |_| {}), true);
        check_deletable(&provisioned_volume("Bound", |_| {}), false);
        check_deletable(
            &provisioned_volume("Released", |volume| {
                volume["spec"]["persistentVolumeReclaimPolicy"] = json!("Retain")
            }),
            false,
        );
        check_deletable(
            &provisioned_volume("Released", |volume| volume["metadata"]["annotations"] = json!({})),
            false,
        );
        let node = |volume: &mut Value| {
            volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] =
                json!(["n2"]);
        };
        check_deletable(&provisioned_volume("Released", node), false);
    }

    #[test]
    fn a_path_outside_of_the_directory_is_never_deleted() {
        for path in ["/etc", "/data", "/data/a/b", "/data/..", "/data/../etc", ""] {
            check_deletable(
                &provisioned_volume("Released", |volume| volume["spec"]["local"]["path"] = json!(path)),
                false,
            );
        }
    }
}
