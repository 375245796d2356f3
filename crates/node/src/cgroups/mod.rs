//! Cgroups of pods: the kubelet's hierarchy by quality of service, with the cgroupfs driver.
//!
//! ```text
//! /kubepods                     the node's allocatable amounts
//! /kubepods/pod<uid>            guaranteed pods
//! /kubepods/burstable/pod<uid>  weighted by the sum of the requests
//! /kubepods/besteffort/pod<uid> the least weight
//! ```
//!
//! The agent creates the cgroup of a pod with its limits before the pod's sandbox, and removes it when nothing of the pod
//! runs any more. The runtime creates the cgroups of the containers below it. With version 1 the runtime also creates
//! those of controllers that have no limits here, which are removed together with the others.

mod hierarchy;
mod limits;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1;
use parking_lot::Mutex;
use setpoint_api::{Clock, Quantity};

use crate::container_config::pod_resources::pod_requests;
use crate::container_config::qos::{QosClass, qos_class};
use crate::container_config::{NodeFacts, cgroup_parent, cpu_shares};
use hierarchy::{Hierarchy, Version};
use limits::CgroupLimits;

const MOUNTS: &str = "/proc/self/mountinfo";
/// The controllers of a pod's limits.
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "hugetlb"];
const BURSTABLE: &str = "burstable";
const BEST_EFFORT: &str = "besteffort";
/// How the cgroup of a pod is named: this and its uid.
const POD_PREFIX: &str = "pod";

/// The kernel removes the cgroups of processes that have just ended a little later: so often removal is tried again, after
/// a delay that doubles.
const REMOVE_TRIES: u32 = 6;
const REMOVE_DELAY: Duration = Duration::from_millis(10);

/// Creates and removes the cgroups of pods.
#[derive(Debug)]
pub(crate) struct CgroupManager {
    hierarchies: Vec<Hierarchy>,
    /// The path of the cgroup of all pods, relative to each hierarchy.
    root: PathBuf,
    /// The CPU requests of the burstable pods in thousandths, by uid: the weight of their class is that of the sum.
    burstable: Mutex<HashMap<String, i64>>,
    /// The uids of pods whose cgroup may lack limits, since not all could be written.
    incomplete: Mutex<BTreeSet<String>>,
}

// === impl CgroupManager ===

impl CgroupManager {
    /// The manager of this machine's cgroups, unless they cannot be written: then the runtime creates those that it needs.
    pub(crate) fn start(node: &NodeFacts) -> Option<Self> {
        let mountinfo = std::fs::read_to_string(MOUNTS).unwrap_or_default();
        let manager = Self::new(hierarchy::parse(&mountinfo), &node.cgroup_root);
        let created = manager.create_classes(node);
        if let Err(error) = &created {
            tracing::warn!(%error, "cannot write cgroups: pods have no limits beyond those of their containers");
        }
        created.is_ok().then_some(manager)
    }

    fn new(hierarchies: Vec<Hierarchy>, root: &str) -> Self {
        Self {
            hierarchies,
            root: PathBuf::from(root.trim_matches('/')),
            burstable: Mutex::default(),
            incomplete: Mutex::default(),
        }
    }

    /// The cgroups of all pods and of the classes. Those of a previous agent are kept.
    fn create_classes(&self, node: &NodeFacts) -> io::Result<()> {
        let cpu = node.allocatable.get("cpu").and_then(|cpu| cpu.parse().ok());
        let all = CgroupLimits {
            cpu_shares: cpu.map(|cpu: Quantity| cpu_shares(cpu.milli_value())),
            memory: Some(node.memory_capacity).filter(|memory| *memory > 0),
            ..CgroupLimits::default()
        };
        self.create(&self.root, &all)?;
        let least = CgroupLimits {
            cpu_shares: Some(cpu_shares(0)),
            ..CgroupLimits::default()
        };
        self.create(&self.root.join(BEST_EFFORT), &least)?;
        self.create(&self.root.join(BURSTABLE), &least)
    }

    /// Creates the cgroup of a pod with its limits, unless it exists with all of them.
    pub(crate) fn ensure(&self, pod: &v1::Pod, node: &NodeFacts) -> io::Result<()> {
        let cgroup = cgroup_parent(pod, node);
        let cgroup = Path::new(cgroup.trim_start_matches('/'));
        self.add(pod);
        let exists = |hierarchy: &Hierarchy| hierarchy.path.join(cgroup).is_dir();
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        if self.limiting().all(exists) && !self.incomplete.lock().contains(uid) {
            return Ok(());
        }
        self.incomplete.lock().insert(uid.to_owned());
        self.create(cgroup, &CgroupLimits::of_pod(pod))?;
        self.incomplete.lock().remove(uid);
        Ok(())
    }

    /// Changes the limits of a pod's cgroup.
    pub(crate) fn update(&self, pod: &v1::Pod, node: &NodeFacts) -> io::Result<()> {
        let cgroup = cgroup_parent(pod, node);
        self.add(pod);
        self.create(
            Path::new(cgroup.trim_start_matches('/')),
            &CgroupLimits::of_pod(pod),
        )
    }

    /// Counts the requests of a running pod for the weight of its class.
    pub(crate) fn add(&self, pod: &v1::Pod) {
        if qos_class(pod) != QosClass::Burstable {
            return;
        }
        let request = limits::milli(&pod_requests(pod), "cpu");
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let before = self.burstable.lock().insert(uid, request);
        if before != Some(request) {
            self.update_burstable();
        }
    }

    /// Removes the cgroup of a pod of which nothing runs.
    pub(crate) async fn remove(&self, uid: &str, clock: &dyn Clock) {
        if self.burstable.lock().remove(uid).is_some() {
            self.update_burstable();
        }
        self.incomplete.lock().remove(uid);
        let mut delay = REMOVE_DELAY;
        for _ in 0..REMOVE_TRIES {
            let Err(error) = self.try_remove(uid) else {
                return;
            };
            tracing::debug!(uid, %error, "cannot remove the cgroup of a pod yet");
            clock.sleep(delay).await;
            delay *= 2;
        }
        tracing::warn!(uid, "cannot remove the cgroup of a pod, it is tried again later");
    }

    /// The uids of all pods that have a cgroup.
    pub(crate) fn pods(&self) -> BTreeSet<String> {
        let classes = self.class_directories();
        let entries = classes.iter().flat_map(subdirectories);
        let uid = |path: PathBuf| Some(path.file_name()?.to_str()?.strip_prefix(POD_PREFIX)?.to_owned());
        entries.filter_map(uid).collect()
    }

    fn try_remove(&self, uid: &str) -> io::Result<()> {
        for class in self.class_directories() {
            remove_tree(&class.join(format!("{POD_PREFIX}{uid}")))?;
        }
        Ok(())
    }

    /// The directories whose subdirectories are cgroups of pods, in all hierarchies.
    fn class_directories(&self) -> Vec<PathBuf> {
        let roots = self
            .hierarchies
            .iter()
            .map(|hierarchy| hierarchy.path.join(&self.root));
        let classes = |root: PathBuf| [root.join(BURSTABLE), root.join(BEST_EFFORT), root];
        roots.flat_map(classes).collect()
    }

    fn update_burstable(&self) {
        let sum = self
            .burstable
            .lock()
            .values()
            .copied()
            .fold(0, i64::saturating_add);
        let limits = CgroupLimits {
            cpu_shares: Some(cpu_shares(sum)),
            ..CgroupLimits::default()
        };
        if let Err(error) = self.create(&self.root.join(BURSTABLE), &limits) {
            tracing::warn!(%error, "cannot change the weight of the burstable pods");
        }
    }

    /// The hierarchies in which limits are set.
    fn limiting(&self) -> impl Iterator<Item = &Hierarchy> {
        let limits = |hierarchy: &&Hierarchy| CONTROLLERS.iter().any(|name| hierarchy.has(name));
        self.hierarchies.iter().filter(limits)
    }

    /// Creates a cgroup with those above it, and writes its limits.
    fn create(&self, cgroup: &Path, limits: &CgroupLimits) -> io::Result<()> {
        for hierarchy in self.limiting() {
            let directory = hierarchy.path.join(cgroup);
            match hierarchy.version {
                Version::V2 => create_delegated(&hierarchy.path, cgroup)?,
                Version::V1(_) | Version::Hybrid => std::fs::create_dir_all(&directory)?,
            }
            for controller in CONTROLLERS.into_iter().filter(|name| hierarchy.has(name)) {
                for (file, value) in limits.files(&hierarchy.version, controller) {
                    write(&directory.join(file), &value)?;
                }
            }
        }
        Ok(())
    }
}

/// Creates a cgroup of version 2. Every cgroup above it delegates the controllers that it has.
fn create_delegated(root: &Path, cgroup: &Path) -> io::Result<()> {
    let mut directory = root.to_owned();
    for name in cgroup.components() {
        let controllers = std::fs::read_to_string(directory.join("cgroup.controllers"))?;
        for controller in controllers.split_whitespace() {
            // Some controllers cannot be delegated; a limit of theirs fails when it is written.
            let _ = std::fs::write(directory.join("cgroup.subtree_control"), format!("+{controller}"));
        }
        directory.push(name);
        std::fs::create_dir_all(&directory)?;
    }
    Ok(())
}

fn write(path: &Path, value: &str) -> io::Result<()> {
    let named = |error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("cannot write {value:?} to {}: {error}", path.display()),
        )
    };
    std::fs::write(path, value).map_err(named)
}

fn subdirectories(directory: &PathBuf) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.map(|entry| entry.path())
}

/// Removes a cgroup with those below it; the files in them are the kernel's.
fn remove_tree(directory: &PathBuf) -> io::Result<()> {
    for below in subdirectories(directory) {
        remove_tree(&below)?;
    }
    match std::fs::remove_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
