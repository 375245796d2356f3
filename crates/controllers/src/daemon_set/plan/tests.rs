//! Table tests: nodes with their pods in, the plan out.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use setpoint_api::{Header, Key, Stored};

use super::*;

const NOW: i64 = 1_000_000;

fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

fn strategy(surge: usize, unavailable: usize) -> UpdateStrategy {
    UpdateStrategy {
        on_delete: false,
        surge,
        unavailable,
        min_ready_seconds: 0,
    }
}

/// A pod from words: `new` or `old`, then `ready`, `failed`, `terminating`.
fn pod(node: &str, words: &str) -> DaemonPod {
    let is_new = words.starts_with("new");
    let has = |word: &str| words.contains(word);
    let mut header = Header::new(Key::new(
        "default",
        &format!("{node}-{}", words.replace(' ', "-")),
    ));
    header.uid = header.key.name().into();
    header.deleting = has("terminating");
    let phase = if has("failed") { "Failed" } else { "Running" };
    let since = Timestamp::from_second(NOW - 100).unwrap().to_string();
    let ready = if has("ready") { "True" } else { "False" };
    let body = json!({
        "metadata": {"creationTimestamp": Timestamp::from_second(if is_new { NOW - 100 } else { NOW - 200 }).unwrap().to_string()},
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": since}]},
    });
    let pod = Pod::read(Arc::new(Stored::new(header, body.to_string().into(), 1)));
    DaemonPod { pod, is_new }
}

/// Nodes from lines `<fit> <pod>, <pod>`, named `n0` and so on.
#[track_caller]
fn check(strategy: UpdateStrategy, lines: &[&str], expected: &str) {
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
    let all_node_pods: Vec<NodePods<'_>> = parsed
        .iter()
        .zip(&names)
        .map(|((fit, pods), node)| NodePods {
            node,
            fit: *fit,
            pods: pods.iter().collect(),
        })
        .collect();
    let plan = plan(now(), strategy, &all_node_pods, |_| None);
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
        strategy(0, 1),
        &["run", "run new ready", "stay", "leave"],
        "create n0",
    );
    check(
        strategy(0, 1),
        &["stay new ready", "leave new ready"],
        "delete n1-new-ready",
    );
    check(
        strategy(0, 1),
        &["run old ready, new ready"],
        "delete n0-new-ready",
    );
    check(strategy(0, 1), &["run new failed"], "delete n0-new-failed");
}

#[test]
fn old_pods_are_deleted_up_to_max_unavailable() {
    check(
        strategy(0, 1),
        &["run old ready", "run old ready"],
        "delete n0-old-ready",
    );
    check(strategy(0, 1), &["run old ready", "run new"], "");
    check(strategy(0, 1), &["run old ready", "run new terminating"], "");
    check(strategy(0, 1), &["run old ready", "run old"], "delete n1-old");
    check(
        strategy(0, 2),
        &["run old ready", "run old ready", "run old ready"],
        "delete n0-old-ready; delete n1-old-ready",
    );
}

#[test]
fn with_a_surge_the_new_pod_is_created_first() {
    check(strategy(1, 0), &["run old ready", "run old ready"], "create n0");
    check(strategy(1, 0), &["run old ready, new", "run old ready"], "");
    check(
        strategy(1, 0),
        &["run old ready, new ready", "run old ready"],
        "delete n0-old-ready",
    );
}

#[test]
fn on_delete_nothing_is_replaced() {
    let strategy = UpdateStrategy {
        on_delete: true,
        ..strategy(0, 1)
    };
    check(strategy, &["run old ready", "run"], "create n1");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A rollout ends with a new pod on every node, and never has more nodes without an available pod than allowed.
    #[test]
    fn a_rollout_converges_within_its_bounds(nodes in 1..7usize, surge in 0..4usize, unavailable in 0..4usize) {
        let strategy = if surge == 0 { strategy(0, unavailable.max(1)) } else { strategy(surge, 0) };
        let names: Vec<String> = (0..nodes).map(|i| format!("n{i}")).collect();
        let mut pod_words: Vec<Vec<&str>> = vec![vec!["old ready"]; nodes];
        for _ in 0..40 {
            let pods: Vec<Vec<DaemonPod>> = pod_words.iter().zip(&names)
                .map(|(words, name)| words.iter().map(|words| pod(name, words)).collect()).collect();
            let all_node_pods: Vec<NodePods<'_>> = pods.iter().zip(&names)
                .map(|(pods, node)| NodePods { node, fit: Fit::Run, pods: pods.iter().collect() }).collect();
            let plan = plan(now(), strategy, &all_node_pods, |_| None);
            let (create, delete): (Vec<String>, Vec<String>) = (
                plan.create.iter().map(|node| (*node).to_owned()).collect(),
                plan.delete.iter().map(|pod| pod.object().key().name().to_owned()).collect(),
            );
            for (words, name) in pod_words.iter_mut().zip(&names) {
                words.retain(|own| !delete.contains(&format!("{name}-{}", own.replace(' ', "-"))));
                for own in words.iter_mut().filter(|own| **own == "new") {
                    *own = "new ready";
                }
                if create.contains(name) {
                    words.push("new");
                }
            }
            let without = pod_words.iter().filter(|words| !words.iter().any(|own| own.ends_with("ready"))).count();
            prop_assert!(without <= strategy.unavailable);
            let doubled = pod_words.iter().filter(|words| words.len() > 1).count();
            prop_assert!(doubled <= strategy.surge);
        }
        prop_assert!(pod_words.iter().all(|words| words == &["new ready"]), "{:?}", pod_words);
    }
}
