//! Defaults of an autoscaler.

use setpoint_schema::{Map, Tree};

/// The default target of average CPU utilization, in percent.
const CPU_PERCENT: i32 = 80;
const PERIOD_SECONDS: i32 = 15;

/// Defaults: at least one pod, the CPU utilization metric, and every missing field of `behavior` if the caller has
/// set some of it.
pub(super) fn set_defaults(spec: &mut Tree) {
    spec.set_default("minReplicas", 1);
    if spec.items("metrics").is_empty() {
        spec.set(&["metrics"], vec![cpu(CPU_PERCENT)]);
    }
    let Some(behavior) = spec.find_mut("behavior") else {
        return;
    };
    let up = behavior.child("scaleUp");
    up.set_default("stabilizationWindowSeconds", 0);
    up.set_default("selectPolicy", "Max");
    default_policies(up, &[("Pods", 4), ("Percent", 100)]);
    let down = behavior.child("scaleDown");
    down.set_default("selectPolicy", "Max");
    default_policies(down, &[("Percent", 100)]);
}

/// A metric of CPU utilization.
pub(super) fn cpu(percent: impl Into<Tree>) -> Tree {
    let mut metric = Tree::default();
    metric.set(&["type"], "Resource");
    metric.set(&["resource", "name"], "cpu");
    metric.set(&["resource", "target", "type"], "Utilization");
    metric.set(&["resource", "target", "averageUtilization"], percent);
    metric
}

fn default_policies(rules: &mut Tree, policies: &[(&str, i32)]) {
    let policies: Vec<Tree> = policies
        .iter()
        .map(|(kind, value)| {
            let mut policy = Map::default();
            policy.insert("type", *kind);
            policy.insert("value", *value);
            policy.insert("periodSeconds", PERIOD_SECONDS);
            policy.into()
        })
        .collect();
    rules.set_default("policies", policies);
}
