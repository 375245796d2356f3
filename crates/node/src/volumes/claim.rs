//! Persistent volumes of the types that a node has by itself: hostPath and local.

use k8s_openapi::api::core::v1;
use serde::Deserialize;

use super::ownership::Ownership;
use super::{MountedVolume, VolumeManager, blocking, host_path};
use crate::container_config::identity;

/// The fields of a PersistentVolumeClaim that the node needs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimView {
    spec: ClaimSpec,
    status: ClaimStatus,
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
    host_path: Option<PathSource>,
    local: Option<PathSource>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PathSource {
    path: String,
    r#type: String,
}

impl VolumeManager {
    /// The volume that the claim is bound to.
    pub(super) async fn mount_claim(
        &self,
        pod: &v1::Pod,
        name: &str,
        read_only: Option<bool>,
    ) -> Result<MountedVolume, String> {
        let [_, namespace, _] = identity(pod);
        let client = self.objects.client();
        let claims = client.namespaced::<v1::PersistentVolumeClaim>(namespace);
        let failed =
            |reason: &dyn std::fmt::Display| format!("error processing PVC {namespace}/{name}: {reason}");
        let claim = claims.dynamic().get(name).await;
        let claim = claim.map_err(|status| {
            failed(&format!(
                "failed to fetch PVC from API server: {}",
                status.message
            ))
        })?;
        let claim: ClaimView = claim.decode().map_err(|error| failed(&error))?;
        if claim.status.phase != "Bound" || claim.spec.volume_name.is_empty() {
            return Err(failed(&"PVC is not bound"));
        }
        let volumes = client.all::<v1::PersistentVolume>();
        let volume = volumes.dynamic().get(&claim.spec.volume_name).await;
        let volume = volume.map_err(|status| failed(&status.message))?;
        let volume: PersistentVolumeView = volume.decode().map_err(|error| failed(&error))?;
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
