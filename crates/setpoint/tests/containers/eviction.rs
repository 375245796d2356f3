//! A node that runs out of memory: conditions, eviction, and the logs of removed pods.

use crate::rig::{Rig, isolated};
use crate::{SLEEP, pod};

/// More memory than the machine has: the node is always low on it.
const LOW_MEMORY: [&str; 2] = [
    "--eviction-hard=memory.available<1Pi",
    "--image-gc-high-threshold=100",
];

#[test]
fn a_node_that_is_low_on_memory_evicts_the_pod_that_exceeds_its_request() {
    isolated(
        "eviction::a_node_that_is_low_on_memory_evicts_the_pod_that_exceeds_its_request",
        |rig: &mut Rig| {
            let request = "resources: { requests: { memory: 1Gi } }";
            rig.apply(&pod("modest", SLEEP, request, ""));
            rig.apply(&pod("greedy", SLEEP, "", ""));
            rig.apply(&pod("gone", SLEEP, "", ""));
            rig.run("wait pod --all --for=condition=Ready --timeout=60s");
            let uid = rig.run("get pod gone -o jsonpath={.metadata.uid}");
            let logs = rig.node_directory().join(format!("logs/default_gone_{uid}"));
            rig.run("delete pod gone --timeout=60s");
            assert!(logs.exists());
            rig.restart_server_with(&LOW_MEMORY);
            rig.until("get pod greedy -o jsonpath={.status.reason}", "Evicted");
            rig.wait_until("the logs of the removed pod are removed", || !logs.exists());
            let status = rig.run(
                "get pod greedy -o jsonpath={.status.phase}/{.status.conditions[?(@.type=='DisruptionTarget')].reason}",
            );
            assert_eq!(status, "Failed/TerminationByKubelet");
            let message = rig.run("get pod greedy -o jsonpath={.status.message}");
            assert!(
                message.starts_with("The node was low on resource: memory. "),
                "{message}"
            );
            rig.until(
                "get events --field-selector reason=Evicted",
                "The node was low on resource: memory",
            );
            rig.until(
                "get node n1 -o jsonpath={.status.conditions[?(@.type=='MemoryPressure')].reason}",
                "KubeletHasInsufficientMemory",
            );
            rig.until(
                "get node n1 -o jsonpath={.spec.taints[*].key}",
                "node.kubernetes.io/memory-pressure",
            );
        },
    );
}
