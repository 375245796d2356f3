//! The cgroups of pods in ordinary directories, whose files are not the kernel's.

use std::fs;

use serde_json::json;
use setpoint_api::SystemClock;
use tempfile::TempDir;

use super::*;

/// Two hierarchies of version 1, and one beside them.
fn manager(directory: &TempDir) -> CgroupManager {
    let hierarchy = |name: &str, version| {
        let path = directory.path().join(name);
        fs::create_dir_all(&path).unwrap();
        Hierarchy { path, version }
    };
    let hierarchies = vec![
        hierarchy("cpu", Version::V1(vec!["cpu".to_owned()])),
        hierarchy("memory", Version::V1(vec!["memory".to_owned()])),
        hierarchy("unified", Version::Hybrid),
    ];
    let manager = CgroupManager::new(hierarchies, "/kubepods");
    manager.create_classes(&node()).unwrap();
    manager
}

fn node() -> NodeFacts {
    NodeFacts {
        allocatable: [("cpu".to_owned(), "2".to_owned())].into(),
        memory_capacity: 1 << 30,
        cgroup_root: "/kubepods".to_owned(),
        ..NodeFacts::default()
    }
}

fn pod(uid: &str, cpu: &str) -> v1::Pod {
    let resources = json!({ "requests": { "cpu": cpu }, "limits": { "memory": "64Mi" } });
    let container = json!({ "name": "c", "resources": resources });
    let pod = json!({ "metadata": { "uid": uid }, "spec": { "containers": [container] } });
    serde_json::from_value(pod).unwrap()
}

#[track_caller]
fn check(directory: &TempDir, file: &str, expected: Option<&str>) {
    let read = fs::read_to_string(directory.path().join(file)).ok();
    assert_eq!(read.as_deref(), expected, "{file}");
}

/// Files in these directories stand for those of the kernel, which vanish with their cgroup.
fn remove_files(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => remove_files(&entry.path()),
            false => fs::remove_file(entry.path()).unwrap(),
        }
    }
}

#[test]
fn the_cgroup_of_all_pods_has_what_the_node_can_allocate() {
    let directory = tempfile::tempdir().unwrap();
    manager(&directory);
    check(&directory, "cpu/kubepods/cpu.shares", Some("2048"));
    check(
        &directory,
        "memory/kubepods/memory.limit_in_bytes",
        Some("1073741824"),
    );
    check(&directory, "cpu/kubepods/besteffort/cpu.shares", Some("2"));
}

#[tokio::test]
async fn the_weight_of_burstable_pods_is_the_sum_of_their_requests() {
    let directory = tempfile::tempdir().unwrap();
    let manager = manager(&directory);
    manager.ensure(&pod("a", "500m"), &node()).unwrap();
    manager.ensure(&pod("b", "1500m"), &node()).unwrap();
    check(&directory, "cpu/kubepods/burstable/poda/cpu.shares", Some("512"));
    check(&directory, "cpu/kubepods/burstable/cpu.shares", Some("2048"));
    let memory = "memory/kubepods/burstable/poda/memory.limit_in_bytes";
    check(&directory, memory, Some("67108864"));
    remove_files(&directory.path().join("cpu/kubepods/burstable/podb"));
    remove_files(&directory.path().join("memory/kubepods/burstable/podb"));
    manager.remove("b", &SystemClock::new()).await;
    check(&directory, "cpu/kubepods/burstable/cpu.shares", Some("512"));
}

#[tokio::test]
async fn a_removed_pod_leaves_no_cgroup_in_any_hierarchy() {
    let directory = tempfile::tempdir().unwrap();
    let manager = manager(&directory);
    manager.ensure(&pod("a", "1"), &node()).unwrap();
    // The runtime creates cgroups where the agent does not.
    fs::create_dir_all(directory.path().join("unified/kubepods/burstable/poda/container")).unwrap();
    fs::create_dir_all(directory.path().join("cpu/kubepods/podb/container")).unwrap();
    assert_eq!(manager.pods(), BTreeSet::from(["a".to_owned(), "b".to_owned()]));
    remove_files(directory.path());
    manager.remove("a", &SystemClock::new()).await;
    manager.remove("b", &SystemClock::new()).await;
    assert_eq!(manager.pods(), BTreeSet::new());
    assert!(!directory.path().join("unified/kubepods/burstable/poda").exists());
}

#[test]
fn limits_that_could_not_be_written_are_written_by_the_next_attempt() {
    let directory = tempfile::tempdir().unwrap();
    let manager = manager(&directory);
    let obstacle = directory
        .path()
        .join("memory/kubepods/burstable/podu1/memory.limit_in_bytes");
    fs::create_dir_all(&obstacle).unwrap();
    assert!(manager.ensure(&pod("u1", "1"), &node()).is_err());
    fs::remove_dir(&obstacle).unwrap();
    manager.ensure(&pod("u1", "1"), &node()).unwrap();
    let limit = "memory/kubepods/burstable/podu1/memory.limit_in_bytes";
    check(&directory, limit, Some("67108864"));
}
