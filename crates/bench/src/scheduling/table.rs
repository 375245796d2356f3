//! The table of all runs: CPU per pod beside the wall time, by workload, nodes, pods and workers.

use std::fmt::Write as _;

use super::run::{Cost, Row, per_pod};

/// The table, with one line for each run.
pub(super) fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<14} {:>7} {:>7} {:>7}  {:>15} {:>8} {:>8}  {:>15} {:>8}\n",
        "workload", "nodes", "pods", "workers", "create and bind", "wall", "pods/s", "alone", "wall"
    );
    for row in rows {
        let plan = row.plan;
        let workers = plan.workers.map_or_else(|| "-".to_owned(), |n| n.to_string());
        let rate = plan.pods as f64 / row.create_and_bind.wall.as_secs_f64();
        let cells = |cost: &Cost| {
            let wall = format!("{:.1} s", cost.wall.as_secs_f64());
            (format!("{:.0} us/pod", per_pod(cost, plan.pods)), wall)
        };
        let (online, wall) = cells(&row.create_and_bind);
        let (alone, alone_wall) = row.alone.as_ref().map(cells).unwrap_or_default();
        let (name, nodes, pods) = (plan.workload.name(), plan.nodes, plan.pods);
        let line = format!(
            "{name:<14} {nodes:>7} {pods:>7} {workers:>7}  {online:>15} {wall:>8} {rate:>8.0}  {alone:>15} {alone_wall:>8}"
        );
        writeln!(text, "{}", line.trim_end()).expect("a string can be written to");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::scheduling::objects::Workload;
    use crate::scheduling::run::Plan;

    #[test]
    fn a_line_has_the_cpu_per_pod_and_the_wall_time() {
        let cost = |millis| Cost {
            cpu: Duration::from_millis(millis),
            wall: Duration::from_secs(2),
        };
        let row = Row {
            plan: Plan::new(Workload::Plain, 500, 1000, Some(2)),
            create_and_bind: cost(400),
            alone: Some(cost(150)),
        };
        let text = table(&[row]);
        let cells: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        let expected = "plain 500 1000 2 400 us/pod 2.0 s 500 150 us/pod 2.0 s";
        assert_eq!(cells.join(" "), expected);
    }
}
