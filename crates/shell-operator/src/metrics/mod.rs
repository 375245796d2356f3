//! Metrics in the Prometheus text format: those of this program, and those that hooks write to a file.

mod hook_operations;
pub(crate) mod names;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use parking_lot::Mutex;

pub(crate) use hook_operations::{MetricOperation, parse_operations};

/// Metrics by name and labels.
#[derive(Debug)]
pub struct MetricStorage {
    /// Replaces `{PREFIX}` in names.
    prefix: String,
    families: Mutex<BTreeMap<String, Family>>,
}

/// The labels of one time series, sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabelSet(BTreeMap<String, String>);

#[derive(Debug)]
struct Family {
    kind: MetricKind,
    series: BTreeMap<LabelSet, Series>,
}

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Debug)]
struct Series {
    /// The group, which expires as a whole.
    group: Option<String>,
    value: Value,
}

#[derive(Debug)]
enum Value {
    Number(f64),
    Histogram(Histogram),
}

#[derive(Debug)]
struct Histogram {
    /// Upper bounds with the number of values up to them.
    buckets: Vec<(f64, u64)>,
    sum: f64,
    count: u64,
}

/// The upper bounds of durations, in seconds.
pub(crate) const DURATION_BUCKETS: &[f64] = &[
    0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
];

// === impl MetricStorage ===

impl MetricStorage {
    /// No metrics yet. The prefix replaces `{PREFIX}` in names.
    pub fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            families: Mutex::default(),
        }
    }

    pub(crate) fn add_counter(&self, name: &str, labels: &LabelSet, value: f64) {
        self.number(name, MetricKind::Counter, labels, |old| old + value);
    }

    pub(crate) fn set_gauge(&self, name: &str, labels: &LabelSet, value: f64) {
        self.number(name, MetricKind::Gauge, labels, |_| value);
    }

    pub(crate) fn observe(&self, name: &str, labels: &LabelSet, value: f64) {
        self.histogram(name, labels, DURATION_BUCKETS, value);
    }

    /// Applies what a hook has written. Metrics of a group that are not written again expire.
    pub(crate) fn apply(&self, operations: &[MetricOperation], hook: &str) {
        let groups = operations
            .iter()
            .filter_map(|operation| operation.group.as_deref());
        let groups: std::collections::BTreeSet<&str> = groups.collect();
        for group in groups {
            self.apply_group(group, operations, hook);
        }
        for operation in operations.iter().filter(|operation| operation.group.is_none()) {
            self.apply_one(operation, hook);
        }
    }

    fn apply_group(&self, group: &str, operations: &[MetricOperation], hook: &str) {
        let of_group = |operation: &&MetricOperation| operation.group.as_deref() == Some(group);
        // An expiry removes everything before it.
        let last_expiry = operations
            .iter()
            .rposition(|operation| of_group(&operation) && operation.is_expiry());
        let written = operations.iter().skip(last_expiry.map_or(0, |at| at + 1));
        let written: Vec<&MetricOperation> = written.filter(of_group).collect();
        let is_written = |name: &str, labels: &LabelSet| {
            last_expiry.is_none()
                && written
                    .iter()
                    .any(|operation| operation.name == name && operation.labels(hook) == *labels)
        };
        for (name, family) in self.families.lock().iter_mut() {
            family
                .series
                .retain(|labels, series| series.group.as_deref() != Some(group) || is_written(name, labels));
        }
        for operation in written {
            self.apply_one(operation, hook);
        }
    }

    fn apply_one(&self, operation: &MetricOperation, hook: &str) {
        let labels = operation.labels(hook);
        let value = operation.value;
        match operation.action.as_str() {
            "add" => self.number(&operation.name, MetricKind::Counter, &labels, |old| old + value),
            "set" => self.number(&operation.name, MetricKind::Gauge, &labels, |_| value),
            "observe" => self.histogram(&operation.name, &labels, &operation.buckets, value),
            _ => return,
        }
        if let Some(family) = self.families.lock().get_mut(&operation.name)
            && let Some(series) = family.series.get_mut(&labels)
        {
            series.group.clone_from(&operation.group);
        }
    }

    fn number(&self, name: &str, kind: MetricKind, labels: &LabelSet, change: impl FnOnce(f64) -> f64) {
        let mut families = self.families.lock();
        let name = self.full_name(name);
        let series = series(&mut families, name, kind, labels, || Value::Number(0.0));
        if let Some(Value::Number(number)) = series {
            *number = change(*number);
        }
    }

    fn histogram(&self, name: &str, labels: &LabelSet, buckets: &[f64], value: f64) {
        let mut families = self.families.lock();
        let new = || Value::Histogram(Histogram::new(buckets));
        let name = self.full_name(name);
        let series = series(&mut families, name, MetricKind::Histogram, labels, new);
        if let Some(Value::Histogram(histogram)) = series {
            histogram.observe(value);
        }
    }

    fn full_name(&self, name: &str) -> String {
        name.replace("{PREFIX}", &self.prefix)
    }

    /// All metrics in the text format.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (name, family) in self.families.lock().iter() {
            if family.series.is_empty() {
                continue;
            }
            let kind = family.kind.as_str();
            let _ = writeln!(text, "# HELP {name} {name}\n# TYPE {name} {kind}");
            for (labels, series) in &family.series {
                series.value.write(&mut text, name, labels);
            }
        }
        text
    }
}

/// The value of a series, which is created if it does not exist; `None` if the name has another type, which is logged.
fn series<'a>(
    families: &'a mut BTreeMap<String, Family>,
    name: String,
    kind: MetricKind,
    labels: &LabelSet,
    new: impl FnOnce() -> Value,
) -> Option<&'a mut Value> {
    let series = BTreeMap::new();
    let family = families.entry(name.clone()).or_insert(Family { kind, series });
    if family.kind != kind {
        tracing::error!(name, "metric has two types; the value is dropped");
        return None;
    }
    let series = family.series.entry(labels.clone()).or_insert_with(|| Series {
        group: None,
        value: new(),
    });
    Some(&mut series.value)
}

// === impl LabelSet ===

impl LabelSet {
    /// These labels.
    pub fn new<const N: usize>(labels: [(&str, &str); N]) -> Self {
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self(labels.into())
    }

    /// The labels of metrics of one binding.
    pub(crate) fn of_binding(hook: &str, binding: &str, queue: &str) -> Self {
        Self::new([("hook", hook), ("binding", binding), ("queue", queue)])
    }

    fn with(&self, name: &str, value: &str) -> Self {
        let mut labels = self.clone();
        labels.0.insert(name.to_owned(), value.to_owned());
        labels
    }

    fn write(&self, text: &mut String) {
        if self.0.is_empty() {
            return;
        }
        text.push('{');
        for (at, (name, value)) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let value = value
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let _ = write!(text, "{comma}{name}=\"{value}\"");
        }
        text.push('}');
    }
}

// === impl Value ===

impl Value {
    fn write(&self, text: &mut String, name: &str, labels: &LabelSet) {
        let mut line = |suffix: &str, labels: &LabelSet, value: f64| {
            let _ = write!(text, "{name}{suffix}");
            labels.write(text);
            let _ = writeln!(text, " {value}");
        };
        match self {
            Self::Number(number) => line("", labels, *number),
            Self::Histogram(histogram) => {
                for (bound, count) in &histogram.buckets {
                    line("_bucket", &labels.with("le", &bound.to_string()), *count as f64);
                }
                let count = histogram.count as f64;
                line("_bucket", &labels.with("le", "+Inf"), count);
                line("_sum", labels, histogram.sum);
                line("_count", labels, count);
            }
        }
    }
}

impl Histogram {
    fn new(buckets: &[f64]) -> Self {
        Self {
            buckets: buckets.iter().map(|bound| (*bound, 0)).collect(),
            sum: 0.0,
            count: 0,
        }
    }

    fn observe(&mut self, value: f64) {
        for (bound, count) in &mut self.buckets {
            *count += u64::from(value <= *bound);
        }
        self.sum += value;
        self.count += 1;
    }
}

impl MetricKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

#[cfg(test)]
mod tests;
