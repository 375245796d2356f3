//! The volume manager: prepares the volumes of a pod on the node, keeps them up to date, and removes them.
//!
//! Each volume is a directory or file of the node that containers mount: `pods/<uid>/volumes/<plugin>/<name>` below the
//! agent's root, as the kubelet names it, or a path of the host. What comes from API objects is written by
//! [`atomic_writer`], so that a container sees the old or the new files and never a mixture. Mounting is idempotent: the
//! agent mounts again whenever it syncs a pod, and so does [`VolumeManager::run`] for those whose objects may change.
//!
//! Start reading at [`VolumeManager::mount`], then [`payload`].

mod atomic_writer;
mod claim;
mod cleanup;
mod empty_dir;
mod host_path;
mod node_affinity;
mod objects;
mod ownership;
mod payload;
mod pod_certificate;
mod projection;
pub(crate) mod subpath;
mod token;
mod trust_bundle;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1;
use parking_lot::Mutex;
use setpoint_api::{Clock, Status, Stored};
use setpoint_client::Client;
use tokio_util::sync::CancellationToken;

use crate::container_config::files::create_pod_directory;
use crate::container_config::{EnvSources, NodeFacts, identity, pod_directory, spec};
use objects::ObjectReader;
use ownership::Ownership;
use pod_certificate::CredentialStore;
use token::TokenCache;

/// How often volumes are compared with the API objects they come from.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);

/// Prepares the volumes of the pods of one node.
#[derive(Debug)]
pub struct VolumeManager {
    objects: ObjectReader,
    tokens: TokenCache,
    credentials: CredentialStore,
    clock: Arc<dyn Clock>,
    node: Arc<NodeFacts>,
    /// The pods with volumes whose objects may change, by uid.
    live: Mutex<HashMap<String, Arc<v1::Pod>>>,
    /// Held while a volume is written: a sync of its pod and [`VolumeManager::run`] may write the same one.
    writes: Arc<Mutex<()>>,
}

/// The volumes of a pod, by name.
#[derive(Debug, Clone, Default)]
pub struct MountedVolumes {
    volumes: BTreeMap<String, MountedVolume>,
}

/// A volume on the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MountedVolume {
    /// Its path on the node; empty for an image.
    pub path: PathBuf,
    /// The image whose content it has.
    pub image: Option<String>,
    /// Whether containers may not write to it.
    pub read_only: bool,
}

/// Why a volume cannot be mounted, in the kubelet's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("MountVolume.SetUp failed for volume {volume:?} : {message}")]
pub struct VolumeError {
    /// The volume.
    pub volume: String,
    /// The reason.
    pub message: String,
}

// === impl VolumeManager ===

impl VolumeManager {
    /// A manager for the pods of a node.
    pub fn new(client: Client, clock: Arc<dyn Clock>, node: Arc<NodeFacts>) -> Self {
        Self {
            objects: ObjectReader::new(client.clone(), clock.clone()),
            tokens: TokenCache::new(client, clock.clone()),
            credentials: CredentialStore::default(),
            clock,
            node,
            live: Mutex::default(),
            writes: Arc::default(),
        }
    }

    /// Mounts all volumes of the pod, or brings them up to date.
    pub async fn mount(&self, pod: &v1::Pod) -> Result<MountedVolumes, VolumeError> {
        let mut mounted = MountedVolumes::default();
        let spec = spec(pod);
        let [_, _, uid] = identity(pod);
        let (root, owned_uid) = (self.node.root.clone(), uid.to_owned());
        let created = blocking(move || create_pod_directory(&root, &owned_uid)).await;
        created.map_err(|message| VolumeError {
            volume: uid.to_owned(),
            message,
        })?;
        for volume in spec.volumes.iter().flatten() {
            let made = self
                .mount_volume(pod, volume)
                .await
                .map_err(|message| VolumeError {
                    volume: volume.name.clone(),
                    message,
                })?;
            mounted.volumes.insert(volume.name.clone(), made);
        }
        if spec.volumes.iter().flatten().any(projection::is_projection) {
            self.live.lock().insert(uid.to_owned(), Arc::new(pod.clone()));
        }
        Ok(mounted)
    }

    /// The volumes of a pod that runs follow its labels and annotations from now on, also if an earlier agent mounted them.
    pub fn update_pod(&self, pod: &v1::Pod) {
        if !spec(pod).volumes.iter().flatten().any(projection::is_projection) {
            return;
        }
        let [_, _, uid] = identity(pod);
        let is_mounted = || pod_directory(&self.node.root, uid).is_dir();
        let version = |pod: &v1::Pod| pod.metadata.resource_version.clone();
        let known = self.live.lock().get(uid).map(|known| version(known));
        if known.map_or_else(is_mounted, |known| known != version(pod)) {
            self.live.lock().insert(uid.to_owned(), Arc::new(pod.clone()));
        }
    }

    /// Unmounts and removes the volumes of a pod, and everything else in its directory.
    pub async fn unmount(&self, uid: &str) -> Result<(), VolumeError> {
        self.live.lock().remove(uid);
        self.tokens.forget(uid);
        self.credentials.forget(uid);
        let directory = pod_directory(&self.node.root, uid);
        let removed = blocking(move || cleanup::remove(&directory)).await;
        removed.map_err(|message| VolumeError {
            volume: uid.to_owned(),
            message,
        })
    }

    /// A Secret that a pod refers to. While the API server is down, it is the one that was read before.
    pub(crate) async fn secret(&self, namespace: &str, name: &str) -> Result<Arc<Stored>, Status> {
        self.objects.read_secret(namespace, name).await
    }

    /// The objects that the environment of a container refers to.
    pub async fn env_sources(&self, pod: &v1::Pod, container: &v1::Container) -> EnvSources {
        self.objects.env_sources(pod, container).await
    }

    /// Brings volumes up to date with their API objects until stopped.
    pub async fn run(&self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.clock.sleep(REFRESH_INTERVAL) => {}
            }
            let pods: Vec<_> = self.live.lock().values().cloned().collect();
            for pod in pods {
                self.refresh(&pod).await;
            }
        }
    }

    /// Brings the volumes of one pod up to date, unless it was unmounted meanwhile.
    async fn refresh(&self, pod: &v1::Pod) {
        let [name, namespace, uid] = identity(pod);
        let spec = spec(pod);
        for volume in spec
            .volumes
            .iter()
            .flatten()
            .filter(|volume| projection::is_projection(volume))
        {
            if !self.live.lock().contains_key(uid) {
                return;
            }
            if let Err(error) = self.mount_volume(pod, volume).await {
                let volume = &volume.name;
                tracing::debug!(%namespace, pod = %name, %volume, %error, "a volume is not up to date");
            }
        }
    }

    async fn mount_volume(&self, pod: &v1::Pod, volume: &v1::Volume) -> Result<MountedVolume, String> {
        if projection::is_projection(volume) {
            return self.mount_projection(pod, volume).await;
        }
        if let Some(source) = &volume.empty_dir {
            return self.mount_empty_dir(pod, volume, source.clone()).await;
        }
        if let Some(source) = volume.host_path.clone() {
            let kind = source.type_.unwrap_or_default();
            return blocking(move || host_path::check(source.path.as_ref(), &kind))
                .await
                .map(MountedVolume::at);
        }
        if let Some(source) = &volume.image {
            return Ok(MountedVolume {
                image: source.reference.clone(),
                read_only: true,
                ..MountedVolume::default()
            });
        }
        if let Some(source) = &volume.persistent_volume_claim {
            let claim = (source.claim_name.as_str(), false);
            return self.mount_claim(pod, claim, source.read_only).await;
        }
        if volume.ephemeral.is_some() {
            let [name, ..] = identity(pod);
            let claim = format!("{name}-{}", volume.name);
            return self.mount_claim(pod, (&claim, true), None).await;
        }
        Err("no volume plugin matched".to_owned())
    }

    async fn mount_empty_dir(
        &self,
        pod: &v1::Pod,
        volume: &v1::Volume,
        source: v1::EmptyDirVolumeSource,
    ) -> Result<MountedVolume, String> {
        let path = self.volume_path(pod, "empty-dir", &volume.name);
        let ownership = Ownership::of_pod(pod, false);
        blocking(move || {
            let medium = source.medium.unwrap_or_default();
            let size = source.size_limit.map(|limit| limit.0);
            let created = empty_dir::prepare(&path, &medium, size.as_deref())?;
            if created {
                ownership.apply(&path)?;
            }
            Ok(MountedVolume::at(path))
        })
        .await
    }

    /// The path of a volume, with the name of its plugin as the kubelet has it.
    fn volume_path(&self, pod: &v1::Pod, plugin: &str, name: &str) -> PathBuf {
        let [_, _, uid] = identity(pod);
        let volumes = pod_directory(&self.node.root, uid).join("volumes");
        volumes.join(format!("kubernetes.io~{plugin}")).join(name)
    }
}

// === impl MountedVolumes ===

impl MountedVolumes {
    /// The volume of this name.
    pub fn find(&self, name: &str) -> Option<&MountedVolume> {
        self.volumes.get(name)
    }
}

impl FromIterator<(String, MountedVolume)> for MountedVolumes {
    fn from_iter<I: IntoIterator<Item = (String, MountedVolume)>>(volumes: I) -> Self {
        Self {
            volumes: volumes.into_iter().collect(),
        }
    }
}

impl MountedVolume {
    /// A volume at this path of the node.
    pub fn at(path: PathBuf) -> Self {
        Self {
            path,
            ..Self::default()
        }
    }
}

/// Runs file operations outside the threads of async tasks.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use setpoint_testkit::Cluster;

    use super::*;

    #[tokio::test]
    async fn mounted_volumes_follow_the_labels_of_their_pod() {
        let (cluster, directory) = (Cluster::start().await, tempfile::tempdir().unwrap());
        let facts = NodeFacts {
            root: directory.path().to_owned(),
            ..NodeFacts::default()
        };
        let clock: Arc<dyn Clock> = Arc::new(cluster.clock.clone());
        let manager = VolumeManager::new(cluster.client("node"), clock, Arc::new(facts));
        let pod = |version: &str, label: &str| -> v1::Pod {
            serde_json::from_value(json!({
                "metadata": { "name": "web", "uid": "u1", "resourceVersion": version, "labels": { "a": label } },
                "spec": { "containers": [], "volumes": [{ "name": "info", "downwardAPI": {} }] },
            }))
            .unwrap()
        };
        let label = || {
            let live = manager.live.lock();
            live.get("u1")
                .map(|pod| pod.metadata.labels.clone().unwrap()["a"].clone())
        };
        manager.update_pod(&pod("1", "x"));
        assert_eq!(label(), None, "it is not mounted");
        create_pod_directory(directory.path(), "u1").unwrap();
        manager.update_pod(&pod("1", "x"));
        assert_eq!(label().as_deref(), Some("x"));
        manager.update_pod(&pod("2", "y"));
        assert_eq!(label().as_deref(), Some("y"));
    }
}
