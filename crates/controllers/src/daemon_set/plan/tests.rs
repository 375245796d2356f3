//! Rows: nodes with their pods in, what to do out.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use setpoint_api::{Header, Key, Stored};

use super::*;

const NOW: i64 = 1_000_000;

fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

fn rules(surge: usize, unavailable: usize) -> Rules {
    Rules {
        on_delete: false,
        surge,
        unavailable,
        min_ready_seconds: 0,
    }
}

/// A pod from words: `new` or `old`, then `ready`, `failed`, `going`.
fn pod(node: &str, words: &str) -> DaemonPod {
    let is_new = words.starts_with("new");
    let has = |word: &str| words.contains(word);
    let mut header = Header::new(Key::new(
        "default",
        &format!("{node}-{}", words.replace(' ', "-")),
    ));
    header.uid = header.key.name().into();
    header.deleting = has("going");
    let phase = if has("failed") { "Failed" } else { "Running" };
    let since = Timestamp::from_second(NOW - 100).unwrap().to_string();
    let ready = if has("ready") { "True" } else { "False" };
    let document = json!({
        "metadata": {"creationTimestamp": Timestamp::from_second(if is_new { NOW - 100 } else { NOW - 200 }).unwrap().to_string()},
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": since}]},
    });
    let pod = Pod::read(Arc::new(Stored::new(header, document.to_string().into(), 1)));
    DaemonPod { pod, is_new }
}

/// Nodes from lines `<fit> <pod>, <pod>`, named `n0` and so on.
#[track_caller]
fn check(rules: Rules, lines: &[&str], expected: &str) {
    let names: Vec<String> = (0..lines.len()).map(|i| format!("n{i}")).collect();
    let parsed: Vec<(Fit, Vec<DaemonPod>)> = lines
        .iter()
        .zip(&names)
        .map(|(line, name)| {
            let (fit, pods) = line.split_once(' ').unwrap_or((line, ""));
            let fit = match fit {
                "run" => Fit::Run,
                "stay" => Fit::Stay,
                _ => Fit::Leave,
            };
            let pods = pods.split(',').map(str::trim).filter(|words| !words.is_empty());
            (fit, pods.map(|words| pod(name, words)).collect())
        })
        .collect();
    let places: Vec<Place<'_>> = parsed
        .iter()
        .zip(&names)
        .map(|((fit, pods), node)| Place {
            node,
            fit: *fit,
            pods: pods.iter().collect(),
        })
        .collect();
    let plan = plan(now(), rules, &places, |_| None);
    let mut words: Vec<String> = plan.create.iter().map(|node| format!("create {node}")).collect();
    words.extend(
        plan.delete
            .iter()
            .map(|pod| format!("delete {}", pod.object().key().name())),
    );
    assert_eq!(words.join("; "), expected);
}

#[test]
fn every_node_that_fits_has_one_pod() {
    check(
        rules(0, 1),
        &["run", "run new ready", "stay", "leave"],
        "create n0",
    );
    check(
        rules(0, 1),
        &["stay new ready", "leave new ready"],
        "delete n1-new-ready",
    );
    check(rules(0, 1), &["run old ready, new ready"], "delete n0-new-ready");
    check(rules(0, 1), &["run new failed"], "delete n0-new-failed");
}

#[test]
fn old_pods_go_as_far_as_nodes_may_be_without_one() {
    check(
        rules(0, 1),
        &["run old ready", "run old ready"],
        "delete n0-old-ready",
    );
    check(rules(0, 1), &["run old ready", "run new"], "");
    check(rules(0, 1), &["run old ready", "run new going"], "");
    check(rules(0, 1), &["run old ready", "run old"], "delete n1-old");
    check(
        rules(0, 2),
        &["run old ready", "run old ready", "run old ready"],
        "delete n0-old-ready; delete n1-old-ready",
    );
}

#[test]
fn with_a_surge_the_new_pod_comes_first() {
    check(rules(1, 0), &["run old ready", "run old ready"], "create n0");
    check(rules(1, 0), &["run old ready, new", "run old ready"], "");
    check(
        rules(1, 0),
        &["run old ready, new ready", "run old ready"],
        "delete n0-old-ready",
    );
}

#[test]
fn on_delete_nothing_is_replaced() {
    let rules = Rules {
        on_delete: true,
        ..rules(0, 1)
    };
    check(rules, &["run old ready", "run"], "create n1");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A rollout ends with a new pod on every node, and never has more nodes without a working pod than allowed.
    #[test]
    fn a_rollout_converges_within_its_bounds(nodes in 1..7usize, surge in 0..4usize, unavailable in 0..4usize) {
        let rules = if surge == 0 { rules(0, unavailable.max(1)) } else { rules(surge, 0) };
        let names: Vec<String> = (0..nodes).map(|i| format!("n{i}")).collect();
        let mut world: Vec<Vec<&str>> = vec![vec!["old ready"]; nodes];
        for _ in 0..40 {
            let pods: Vec<Vec<DaemonPod>> = world.iter().zip(&names)
                .map(|(words, name)| words.iter().map(|words| pod(name, words)).collect()).collect();
            let places: Vec<Place<'_>> = pods.iter().zip(&names)
                .map(|(pods, node)| Place { node, fit: Fit::Run, pods: pods.iter().collect() }).collect();
            let plan = plan(now(), rules, &places, |_| None);
            let (create, delete): (Vec<String>, Vec<String>) = (
                plan.create.iter().map(|node| (*node).to_owned()).collect(),
                plan.delete.iter().map(|pod| pod.object().key().name().to_owned()).collect(),
            );
            for (words, name) in world.iter_mut().zip(&names) {
                words.retain(|own| !delete.contains(&format!("{name}-{}", own.replace(' ', "-"))));
                for own in words.iter_mut().filter(|own| **own == "new") {
                    *own = "new ready";
                }
                if create.contains(name) {
                    words.push("new");
                }
            }
            let without = world.iter().filter(|words| !words.iter().any(|own| own.ends_with("ready"))).count();
            prop_assert!(without <= rules.unavailable);
            let doubled = world.iter().filter(|words| words.len() > 1).count();
            prop_assert!(doubled <= rules.surge);
        }
        prop_assert!(world.iter().all(|words| words == &["new ready"]), "{:?}", world);
    }
}
