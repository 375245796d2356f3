//! Cgroups of pods on a node with containerd.

use std::process::Command;

use crate::rig::{Rig, cgroup_root, isolated};
use crate::{SLEEP, pod};

/// The paths of this name below the cgroup of all pods, in all hierarchies.
pub(crate) fn find(name: &str) -> Vec<String> {
    let pattern = format!("*/{}/{name}", cgroup_root());
    let output = Command::new("find")
        .args(["/sys/fs/cgroup", "-path", &pattern])
        .output()
        .unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    output.lines().map(ToOwned::to_owned).collect()
}

#[track_caller]
pub(crate) fn check_content(files: &[String], expected: &str) {
    let contents: Vec<String> = files
        .iter()
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect();
    assert_eq!(contents, [format!("{expected}\n")], "{files:?}");
}

#[test]
fn the_cgroup_of_a_pod_has_its_limits_and_ends_with_it() {
    isolated(
        "cgroups::the_cgroup_of_a_pod_has_its_limits_and_ends_with_it",
        |rig: &mut Rig| {
            let limits = "resources: { requests: { cpu: 250m }, limits: { memory: 64Mi } }";
            rig.apply(&pod("limited", SLEEP, limits, ""));
            rig.apply(&pod("done", "exit 0", "", "restartPolicy: Never"));
            rig.run("wait pod/limited --for=condition=Ready --timeout=60s");
            let uid = rig.run("get pod limited -o jsonpath={.metadata.uid}");
            let memory = find(&format!("burstable/pod{uid}/memory.limit_in_bytes"));
            let memory = [memory, find(&format!("burstable/pod{uid}/memory.max"))].concat();
            check_content(&memory, "67108864");
            let cpu = find(&format!("burstable/pod{uid}/cpu.shares"));
            let is_v1 = !cpu.is_empty();
            if is_v1 {
                check_content(&cpu, "256");
                check_content(&find("burstable/cpu.shares"), "256");
                check_content(&find("besteffort/cpu.shares"), "2");
            }
            // The sandbox and the container are below the pod.
            let containers = find(&format!("burstable/pod{uid}/*/cgroup.procs"));
            assert!(containers.len() >= 2, "{containers:?}");
            rig.until("get pod done -o jsonpath={.status.phase}", "Succeeded");
            let done = rig.run("get pod done -o jsonpath={.metadata.uid}");
            rig.wait_until("the cgroup is removed", || {
                find(&format!("*/pod{done}")).is_empty()
            });
            rig.run("delete pod limited --timeout=60s");
            assert_eq!(find("*/pod*"), [""; 0]);
        },
    );
}
