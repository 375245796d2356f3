//! Garbage collection on a node: dead containers and sandboxes, logs of removed pods, unused images.
//!
//! Containers of pods that are gone are removed by [`crate::relist`]. Here of each dead container only the newest of its
//! name is kept, for its exit status and its log; of the sandboxes of a pod only the newest. Which images go is decided in
//! [`images`], which is pure.

mod images;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use setpoint_container_runtime::{ContainerRecord, ContainerState, Error, SandboxState};
use setpoint_runtime::Lister;
use tokio_util::sync::CancellationToken;

use crate::container_config::NodeFacts;
use crate::pod::bound_pod::BoundPod;
use crate::pod::record::Records;
use crate::pod::work::PodExecutor;
use images::{DiskUsage, ImageRecords};

pub use images::ImageGcPolicy;

/// How often containers and logs are collected, and how many such rounds lie between those of images.
const INTERVAL: Duration = Duration::from_secs(60);
const ROUNDS_BETWEEN_IMAGES: u32 = 5;
/// So many dead containers of one name are kept.
const KEPT_DEAD_CONTAINERS: usize = 1;

/// Removes what this machine does not need any more.
#[derive(Debug)]
pub(crate) struct GarbageCollector {
    pub(crate) policy: ImageGcPolicy,
    pub(crate) executor: Arc<PodExecutor>,
    pub(crate) records: Arc<Records>,
    pub(crate) pods: Lister<Pod>,
    pub(crate) node: Arc<NodeFacts>,
    images: Mutex<ImageRecords>,
}

impl GarbageCollector {
    pub(crate) fn new(
        policy: ImageGcPolicy,
        executor: &Arc<PodExecutor>,
        records: &Arc<Records>,
        pods: &Lister<Pod>,
        node: Arc<NodeFacts>,
    ) -> Self {
        Self {
            policy,
            executor: executor.clone(),
            records: records.clone(),
            pods: pods.clone(),
            node,
            images: Mutex::default(),
        }
    }

    /// Collects periodically until stopped.
    pub(crate) async fn run(&self, stop: CancellationToken) {
        let mut round = 0_u32;
        loop {
            let collect = async {
                self.collect(round.is_multiple_of(ROUNDS_BETWEEN_IMAGES)).await;
                self.executor.clock.sleep(INTERVAL).await;
            };
            if stop.run_until_cancelled(collect).await.is_none() {
                return;
            }
            round = round.wrapping_add(1);
        }
    }

    async fn collect(&self, with_images: bool) {
        if let Err(error) = self.collect_containers(&HashSet::new()).await {
            tracing::warn!(%error, "cannot collect dead containers");
        }
        self.collect_logs();
        if with_images && let Err(error) = self.collect_images().await {
            tracing::warn!(%error, "cannot collect unused images");
        }
    }

    /// Removes all containers of pods that have ended, with the others: the disk is low.
    pub(crate) async fn collect_containers_of_ended_pods(&self) {
        let ended = self.pods.list().into_iter().filter(|pod| {
            let pod = pod.to_owned().map(BoundPod::new);
            pod.is_ok_and(|pod| pod.is_terminal())
        });
        let ended = ended.map(|pod| pod.uid().to_owned()).collect();
        if let Err(error) = self.collect_containers(&ended).await {
            tracing::warn!(%error, "cannot collect dead containers");
        }
    }

    /// Removes all images that no container uses.
    pub(crate) async fn remove_unused_images(&self) {
        if let Err(error) = self.remove_images(u64::MAX).await {
            tracing::warn!(%error, "cannot remove unused images");
        }
    }

    /// Removes dead containers beyond those kept, and sandboxes that a newer one replaced.
    async fn collect_containers(&self, ended: &HashSet<String>) -> Result<(), Error> {
        let runtime = &self.executor.runtime;
        let sandboxes = runtime.list_sandboxes().await?;
        let containers = runtime.list_containers().await?;
        let uids: HashMap<_, _> = sandboxes
            .iter()
            .map(|one| (&one.id, one.pod.uid.as_str()))
            .collect();
        let of_pod = |container: &ContainerRecord| uids.get(&container.sandbox).copied();
        for container in superfluous(&containers, of_pod, ended) {
            if let Some(record) = of_pod(container).and_then(|uid| self.records.find_idle(uid)) {
                self.executor.remove_container(&record, &container.id).await;
            }
        }
        let used: HashSet<_> = containers.iter().map(|container| &container.sandbox).collect();
        for sandbox in &sandboxes {
            let is_newer = |other: &&setpoint_container_runtime::SandboxRecord| {
                other.pod.uid == sandbox.pod.uid && other.created_at > sandbox.created_at
            };
            let is_replaced = sandboxes.iter().any(|other| is_newer(&other));
            let is_idle = sandbox.state == SandboxState::NotReady && !used.contains(&sandbox.id);
            if !is_replaced || !is_idle {
                continue;
            }
            if let Some(record) = self.records.find_idle(&sandbox.pod.uid)
                && runtime.remove_sandbox(&sandbox.id).await.is_ok()
            {
                record.lock().sandboxes.retain(|own| *own != sandbox.id);
            }
        }
        Ok(())
    }

    /// Removes the log directories of pods that the API does not have any more.
    fn collect_logs(&self) {
        let pods: BTreeSet<String> = self.pods.list().iter().map(|pod| pod.uid().to_owned()).collect();
        let entries = std::fs::read_dir(&self.node.logs_root)
            .into_iter()
            .flatten()
            .flatten();
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            // Named by namespace, name and uid.
            let Some((_, uid)) = name.rsplit_once('_') else {
                continue;
            };
            if pods.contains(uid) || self.records.has(uid) {
                continue;
            }
            if let Err(error) = std::fs::remove_dir_all(entry.path()) {
                tracing::warn!(directory = name, %error, "cannot remove the logs of a pod");
            }
        }
    }

    /// Removes images if their disk is fuller than the policy allows.
    async fn collect_images(&self) -> Result<(), Error> {
        let file_system = self.executor.runtime.image_file_system().await?;
        let Some(usage) = DiskUsage::read(&file_system.path) else {
            return Ok(());
        };
        // The first call sees which images are there, so that they have an age later.
        let excess = self.policy.excess(usage);
        let freed = self.remove_images(excess).await?;
        if freed < excess {
            tracing::warn!(
                freed,
                excess,
                "cannot free enough space on the disk of images by removing unused ones"
            );
        }
        Ok(())
    }

    /// Removes unused images until so many bytes are free. Returns how many are.
    async fn remove_images(&self, bytes: u64) -> Result<u64, Error> {
        let runtime = &self.executor.runtime;
        let now = self.executor.clock.now();
        let containers = runtime.list_containers().await?;
        let in_use: BTreeSet<&str> = containers
            .iter()
            .flat_map(|container| [container.image_id.as_str(), container.image.as_str()])
            .collect();
        let images = runtime.list_images().await?;
        if let Some(records) = self.executor.setup.pull_records() {
            records.retain(&images, now).await;
        }
        let unused = {
            let mut records = self.images.lock();
            records.update(&images, &in_use, now);
            records.unused(&images, &self.policy, now)
        };
        let sizes: BTreeMap<&str, u64> = images
            .iter()
            .map(|image| (image.id.as_str(), image.size))
            .collect();
        let mut freed = 0_u64;
        for id in unused {
            if freed >= bytes {
                break;
            }
            tracing::info!(image = id, "removing an unused image");
            match runtime.remove_image(&id).await {
                Ok(()) => freed = freed.saturating_add(sizes.get(id.as_str()).copied().unwrap_or(0)),
                // The others are removed nevertheless.
                Err(error) => tracing::warn!(image = id, %error, "cannot remove an unused image"),
            }
        }
        Ok(freed)
    }
}

/// The dead containers to remove: all of pods that have ended, and of others those beyond the newest of each name.
fn superfluous<'a>(
    containers: &'a [ContainerRecord],
    of_pod: impl Fn(&ContainerRecord) -> Option<&'a str>,
    ended: &HashSet<String>,
) -> Vec<&'a ContainerRecord> {
    let mut dead: BTreeMap<(&str, &str), Vec<&ContainerRecord>> = BTreeMap::new();
    for container in containers {
        if let (Some(uid), ContainerState::Exited(_)) = (of_pod(container), &container.state) {
            dead.entry((uid, &container.name)).or_default().push(container);
        }
    }
    let mut superfluous = Vec::new();
    for ((uid, _), mut own) in dead {
        own.sort_by_key(|container| std::cmp::Reverse((container.created_at, container.attempt)));
        let kept = if ended.contains(uid) {
            0
        } else {
            KEPT_DEAD_CONTAINERS
        };
        superfluous.extend(own.into_iter().skip(kept));
    }
    superfluous
}

#[cfg(test)]
mod tests;
