//! The use of a resource by each pod.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use setpoint_container_runtime::{ContainerStats, Error, Runtime};

use super::threshold::Signal;

/// What the containers of a pod use, by name.
pub(super) type ContainerUsage = BTreeMap<String, ContainerStats>;

/// The containers of all pods, by the uid of the pod.
pub(super) async fn container_usage(runtime: &dyn Runtime) -> Result<HashMap<String, ContainerUsage>, Error> {
    let stats = runtime.container_stats().await?;
    let mut stats: HashMap<_, _> = stats.into_iter().map(|one| (one.id.clone(), one)).collect();
    let sandboxes = runtime.list_sandboxes().await?;
    let uids: HashMap<_, _> = sandboxes.into_iter().map(|one| (one.id, one.pod.uid)).collect();
    let mut pods: HashMap<String, ContainerUsage> = HashMap::new();
    for container in runtime.list_containers().await? {
        if let (Some(uid), Some(stats)) = (uids.get(&container.sandbox), stats.remove(&container.id)) {
            let own = pods.entry(uid.clone()).or_default();
            own.insert(container.name, stats);
        }
    }
    Ok(pods)
}

/// What a pod uses of the resource of a signal: its containers, its logs and its volumes on the node's disk.
pub(super) fn pod_usage(signal: Signal, containers: &ContainerUsage, directories: &[PathBuf]) -> Option<i64> {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let containers = containers.values();
    match signal {
        Signal::MemoryAvailable => Some(number(containers.map(|one| one.working_set_bytes).sum())),
        Signal::NodeFsAvailable | Signal::ImageFsAvailable => {
            let layers: u64 = containers.map(|one| one.writable_layer_bytes).sum();
            let files = directories.iter().map(|directory| disk_usage(directory).bytes);
            Some(number(layers.saturating_add(files.sum())))
        }
        Signal::NodeFsInodesFree | Signal::ImageFsInodesFree => {
            let files = directories.iter().map(|directory| disk_usage(directory).inodes);
            Some(number(files.sum()))
        }
        // The runtime does not count processes; the priority decides.
        Signal::PidAvailable => Some(0),
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct DiskUsage {
    bytes: u64,
    inodes: u64,
}

/// What a directory uses with all that is on the same file system below it.
fn disk_usage(directory: &Path) -> DiskUsage {
    use std::os::unix::fs::MetadataExt;
    let mut usage = DiskUsage::default();
    let Ok(root) = std::fs::symlink_metadata(directory) else {
        return usage;
    };
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.dev() != root.dev() {
                continue;
            }
            usage.bytes += metadata.blocks() * 512;
            usage.inodes += 1;
            if metadata.is_dir() {
                directories.push(entry.path());
            }
        }
    }
    usage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_use_of_a_directory_is_that_of_all_files_below_it() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("a")).unwrap();
        std::fs::write(directory.path().join("a/b"), vec![1; 100_000]).unwrap();
        let usage = disk_usage(directory.path());
        assert_eq!(usage.inodes, 2);
        assert!(usage.bytes >= 100_000, "{usage:?}");
        assert_eq!(disk_usage(Path::new("/no/such/directory")), DiskUsage::default());
    }
}
