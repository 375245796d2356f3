//! [`Observation`]: how much of each signal is available on this machine.

use std::collections::BTreeMap;
use std::path::Path;

use setpoint_container_runtime::Runtime;

use super::threshold::{Signal, Threshold};

/// What is available of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Observation {
    pub(super) available: i64,
    pub(super) capacity: i64,
}

/// By signal; those that cannot be measured are absent.
pub(super) type Observations = BTreeMap<Signal, Observation>;

/// The root cgroup, of version 1 and 2.
const ROOT_CGROUPS: [&str; 2] = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"];

/// Measures all signals. The volumes and logs of pods are below `root`.
pub(super) async fn observe(runtime: &dyn Runtime, root: &Path) -> Observations {
    let mut observations = Observations::new();
    observations.extend(memory().map(|memory| (Signal::MemoryAvailable, memory)));
    observations.extend(processes().map(|processes| (Signal::PidAvailable, processes)));
    let signals = (Signal::NodeFsAvailable, Signal::NodeFsInodesFree);
    observations.extend(file_system(root, signals));
    if let Ok(images) = runtime.image_file_system().await {
        let signals = (Signal::ImageFsAvailable, Signal::ImageFsInodesFree);
        observations.extend(file_system(Path::new(&images.path), signals));
    }
    observations
}

/// The thresholds that are met, memory first.
pub(super) fn met<'a>(thresholds: &'a [Threshold], observations: &Observations) -> Vec<&'a Threshold> {
    let is_met = |threshold: &&Threshold| {
        let observed = observations.get(&threshold.signal);
        observed.is_some_and(|one| threshold.amount(one.capacity).value() > one.available)
    };
    let mut met: Vec<_> = thresholds.iter().filter(is_met).collect();
    met.sort_by_key(|threshold| threshold.signal != Signal::MemoryAvailable);
    met
}

/// The space and the inodes of the file system of a path.
fn file_system(path: &Path, (space, inodes): (Signal, Signal)) -> Vec<(Signal, Observation)> {
    let Ok(file_system) = rustix::fs::statvfs(path) else {
        return Vec::new();
    };
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let bytes = |blocks: u64| number(blocks.saturating_mul(file_system.f_frsize));
    let all = [
        (space, bytes(file_system.f_bavail), bytes(file_system.f_blocks)),
        (inodes, number(file_system.f_ffree), number(file_system.f_files)),
    ];
    let observation = |(signal, available, capacity)| {
        let observation = Observation { available, capacity };
        // Some file systems have no limit of inodes.
        (capacity > 0).then_some((signal, observation))
    };
    all.into_iter().filter_map(observation).collect()
}

/// The memory in use that the kernel cannot free at once.
pub(crate) fn working_set() -> Option<u64> {
    let memory = memory()?;
    u64::try_from(memory.capacity - memory.available).ok()
}

/// The memory that is free or that the kernel can free at once.
fn memory() -> Option<Observation> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let [v1, v2] = ROOT_CGROUPS;
    let usage = std::fs::read_to_string(Path::new(v1).join("memory.usage_in_bytes"));
    let stat = match usage {
        Ok(_) => std::fs::read_to_string(Path::new(v1).join("memory.stat")),
        Err(_) => std::fs::read_to_string(Path::new(v2).join("memory.stat")),
    };
    memory_available(&meminfo, usage.ok().as_deref(), &stat.ok()?)
}

/// The available memory by the kernel's files: the capacity without the working set, which is what is in use without the
/// file pages that were not used lately. `usage` exists in version 1 of cgroups.
fn memory_available(meminfo: &str, usage: Option<&str>, stat: &str) -> Option<Observation> {
    let capacity = field(meminfo, "MemTotal:")?.saturating_mul(1024);
    let usage = match usage {
        Some(usage) => usage.trim().parse().ok()?,
        None => field(stat, "anon")? + field(stat, "file")?,
    };
    let inactive = field(stat, "total_inactive_file").or_else(|| field(stat, "inactive_file"))?;
    let working_set = i64::max(usage - inactive, 0);
    Some(Observation {
        available: i64::max(capacity - working_set, 0),
        capacity,
    })
}

/// The value of a field in a file of lines.
fn field(text: &str, name: &str) -> Option<i64> {
    let mut lines = text.lines();
    lines.find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == name).then(|| words.next()?.parse().ok())?
    })
}

fn processes() -> Option<Observation> {
    let limit = std::fs::read_to_string("/proc/sys/kernel/pid_max").ok()?;
    let load = std::fs::read_to_string("/proc/loadavg").ok()?;
    let capacity = limit.trim().parse().ok()?;
    // The fourth word: running processes, a slash, all processes.
    let (_, all) = load.split_whitespace().nth(3)?.split_once('/')?;
    Some(Observation {
        available: capacity - all.parse::<i64>().ok()?,
        capacity,
    })
}

#[cfg(test)]
mod tests {
    use super::super::threshold::parse;
    use super::*;

    #[track_caller]
    fn check_memory(usage: Option<&str>, stat: &str, available: i64) {
        let observed = memory_available("MemTotal:       1000 kB\nMemFree: 1 kB\n", usage, stat);
        let capacity = 1_024_000;
        assert_eq!(observed, Some(Observation { available, capacity }));
    }

    #[test]
    fn memory_that_the_kernel_can_free_is_available() {
        check_memory(Some("24000\n"), "cache 9\ntotal_inactive_file 4000\n", 1_004_000);
        check_memory(None, "anon 20000\nfile 8000\ninactive_file 4000\n", 1_000_000);
    }

    #[test]
    fn a_threshold_is_met_when_less_is_available() {
        let thresholds = parse("nodefs.available<10%,memory.available<100").unwrap();
        let observed = |available, capacity| Observation { available, capacity };
        let signals = |observations: &Observations| -> Vec<Signal> {
            let met = met(&thresholds, observations);
            met.iter().map(|threshold| threshold.signal).collect()
        };
        let mut observations = Observations::from([
            (Signal::MemoryAvailable, observed(99, 1000)),
            (Signal::NodeFsAvailable, observed(99, 1000)),
        ]);
        assert_eq!(
            signals(&observations),
            [Signal::MemoryAvailable, Signal::NodeFsAvailable]
        );
        observations.insert(Signal::MemoryAvailable, observed(100, 1000));
        observations.insert(Signal::NodeFsAvailable, observed(100, 1000));
        assert_eq!(signals(&observations), []);
    }

    #[test]
    fn this_machine_has_memory_processes_and_disks() {
        assert!(memory().is_none_or(|memory| memory.available <= memory.capacity));
        assert!(processes().is_some_and(|processes| processes.available > 0));
        let signals = (Signal::NodeFsAvailable, Signal::NodeFsInodesFree);
        assert!(!file_system(Path::new("/"), signals).is_empty());
    }
}
