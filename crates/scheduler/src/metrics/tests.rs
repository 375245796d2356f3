//! Tests of the metrics of scheduling cycles.

use setpoint_api::SystemClock;

use super::*;
use crate::cycle::{Rotation, SignatureCache, plan_cached};
use crate::fixtures;
use crate::framework::Handle;
use crate::plugins::default_profile;

/// A profile, and the metrics that its recorder writes to.
fn profile() -> (Profile, Metrics) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let metrics = Metrics::new(clock.clone());
    let mut profile = default_profile(&Handle::default());
    profile.recorder = metrics.recorder(&profile, clock);
    (profile, metrics)
}

/// The value of a metric with these labels.
#[track_caller]
fn check(metrics: &Metrics, sample: &str, expected: &str) {
    let text = metrics.to_text();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    assert_eq!(line.unwrap_or("absent"), expected, "{sample}");
}

fn evaluations(plugin: &str, point: &str) -> String {
    let labels = format!("extension_point=\"{point}\",plugin=\"{plugin}\",profile=\"default-scheduler\"");
    format!("scheduler_plugin_evaluation_total{{{labels}}}")
}

/// FL5
#[tokio::test]
async fn equal_pods_share_the_evaluations_of_a_cycle() {
    let (profile, metrics) = profile();
    let cluster = fixtures::cluster("a=1000 b=1000 c=100");
    let mut cache = SignatureCache::default();
    let pod = fixtures::pod_requesting("p", "", 500);
    for turn in 0..2 {
        let rotation = Rotation { start: 0, turn };
        plan_cached(&profile, &pod, &cluster, rotation, &mut cache).unwrap();
    }
    check(&metrics, &evaluations("NodeUnschedulable", "Filter"), "3");
    check(&metrics, &evaluations("NodeResourcesFit", "Filter"), "3");
    check(&metrics, &evaluations("NodeResourcesFit", "Score"), "2");
    let labels = "extension_point=\"Filter\",profile=\"default-scheduler\",status=\"Success\"";
    let name = "scheduler_framework_extension_point_duration_seconds_count";
    check(&metrics, &format!("{name}{{{labels}}}"), "2");
}

#[tokio::test]
async fn one_of_ten_cycles_has_its_plugins_timed() {
    let (profile, metrics) = profile();
    let cluster = fixtures::cluster("a=1000");
    let pod = fixtures::pod_requesting("p", "", 500);
    for turn in 0..20 {
        let rotation = Rotation { start: 0, turn };
        crate::cycle::plan(&profile, &pod, &cluster, rotation).unwrap();
    }
    let labels = "extension_point=\"Filter\",plugin=\"NodeResourcesFit\",status=\"Success\"";
    let name = "scheduler_plugin_execution_duration_seconds_count";
    check(&metrics, &format!("{name}{{{labels}}}"), "2");
    check(&metrics, &evaluations("NodeResourcesFit", "Filter"), "20");
}

#[tokio::test]
async fn a_filter_behind_one_that_rejects_all_nodes_is_not_evaluated() {
    let (profile, metrics) = profile();
    let cluster = fixtures::cluster("a=100 b=100");
    let pod = fixtures::pod_requesting("p", "", 500);
    assert!(crate::cycle::plan(&profile, &pod, &cluster, Rotation::default()).is_err());
    check(&metrics, &evaluations("NodeResourcesFit", "Filter"), "2");
    check(&metrics, &evaluations("NodeResourcesFit", "Score"), "0");
}

/// FL5
#[test]
fn every_metric_of_kube_scheduler_is_written_with_its_type() {
    let text = profile().1.to_text();
    let rows = setpoint_reference::rows("metrics-names");
    let own = rows
        .iter()
        .filter(|row| row.cell("name").starts_with("scheduler_"));
    let missing: Vec<String> = own
        .map(|row| format!("# TYPE {} {}", row.cell("name"), row.cell("type")))
        .filter(|line| !text.lines().any(|own| own == line))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
