//! `kubectl top` without metrics-server: the usage of the machine and of its containers, from their cgroups.

use crate::rig::{Rig, isolated};
use crate::{SLEEP, pod};

#[test]
fn kubectl_top_shows_the_usage_of_the_machine_and_of_containers() {
    isolated(
        "metrics::kubectl_top_shows_the_usage_of_the_machine_and_of_containers",
        |rig: &mut Rig| {
            let limits = "resources: { limits: { cpu: 200m } }";
            rig.apply(&pod("busy", "while true; do :; done", limits, ""));
            rig.apply(&pod("idle", SLEEP, "", ""));
            rig.run("wait pod --all --for=condition=Ready --timeout=60s");
            rig.until("top pods --no-headers", "busy");
            rig.until("top pods --no-headers", "idle");
            let containers = rig.run("top pod busy --containers --no-headers");
            let words: Vec<&str> = containers.split_whitespace().collect();
            assert_eq!(words[..2], ["busy", "main"]);
            let millicores: u32 = words[2].strip_suffix('m').unwrap().parse().unwrap();
            // The limit is the most that it can use; on a busy machine it gets less.
            assert!((1..=220).contains(&millicores), "{containers}");
            rig.until("top nodes --no-headers", "n1");
            let usage = rig.run("get --raw /apis/metrics.k8s.io/v1beta1/nodes/n1");
            let usage: serde_json::Value = serde_json::from_str(&usage).unwrap();
            let memory: setpoint_api::Quantity = usage["usage"]["memory"].as_str().unwrap().parse().unwrap();
            // More than the containers: the machine runs other programs.
            assert!(memory.value() > 32 << 20, "{usage}");
        },
    );
}
