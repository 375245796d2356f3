//! The memory limit of the process, if `--max-memory` does not set one: a share of what the machine or its cgroup has.

use std::fs;
use std::path::Path;

/// The share of the memory that is the limit, in percent. The rest is for the page cache and for the requests that are
/// being executed when the limit is reached.
const PERCENT: u64 = 75;

/// The limit in bytes; zero is no limit. If the memory is unknown, there is none.
pub(super) fn limit(flag: Option<u64>) -> u64 {
    flag.unwrap_or_else(|| available().map_or(0, |bytes| bytes / 100 * PERCENT))
}

/// The memory of the machine, or of the cgroup if that has less.
fn available() -> Option<u64> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let machine = total(&read("/proc/meminfo"));
    let v2 = cgroup(Path::new("/sys/fs/cgroup"), &read("/proc/self/cgroup"));
    let v1 = number(&read("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
    [machine, v2, v1].into_iter().flatten().min()
}

/// The total of `/proc/meminfo`, which is in kibibytes.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(number(line.trim().strip_suffix("kB")?)? * 1024)
}

/// The lowest limit of the process's cgroup and of those above it (cgroup v2). Of its path `/proc/self/cgroup` has one
/// line: `0::/system.slice/setpoint.service`.
fn cgroup(root: &Path, groups: &str) -> Option<u64> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let groups = Path::new(path).ancestors();
    let limits =
        groups.filter_map(|group| number(&fs::read_to_string(root.join(group).join("memory.max")).ok()?));
    limits.min()
}

/// A number of bytes; `max` is none.
fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_sets_the_limit() {
        assert_eq!(limit(Some(7)), 7);
        assert_eq!(limit(Some(0)), 0);
        assert!(limit(None) > 0, "this machine has memory");
    }

    #[test]
    fn the_memory_of_the_machine_is_in_kibibytes() {
        assert_eq!(
            total("MemTotal:       16384 kB\nMemFree: 1 kB\n"),
            Some(16384 * 1024)
        );
        assert_eq!(total(""), None);
    }

    #[test]
    fn the_lowest_limit_of_the_cgroups_counts() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("a/b");
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("memory.max"), "max\n").unwrap();
        fs::write(root.path().join("a/memory.max"), "1000\n").unwrap();
        assert_eq!(cgroup(root.path(), "0::/a/b\n"), Some(1000));
        assert_eq!(cgroup(root.path(), "0::/\n"), None);
    }
}
