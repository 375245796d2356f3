//! The same manifests with containers and with simulated ones: pods reach the same phases, conditions and states.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::rig::{Rig, isolated};
use crate::{SLEEP, pod};

/// The manifests. The annotations specify for simulated containers what the commands of real ones do.
fn manifests() -> String {
    let annotated = |manifest: String, rules: &str| {
        let annotations = format!("annotations: {{ {rules} }}, labels:");
        manifest.replacen("labels:", &annotations, 1)
    };
    let ends = |code: i32| {
        format!("simulated.setpoint.dev/ends-after: 1s, simulated.setpoint.dev/exit-code: \"{code}\"")
    };
    [
        pod("runs", SLEEP, "", ""),
        annotated(pod("completes", "sleep 1", "", "restartPolicy: Never"), &ends(0)),
        annotated(
            pod("fails", "sleep 1; exit 3", "", "restartPolicy: Never"),
            &ends(3),
        ),
        annotated(pod("crashes", "sleep 1; exit 4", "", ""), &ends(4)),
        pod(
            "initialized",
            SLEEP,
            "",
            "initContainers: [ { name: first, image: busybox:test, command: [\"true\"] } ]",
        ),
        pod("unpulled", SLEEP, "imagePullPolicy: Never", "").replace("busybox:test", "absent:1"),
        pod("unschedulable", SLEEP, "", "nodeSelector: { disk: none }"),
    ]
    .join("---\n")
}

/// What must be the same: the phase, the conditions and the state of each container, without times and texts.
fn summary(pods: &str) -> Vec<Value> {
    let pods: Value = serde_json::from_str(pods).unwrap();
    let pods = pods["items"].as_array().unwrap().iter();
    pods.map(|pod| {
        let status = &pod["status"];
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let mut conditions: Vec<String> = conditions
            .iter()
            .map(|one| format!("{}={} {}", one["type"], one["status"], one["reason"]))
            .collect();
        conditions.sort();
        let containers = |list: &str| -> Vec<Value> {
            let statuses = status[list].as_array().cloned().unwrap_or_default();
            statuses.iter().map(container_state).collect()
        };
        json!({
            "name": pod["metadata"]["name"], "phase": status["phase"], "qos": status["qosClass"],
            "conditions": conditions, "containers": containers("containerStatuses"),
            "initContainers": containers("initContainerStatuses"),
        })
    })
    .collect()
}

fn container_state(status: &Value) -> Value {
    let state = &status["state"];
    json!({
        "name": status["name"], "ready": status["ready"], "started": status["started"],
        "waiting": state["waiting"]["reason"], "isRunning": state["running"].is_object(),
        "terminated": [state["terminated"]["reason"], state["terminated"]["exitCode"]],
    })
}

/// A server with one simulated node, and its kubeconfig.
fn start_simulated(rig: &Rig) -> (Child, String) {
    let directory = rig.directory().join("simulated");
    let mut server = Command::new(env!("CARGO_BIN_EXE_setpoint"))
        .args([
            "up",
            "--memory",
            "--runtime=simulated",
            "--listen=127.0.0.1:0",
            "--data-dir",
        ])
        .arg(&directory)
        .args(["--simulation"])
        .arg(simulation_file(rig))
        .stdout(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    (
        server,
        format!("--kubeconfig={}", directory.join("kubeconfig").display()),
    )
}

/// The rules of the simulated node: the image that is absent.
fn simulation_file(rig: &Rig) -> std::path::PathBuf {
    let path = rig.directory().join("simulation.yaml");
    std::fs::write(&path, "unavailableImages: [\"absent:\"]\n").unwrap();
    path
}

/// Waits until every pod has reached the state that it stays in or returns to.
fn settle(rig: &Rig, kubeconfig: &str) {
    let path = "jsonpath={.status.phase}/{.status.containerStatuses[0].state.waiting.reason}";
    for (name, state) in [
        ("runs", "Running/"),
        ("initialized", "Running/"),
        ("completes", "Succeeded/"),
        ("fails", "Failed/"),
        ("unpulled", "Pending/ErrImageNeverPull"),
    ] {
        rig.until(&format!("{kubeconfig} get pod {name} -o {path}"), state);
    }
    rig.until(
        &format!("{kubeconfig} get pod unschedulable -o jsonpath={{.status.conditions[0].reason}}"),
        "Unschedulable",
    );
    // After the third crash the container waits for 20 s, so that the states are read before the next one.
    let path = "jsonpath={.status.containerStatuses[0].restartCount}/{.status.containerStatuses[0].state.waiting.reason}";
    rig.until(
        &format!("{kubeconfig} get pod crashes -o {path}"),
        "2/CrashLoopBackOff",
    );
}

/// FL6, FL8
#[test]
fn the_same_manifests_reach_the_same_states_with_and_without_containers() {
    isolated(
        "phases::the_same_manifests_reach_the_same_states_with_and_without_containers",
        |rig: &mut Rig| {
            let (mut simulated, kubeconfig) = start_simulated(rig);
            rig.until(
                &format!("{kubeconfig} get serviceaccounts -o name"),
                "serviceaccount/default",
            );
            let file = rig.directory().join("pods.yaml");
            std::fs::write(&file, manifests()).unwrap();
            let states = ["", kubeconfig.as_str()].map(|kubeconfig| {
                rig.run(&format!("{kubeconfig} apply -f {}", file.display()));
                settle(rig, kubeconfig);
                summary(&rig.run(&format!("{kubeconfig} get pods -o json")))
            });
            for (real, simulated) in states[0].iter().zip(&states[1]) {
                assert_eq!(real, simulated);
            }
            assert_eq!(states[0].len(), 7);
            simulated.kill().unwrap();
            simulated.wait().unwrap();
        },
    );
}
