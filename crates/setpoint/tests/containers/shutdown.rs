//! The shutdown of a node: its agent is a process of its own, which terminates its pods before it ends.

use crate::rig::{Rig, isolated};
use crate::{SLEEP, pod};

#[test]
fn a_node_that_shuts_down_terminates_its_pods() {
    isolated(
        "shutdown::a_node_that_shuts_down_terminates_its_pods",
        |rig: &mut Rig| {
            rig.restart_server_with(&["--nodes=0"]);
            let mut agent = rig.start_agent(&[
                "--shutdown-grace-period=40s",
                "--shutdown-grace-period-critical-pods=20s",
                "--eviction-hard=",
                "--image-gc-high-threshold=100",
            ]);
            let critical = "priorityClassName: system-node-critical";
            rig.apply(&pod("web", SLEEP, "", ""));
            rig.apply(&pod("vital", SLEEP, "", critical));
            rig.run("wait pod --all --for=condition=Ready --timeout=60s");
            rustix::process::kill_process(
                rustix::process::Pid::from_child(&agent),
                rustix::process::Signal::TERM,
            )
            .unwrap();
            assert!(agent.wait().unwrap().success());
            for name in ["web", "vital"] {
                let status = rig.run(&format!(
                    "get pod {name} -o jsonpath={{.status.phase}}/{{.status.reason}}/{{.status.message}}"
                ));
                let message = "Pod was terminated in response to imminent node shutdown.";
                assert_eq!(status, format!("Failed/Terminated/{message}"));
            }
            let finished = "-o jsonpath={.status.containerStatuses[0].state.terminated.finishedAt}";
            let [web, vital] = ["web", "vital"].map(|name| rig.run(&format!("get pod {name} {finished}")));
            assert!(web <= vital, "{web} {vital}");
            let ready = rig.run("get node n1 -o jsonpath={.status.conditions[?(@.type=='Ready')].message}");
            assert_eq!(ready, "node is shutting down");
        },
    );
}
