//! Persistent volumes of the types that a node has by itself: hostPath and local.

use k8s_openapi::api::core::v1;
use serde::Deserialize;

use super::node_affinity::{NodeSelector, NodeView, VolumeNodeAffinity};
use super::ownership::Ownership;
use super::{MountedVolume, VolumeManager, blocking, host_path};
use crate::container_config::identity;

/// The fields of a PersistentVolumeClaim that the node needs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimView {
    metadata: ClaimMetadata,
    spec: ClaimSpec,
    status: ClaimStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimMetadata {
    uid: String,
    owner_references: Vec<OwnerView>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OwnerView {
    uid: String,
    controller: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimSpec {
    volume_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimStatus {
    phase: String,
}

/// The fields of a PersistentVolume that the node needs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PersistentVolumeView {
    spec: PersistentVolumeSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PersistentVolumeSpec {
    claim_ref: Option<ClaimReference>,
    host_path: Option<PathSource>,
    local: Option<PathSource>,
    node_affinity: VolumeNodeAffinity,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimReference {
    uid: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PathSource {
    path: String,
    r#type: String,
}

impl VolumeManager {
    /// The volume that the claim is bound to. The claim of an ephemeral volume must be one that was created for the pod.
    pub(super) async fn mount_claim(
        &self,
        pod: &v1::Pod,
        (name, is_ephemeral): (&str, bool),
        read_only: Option<bool>,
    ) -> Result<MountedVolume, String> {
        let [_, namespace, _] = identity(pod);
        let failed =
            |reason: &dyn std::fmt::Display| format!("error processing PVC {namespace}/{name}: {reason}");
        let claim = self.objects.read_claim(namespace, name).await;
        let claim = claim.map_err(|status| {
            failed(&format!(
                "failed to fetch PVC from API server: {}",
                status.message
            ))
        })?;
        let claim: ClaimView = claim.decode().map_err(|error| failed(&error))?;
        if is_ephemeral {
            check_owner(&claim, pod).map_err(|reason| failed(&reason))?;
        }
        if claim.status.phase != "Bound" || claim.spec.volume_name.is_empty() {
            return Err(failed(&"PVC is not bound"));
        }
        let volume = self.objects.read_volume(&claim.spec.volume_name).await;
        let volume = volume.map_err(|status| failed(&status.message))?;
        let volume: PersistentVolumeView = volume.decode().map_err(|error| failed(&error))?;
        check_bound(&claim, &volume).map_err(|reason| failed(&reason))?;
        if let Some(required) = volume.spec.node_affinity.required {
            self.check_node(&claim.spec.volume_name, &required).await?;
        }
        let mut mounted = match (volume.spec.host_path, volume.spec.local) {
            (Some(source), _) => blocking(move || host_path::check(source.path.as_ref(), &source.r#type))
                .await
                .map(MountedVolume::at)?,
            (_, Some(source)) => mount_local(source, Ownership::of_pod(pod, false)).await?,
            _ => return Err("no volume plugin matched".to_owned()),
        };
        mounted.read_only = read_only == Some(true);
        Ok(mounted)
    }

    /// Checks that the volume can be reached from this node: a path of it may be there on every node, with other data.
    async fn check_node(&self, volume: &str, required: &NodeSelector) -> Result<(), String> {
        let failed = |reason: &dyn std::fmt::Display| {
            format!("MountVolume.NodeAffinity check failed for volume \"{volume}\" : {reason}")
        };
        let node = self.objects.read_node(&self.node.name).await;
        let node = node.map_err(|status| failed(&status.message))?;
        let node: NodeView = node.decode().map_err(|error| failed(&error))?;
        match required.matches(&node.metadata.labels) {
            true => Ok(()),
            false => Err(failed(&"no matching NodeSelectorTerms")),
        }
    }
}

/// Checks that the claim was created for the pod: one of the same name may hold the data of another.
fn check_owner(claim: &ClaimView, pod: &v1::Pod) -> Result<(), String> {
    let [name, namespace, uid] = identity(pod);
    let mut owners = claim.metadata.owner_references.iter();
    match owners.any(|owner| owner.controller && owner.uid == uid) {
        true => Ok(()),
        false => Err(format!(
            "PVC was not created for pod {namespace}/{name} (pod is not owner)"
        )),
    }
}

/// Checks that the volume is bound to the claim, which only names it.
fn check_bound(claim: &ClaimView, volume: &PersistentVolumeView) -> Result<(), String> {
    let name = &claim.spec.volume_name;
    let uid = &claim.metadata.uid;
    match &volume.spec.claim_ref {
        Some(reference) if reference.uid == *uid => Ok(()),
        Some(reference) => Err(format!(
            "found PV object {name} but its pv.Spec.ClaimRef.UID {} does not point to claim.UID {uid}",
            reference.uid
        )),
        None => Err(format!(
            "found PV object {name} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
        )),
    }
}

/// A directory of the node that an administrator or the provisioner made; it must be there.
async fn mount_local(source: PathSource, ownership: Ownership) -> Result<MountedVolume, String> {
    blocking(move || {
        let path = std::path::PathBuf::from(source.path);
        if !path.exists() {
            let message = format!("path {:?} does not exist", path.display().to_string());
            return Err(std::io::Error::other(message));
        }
        ownership.apply_by_policy(&path)?;
        Ok(MountedVolume::at(path))
    })
    .await
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(claim_ref: Value, expected: Result<(), &str>) {
        let claim = json!({ "metadata": { "uid": "c1" }, "spec": { "volumeName": "pv" } });
        let claim: ClaimView = serde_json::from_value(claim).unwrap();
        let volume = serde_json::from_value(json!({ "spec": { "claimRef": claim_ref } })).unwrap();
        assert_eq!(check_bound(&claim, &volume), expected.map_err(str::to_owned));
    }

    #[test]
    fn a_volume_that_is_bound_to_another_claim_is_not_mounted() {
        check(json!({ "uid": "c1" }), Ok(()));
        let other = "found PV object pv but its pv.Spec.ClaimRef.UID c2 does not point to claim.UID c1";
        check(json!({ "uid": "c2" }), Err(other));
        let none = "found PV object pv but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim";
        check(Value::Null, Err(none));
    }

    #[test]
    fn the_claim_of_an_ephemeral_volume_was_created_for_the_pod() {
        let metadata = json!({ "name": "web", "namespace": "team", "uid": "p1" });
        let pod: v1::Pod = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
        let claim = |owners: Value| -> ClaimView {
            serde_json::from_value(json!({ "metadata": { "ownerReferences": owners } })).unwrap()
        };
        let own = claim(json!([{ "uid": "p1", "controller": true }]));
        assert_eq!(check_owner(&own, &pod), Ok(()));
        let error = Err("PVC was not created for pod team/web (pod is not owner)".to_owned());
        for owners in [json!([]), json!([{ "uid": "p2", "controller": true }])] {
            assert_eq!(check_owner(&claim(owners), &pod), error);
        }
    }
}
