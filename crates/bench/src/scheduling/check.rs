//! The check of a run: every pod has a node, no node is over-committed, and the constraints of the workload hold.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::objects::{LARGE_POD_CPU, NODE_CPU, Workload, ZONES};

/// Pods of one group, counted by node or zone.
type Counts<'a> = HashMap<(&'a str, String), u64>;

/// Checks the pods of a finished run; `zones` has the zone of each node.
pub(super) fn check(workload: Workload, pods: &[Value], zones: &HashMap<String, u64>) -> Result<()> {
    let mut used: HashMap<&str, u64> = HashMap::new();
    let (mut by_node, mut by_zone) = (Counts::new(), Counts::new());
    for pod in pods {
        let name = &pod["metadata"]["name"];
        let node = pod["spec"]["nodeName"].as_str();
        let node = node.with_context(|| format!("pod {name} has no node"))?;
        let zone = zones
            .get(node)
            .with_context(|| format!("pod {name} is on {node}, which is unknown"))?;
        *used.entry(node).or_default() += milli_cpu(pod)?;
        let group = pod["metadata"]["labels"]["app"].as_str().unwrap_or_default();
        *by_node.entry((group, node.to_owned())).or_default() += 1;
        *by_zone.entry((group, zone.to_string())).or_default() += 1;
    }
    for (node, cpu) in used {
        ensure!(
            cpu <= NODE_CPU * 1000,
            "node {node} is over-committed: {cpu}m of {NODE_CPU} CPUs"
        );
    }
    match workload {
        Workload::AntiAffinity => check_anti_affinity(&by_node),
        Workload::Spread => check_spread(&by_zone),
        _ => Ok(()),
    }
}

fn check_anti_affinity(by_node: &Counts<'_>) -> Result<()> {
    let violation = by_node.iter().find(|(_, count)| **count > 1);
    ensure!(violation.is_none(), "anti-affinity is violated: {violation:?}");
    Ok(())
}

fn check_spread(by_zone: &Counts<'_>) -> Result<()> {
    let groups: std::collections::BTreeSet<&str> = by_zone.keys().map(|(group, _)| *group).collect();
    for group in groups {
        let count = |zone: u64| by_zone.get(&(group, zone.to_string())).copied().unwrap_or(0);
        let (least, most) = ((0..ZONES).map(count).min(), (0..ZONES).map(count).max());
        ensure!(
            most.unwrap_or(0) - least.unwrap_or(0) <= 1,
            "{group} is not spread: {least:?} to {most:?} pods in a zone"
        );
    }
    Ok(())
}

/// The CPU request of a pod of the benchmark.
fn milli_cpu(pod: &Value) -> Result<u64> {
    let cpu = &pod["spec"]["containers"][0]["resources"]["requests"]["cpu"];
    match cpu.as_str() {
        Some("100m") => Ok(100),
        Some(whole) if whole == LARGE_POD_CPU.to_string() => Ok(LARGE_POD_CPU * 1000),
        _ => anyhow::bail!("the benchmark creates no pods that request {cpu}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(group: &str, node: &str, cpu: &str) -> Value {
        json!({
            "metadata": {"name": "p", "labels": {"app": group}},
            "spec": {
                "nodeName": node,
                "containers": [{"resources": {"requests": {"cpu": cpu}}}],
            },
        })
    }

    #[track_caller]
    fn rejects(workload: Workload, pods: &[Value], expected: &str) {
        let zones = HashMap::from([("a".to_owned(), 0), ("b".to_owned(), 1)]);
        let error = check(workload, pods, &zones).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn violations_are_found() {
        let large = LARGE_POD_CPU.to_string();
        let five: Vec<Value> = (0..5).map(|_| pod("g", "a", &large)).collect();
        rejects(Workload::Plain, &five, "over-committed");
        let two = [pod("g", "a", "100m"), pod("g", "a", "100m")];
        rejects(Workload::AntiAffinity, &two, "anti-affinity is violated");
        rejects(Workload::Spread, &two, "is not spread");
        rejects(Workload::Plain, &[pod("g", "c", "100m")], "unknown");
    }
}
