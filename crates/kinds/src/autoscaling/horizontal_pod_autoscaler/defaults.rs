//! What is filled in where an autoscaler leaves it out.

use setpoint_schema::{Map, Tree};

/// How busy processors should be where nothing is said, in percent.
const CPU_PERCENT: i32 = 80;
const PERIOD_SECONDS: i32 = 15;

/// One pod at least, by how busy processors are; and if the caller has begun to say how to scale, all of it.
pub(super) fn fill(spec: &mut Tree) {
    spec.fill("minReplicas", 1);
    if spec.items("metrics").is_empty() {
        spec.set(&["metrics"], vec![cpu(CPU_PERCENT)]);
    }
    let Some(behavior) = spec.find_mut("behavior") else {
        return;
    };
    let up = behavior.child("scaleUp");
    up.fill("stabilizationWindowSeconds", 0);
    up.fill("selectPolicy", "Max");
    fill_policies(up, &[("Pods", 4), ("Percent", 100)]);
    let down = behavior.child("scaleDown");
    down.fill("selectPolicy", "Max");
    fill_policies(down, &[("Percent", 100)]);
}

/// The measure of how busy processors are.
pub(super) fn cpu(percent: impl Into<Tree>) -> Tree {
    let mut metric = Tree::default();
    metric.set(&["type"], "Resource");
    metric.set(&["resource", "name"], "cpu");
    metric.set(&["resource", "target", "type"], "Utilization");
    metric.set(&["resource", "target", "averageUtilization"], percent);
    metric
}

fn fill_policies(rules: &mut Tree, policies: &[(&str, i32)]) {
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
    rules.fill("policies", policies);
}
