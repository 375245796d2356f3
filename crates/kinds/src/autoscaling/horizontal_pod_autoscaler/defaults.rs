//! Defaults of an autoscaler.

use setpoint_schema::{Map, Tree, fields};

/// The default target of average CPU utilization, in percent.
const CPU_PERCENT: i32 = 80;
const PERIOD_SECONDS: i32 = 15;

/// Defaults: at least one pod, the CPU utilization metric, and every missing field of `behavior` if the caller has
/// set some of it.
pub(super) fn set_defaults(spec: &mut Tree) {
    spec.set_default(fields::MIN_REPLICAS, 1);
    if spec.items(fields::METRICS).is_empty() {
        spec.set(&[fields::METRICS], vec![cpu(CPU_PERCENT)]);
    }
    let Some(behavior) = spec.find_mut(fields::BEHAVIOR) else {
        return;
    };
    let up = behavior.child(fields::SCALE_UP);
    up.set_default(fields::STABILIZATION_WINDOW_SECONDS, 0);
    up.set_default(fields::SELECT_POLICY, "Max");
    default_policies(up, &[("Pods", 4), ("Percent", 100)]);
    let down = behavior.child(fields::SCALE_DOWN);
    down.set_default(fields::SELECT_POLICY, "Max");
    default_policies(down, &[("Percent", 100)]);
}

/// A metric of CPU utilization.
pub(super) fn cpu(percent: impl Into<Tree>) -> Tree {
    let mut metric = Tree::default();
    metric.set(&[fields::TYPE], "Resource");
    metric.set(&[fields::RESOURCE, fields::NAME], "cpu");
    metric.set(&[fields::RESOURCE, fields::TARGET, fields::TYPE], "Utilization");
    metric.set(
        &[fields::RESOURCE, fields::TARGET, fields::AVERAGE_UTILIZATION],
        percent,
    );
    metric
}

fn default_policies(rules: &mut Tree, policies: &[(&str, i32)]) {
    let policies: Vec<Tree> = policies
        .iter()
        .map(|(kind, value)| {
            let mut policy = Map::default();
            policy.insert(fields::TYPE, *kind);
            policy.insert(fields::VALUE, *value);
            policy.insert(fields::PERIOD_SECONDS, PERIOD_SECONDS);
            policy.into()
        })
        .collect();
    rules.set_default(fields::POLICIES, policies);
}
