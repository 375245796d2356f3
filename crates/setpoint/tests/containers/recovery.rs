//! An agent as a process of its own: it is killed, or its API server is, while its containers go on.

use crate::rig::{Rig, UNLIMITED, isolated};
use crate::{SLEEP, pod};

const PODS: usize = 30;

/// Replaces the server and its node by a server and an agent of its own.
fn separate(rig: &mut Rig) -> std::process::Child {
    rig.restart_server_with(&["--nodes=0"]);
    rig.start_agent(&UNLIMITED)
}

/// CL7
#[test]
fn a_killed_agent_finds_its_thirty_pods_again() {
    isolated(
        "recovery::a_killed_agent_finds_its_thirty_pods_again",
        |rig: &mut Rig| {
            let mut agent = separate(rig);
            let pods: Vec<String> = (0..PODS)
                .map(|number| pod(&format!("web-{number}"), SLEEP, "", "nodeName: n1"))
                .collect();
            rig.apply(&pods.join("---\n"));
            rig.run("wait pod --all --for=condition=Ready --timeout=300s");
            let ids = "get pods -o jsonpath={.items[*].status.containerStatuses[0].containerID}";
            let before = rig.run(ids);
            agent.kill().unwrap();
            agent.wait().unwrap();
            // A pod that is created and one that is deleted while there is no agent.
            rig.apply(&pod("later", SLEEP, "", "nodeName: n1"));
            rig.run("delete pod web-0 --wait=false");
            agent = rig.start_agent(&UNLIMITED);
            rig.run("wait pod/later --for=condition=Ready --timeout=120s");
            rig.run("wait pod/web-0 --for=delete --timeout=120s");
            rig.run("delete pod later --timeout=60s");
            let after = rig.run(ids);
            assert_eq!(after.split(' ').count(), PODS - 1);
            assert!(
                after.split(' ').all(|id| before.contains(id)),
                "{before}\n{after}"
            );
            let restarts =
                rig.run("get pods -o jsonpath={.items[*].status.containerStatuses[0].restartCount}");
            assert_eq!(restarts.replace('0', "").trim(), "");
            let phases = rig.run("get pods -o jsonpath={.items[*].status.phase}");
            assert_eq!(phases.matches("Running").count(), PODS - 1);
            agent.kill().unwrap();
            agent.wait().unwrap();
        },
    );
}

/// CL7: while the API server is down, containers crash and are restarted; their status is right afterwards.
#[test]
fn crashes_without_an_api_server_are_reported_afterwards() {
    isolated(
        "recovery::crashes_without_an_api_server_are_reported_afterwards",
        |rig: &mut Rig| {
            let mut agent = separate(rig);
            rig.apply(&pod("crash", "sleep 1; exit 4", "", "nodeName: n1"));
            rig.apply(&pod("web", SLEEP, "", "nodeName: n1"));
            rig.run("wait pod/web --for=condition=Ready --timeout=120s");
            let restarts = "get pod crash -o jsonpath={.status.containerStatuses[0].restartCount}";
            rig.until(restarts, "1");
            let before = rig.containers();
            rig.kill_server();
            // The second restart comes after 10 s of back-off, without the API server.
            rig.wait_until("the container is restarted", || {
                rig.containers().lines().any(|id| !before.contains(id))
            });
            rig.start_server_alone();
            rig.wait_until("the second restart is reported", || {
                rig.outcome(restarts)
                    .1
                    .parse::<u32>()
                    .is_ok_and(|count| count >= 2)
            });
            rig.until(
                "get pod crash -o jsonpath={.status.containerStatuses[0].lastState.terminated.exitCode}",
                "4",
            );
            rig.until(
                "get pod crash -o jsonpath={.status.containerStatuses[0].state.waiting.reason}",
                "CrashLoopBackOff",
            );
            let ready = "get pod web -o jsonpath={.status.conditions[?(@.type=='Ready')].status}";
            rig.until(ready, "True");
            rig.until(
                "get node n1 -o jsonpath={.status.conditions[?(@.type=='Ready')].status}",
                "True",
            );
            agent.kill().unwrap();
            agent.wait().unwrap();
        },
    );
}
