//! Output of measurements: JSON lines for programs, a table with goals for people.

use anyhow::Result;
use serde::{Serialize, Serializer};

use crate::{
    processes,
    statistics::{Latencies, Spread},
};

/// Below this load average a machine is idle enough for reliable measurements.
const QUIET_LOAD: f64 = 0.3;

/// A measurement with its baseline, cost and goal.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Measurement {
    /// `store` or `api`.
    pub(crate) bench: &'static str,
    pub(crate) name: String,
    /// The median over the rounds.
    #[serde(serialize_with = "rounded")]
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// The smallest and the largest of the rounds.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded_some")]
    low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded_some")]
    high: Option<f64>,
    /// The same measurement of the baseline, in the same unit and run.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded_some")]
    baseline: Option<f64>,
    /// The median of the rounds' ratios of value to baseline, which need not be the ratio of the medians.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded_some")]
    ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded_some")]
    cpu_us_per_op: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded_some")]
    baseline_cpu_us_per_op: Option<f64>,
    /// CPU of the load generator: a value close to it measures the generator, not the server.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded_some")]
    generator_cpu_us_per_op: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded_some")]
    p50_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded_some")]
    p99_us: Option<f64>,
    /// The number of operations in all rounds.
    n: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    goal: Option<Goal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    met: Option<bool>,
}

/// A bound on the value, or on its ratio to the baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    AtMost(f64),
    AtLeast(f64),
    RatioAtMost(f64),
    RatioAtLeast(f64),
}

/// Collects measurements. Each is printed at once, so an interrupted run keeps its results.
#[derive(Debug, Default)]
pub(crate) struct Report {
    measurements: Vec<Measurement>,
}

// === impl Measurement ===

impl Measurement {
    pub(crate) fn new(bench: &'static str, name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            bench,
            name: name.into(),
            value,
            unit,
            low: None,
            high: None,
            baseline: None,
            ratio: None,
            cpu_us_per_op: None,
            baseline_cpu_us_per_op: None,
            generator_cpu_us_per_op: None,
            p50_us: None,
            p99_us: None,
            n: 0,
            goal: None,
            met: None,
        }
    }

    /// A measurement of several rounds: their median, with the lowest and the highest beside it.
    pub(crate) fn spread(
        bench: &'static str,
        name: impl Into<String>,
        spread: Spread,
        unit: &'static str,
    ) -> Self {
        let mut measurement = Self::new(bench, name, spread.median, unit);
        measurement.low = Some(spread.low);
        measurement.high = Some(spread.high);
        measurement
    }

    /// Sets the baseline of a single comparison, and the ratio.
    pub(crate) fn against(mut self, baseline: f64) -> Self {
        self.baseline = Some(baseline);
        self.ratio = Some(self.value / baseline);
        self
    }

    /// Sets the baseline and the ratio of paired rounds.
    pub(crate) fn paired(mut self, baseline: Spread, ratio: Spread) -> Self {
        self.baseline = Some(baseline.median);
        self.ratio = Some(ratio.median);
        self
    }

    pub(crate) fn latency(mut self, latencies: &Latencies) -> Self {
        self.p50_us = Some(latencies.p50_us());
        self.p99_us = Some(latencies.p99_us());
        self.n = latencies.count();
        self
    }

    pub(crate) fn cpu(mut self, us_per_op: f64) -> Self {
        self.cpu_us_per_op = Some(us_per_op);
        self
    }

    pub(crate) fn baseline_cpu(mut self, us_per_op: f64) -> Self {
        self.baseline_cpu_us_per_op = Some(us_per_op);
        self
    }

    pub(crate) fn generator_cpu(mut self, us_per_op: f64) -> Self {
        self.generator_cpu_us_per_op = Some(us_per_op);
        self
    }

    pub(crate) fn operations(mut self, n: u64) -> Self {
        self.n = n;
        self
    }

    /// Sets the goal. Call last: it evaluates the value and the ratio.
    pub(crate) fn goal(mut self, goal: Goal) -> Self {
        self.goal = Some(goal);
        self.met = Some(goal.is_met(self.value, self.ratio));
        self
    }

    fn summary(&self) -> String {
        let ratio = self.ratio.map(|ratio| format!("{ratio:.2}x")).unwrap_or_default();
        let latency = match (self.p50_us, self.p99_us) {
            (Some(p50), Some(p99)) => format!("{} / {}", short(p50), short(p99)),
            _ => String::new(),
        };
        let cpu = self.cpu_us_per_op.map(short).unwrap_or_default();
        let value = format!("{} {}", short(self.value), self.unit);
        let goal = self.goal.map(|goal| goal.to_string()).unwrap_or_default();
        let result = match self.met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        format!(
            "{:<34} {value:>18} {ratio:>8} {cpu:>8} {latency:>18}  {goal:<15} {result}",
            self.name
        )
        .trim_end()
        .to_owned()
    }
}

// === impl Goal ===

impl Goal {
    /// A goal on a ratio is missed when there is no baseline to compare with.
    fn is_met(self, value: f64, ratio: Option<f64>) -> bool {
        match self {
            Goal::AtMost(bound) => value <= bound,
            Goal::AtLeast(bound) => value >= bound,
            Goal::RatioAtMost(bound) => ratio.is_some_and(|ratio| ratio <= bound),
            Goal::RatioAtLeast(bound) => ratio.is_some_and(|ratio| ratio >= bound),
        }
    }
}

impl std::fmt::Display for Goal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Goal::AtMost(bound) => write!(f, "<= {bound}"),
            Goal::AtLeast(bound) => write!(f, ">= {bound}"),
            Goal::RatioAtMost(bound) => write!(f, "ratio <= {bound}"),
            Goal::RatioAtLeast(bound) => write!(f, "ratio >= {bound}"),
        }
    }
}

impl Serialize for Goal {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

// === impl Report ===

impl Report {
    pub(crate) fn add(&mut self, measurement: Measurement) {
        println!(
            "{}",
            serde_json::to_string(&measurement).expect("a measurement is plain data")
        );
        self.measurements.push(measurement);
    }

    /// Reports the load average before the first measurement.
    pub(crate) fn begin(&mut self, bench: &'static str) -> Result<()> {
        let load = processes::load_average()?;
        if load > QUIET_LOAD {
            eprintln!(
                "the load average is {load}: other work shares this machine, so the measurements will be noisy"
            );
        }
        self.add(Measurement::new(bench, "load_average_before", load, "").operations(1));
        Ok(())
    }

    /// Prints the table for people.
    pub(crate) fn finish(&self) {
        eprintln!(
            "\n{:<34} {:>18} {:>8} {:>8} {:>18}  {:<15}",
            "measurement", "median", "ratio", "cpu us", "p50 / p99 us", "goal"
        );
        for measurement in &self.measurements {
            eprintln!("{}", measurement.summary());
        }
        let goals = self
            .measurements
            .iter()
            .filter(|measurement| measurement.met.is_some())
            .count();
        let met = self
            .measurements
            .iter()
            .filter(|measurement| measurement.met == Some(true))
            .count();
        eprintln!("{met} of {goals} goals met");
    }
}

/// Three significant digits, more only where the number is larger.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn rounded<S: Serializer>(value: &f64, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_f64((value * 1e3).round() / 1e3)
}

fn rounded_some<S: Serializer>(value: &Option<f64>, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    rounded(&value.expect("absent fields are skipped"), serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(goal: Goal, value: f64, baseline: Option<f64>, met: bool) {
        let measurement = Measurement::new("store", "x", value, "us");
        let measurement = match baseline {
            Some(baseline) => measurement.against(baseline),
            None => measurement,
        };
        assert_eq!(measurement.goal(goal).met, Some(met));
    }

    #[test]
    fn a_bound_on_the_value_includes_the_bound() {
        check(Goal::AtMost(70.0), 70.0, None, true);
        check(Goal::AtMost(70.0), 70.1, None, false);
        check(Goal::AtLeast(450.0), 449.0, None, false);
    }

    #[test]
    fn a_bound_on_the_ratio_looks_at_the_baseline() {
        check(Goal::RatioAtLeast(0.9), 95.0, Some(100.0), true);
        check(Goal::RatioAtLeast(0.9), 85.0, Some(100.0), false);
        check(Goal::RatioAtMost(1.5), 151.0, Some(100.0), false);
    }

    #[test]
    fn a_bound_on_the_ratio_is_missed_without_a_baseline() {
        check(Goal::RatioAtMost(1.5), 1.0, None, false);
    }

    #[test]
    fn a_line_holds_only_what_was_measured() {
        let measurement = Measurement::new("api", "get", 21.12345, "us")
            .against(10.0)
            .goal(Goal::AtMost(27.0));
        assert_eq!(
            serde_json::to_string(&measurement).unwrap(),
            r#"{"bench":"api","name":"get","value":21.123,"unit":"us","baseline":10.0,"ratio":2.112,"n":0,"goal":"<= 27","met":true}"#
        );
    }
}
