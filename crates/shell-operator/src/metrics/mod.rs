//! Metrics in the Prometheus text format: those of this program, and those that hooks write to a file.

mod hook_operations;
pub(crate) mod names;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use parking_lot::Mutex;

pub(crate) use hook_operations::{MetricOperation, parse_operations};

/// Metrics by name and labels.
#[derive(Debug)]
pub struct MetricStorage {
    /// Replaces `{PREFIX}` in names.
    prefix: String,
    families: Mutex<Families>,
}

type Families = BTreeMap<String, Family>;

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

/// What the operations of one run write to a group.
#[derive(Debug, Default)]
struct GroupWrites<'n> {
    /// The index of the last operation that expires the group.
    last_expiry: Option<usize>,
    /// The series, by the name of their metric.
    written: BTreeMap<Cow<'n, str>, BTreeSet<LabelSet>>,
}

/// In names of metrics, the position of the prefix.
const PREFIX: &str = "{PREFIX}";
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
        let name = self.full_name(name);
        add_to_histogram(
            &mut self.families.lock(),
            &name,
            labels,
            (DURATION_BUCKETS, value),
        );
    }

    /// Applies what a hook has written. Metrics of a group that are not written again expire. The lock is held for all of
    /// it, so that a reader sees either the old metrics or the new ones.
    pub(crate) fn apply(&self, operations: &[MetricOperation], hook: &str) {
        let groups = self.group_writes(operations, hook);
        let mut families = self.families.lock();
        if !groups.is_empty() {
            for (name, family) in families.iter_mut() {
                family.series.retain(|labels, series| {
                    let group = series.group.as_ref().and_then(|group| groups.get(group.as_str()));
                    group.is_none_or(|group| group.keeps(name, labels))
                });
            }
        }
        for (at, operation) in operations.iter().enumerate() {
            let group = operation.group.as_deref().and_then(|group| groups.get(group));
            // An expiry removes everything before it.
            let is_expired = group.is_some_and(|group| group.last_expiry.is_some_and(|expiry| at <= expiry));
            if !is_expired {
                self.apply_one(&mut families, operation, hook);
            }
        }
    }

    /// What the operations write to each group that they name.
    fn group_writes<'o>(
        &self,
        operations: &'o [MetricOperation],
        hook: &str,
    ) -> BTreeMap<&'o str, GroupWrites<'o>> {
        let mut groups: BTreeMap<&str, GroupWrites<'_>> = BTreeMap::new();
        for (at, operation) in operations.iter().enumerate() {
            let Some(name) = operation.group.as_deref() else {
                continue;
            };
            let group = groups.entry(name).or_default();
            match operation.is_expiry() {
                true => group.last_expiry = Some(at),
                false => {
                    let labels = operation.labels(hook);
                    group
                        .written
                        .entry(self.full_name(&operation.name))
                        .or_default()
                        .insert(labels);
                }
            }
        }
        groups
    }

    fn apply_one(&self, families: &mut Families, operation: &MetricOperation, hook: &str) {
        let (labels, value) = (operation.labels(hook), operation.value);
        let name = self.full_name(&operation.name);
        let series = match operation.action.as_str() {
            "add" => add_number(families, &name, MetricKind::Counter, &labels, |old| old + value),
            "set" => add_number(families, &name, MetricKind::Gauge, &labels, |_| value),
            "observe" => add_to_histogram(families, &name, &labels, (&operation.buckets, value)),
            _ => None,
        };
        if let Some(series) = series {
            series.group.clone_from(&operation.group);
        }
    }

    fn number(&self, name: &str, kind: MetricKind, labels: &LabelSet, change: impl FnOnce(f64) -> f64) {
        add_number(
            &mut self.families.lock(),
            &self.full_name(name),
            kind,
            labels,
            change,
        );
    }

    fn full_name<'n>(&self, name: &'n str) -> Cow<'n, str> {
        match name.contains(PREFIX) {
            true => name.replace(PREFIX, &self.prefix).into(),
            false => name.into(),
        }
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

/// Changes the number of a series, which is created if it does not exist.
fn add_number<'f>(
    families: &'f mut Families,
    name: &str,
    kind: MetricKind,
    labels: &LabelSet,
    change: impl FnOnce(f64) -> f64,
) -> Option<&'f mut Series> {
    let series = series(families, name, kind, labels, || Value::Number(0.0))?;
    if let Value::Number(number) = &mut series.value {
        *number = change(*number);
    }
    Some(series)
}

/// Counts a value in a histogram, which is created with these buckets if it does not exist.
fn add_to_histogram<'f>(
    families: &'f mut Families,
    name: &str,
    labels: &LabelSet,
    (buckets, value): (&[f64], f64),
) -> Option<&'f mut Series> {
    let new = || Value::Histogram(Histogram::new(buckets));
    let series = series(families, name, MetricKind::Histogram, labels, new)?;
    if let Value::Histogram(histogram) = &mut series.value {
        histogram.observe(value);
    }
    Some(series)
}

/// A series, which is created if it does not exist; `None` if the name has another type or a name is not valid in the text
/// format, which is logged. One invalid line would make the whole text unreadable, with the metrics of the other hooks.
fn series<'f>(
    families: &'f mut Families,
    name: &str,
    kind: MetricKind,
    labels: &LabelSet,
    new: impl FnOnce() -> Value,
) -> Option<&'f mut Series> {
    if !families.contains_key(name) {
        if !is_name(name, ":") {
            tracing::error!(name, "metric has an invalid name; the value is dropped");
            return None;
        }
        let series = BTreeMap::new();
        families.insert(name.to_owned(), Family { kind, series });
    }
    let family = families.get_mut(name)?;
    if family.kind != kind {
        tracing::error!(name, "metric has two types; the value is dropped");
        return None;
    }
    if !family.series.contains_key(labels) {
        let is_reserved = |label: &String| kind == MetricKind::Histogram && label == "le";
        if let Some(label) = labels
            .0
            .keys()
            .find(|label| !is_name(label, "") || is_reserved(label))
        {
            tracing::error!(name, label, "metric has an invalid label; the value is dropped");
            return None;
        }
        let (group, value) = (None, new());
        family.series.insert(labels.clone(), Series { group, value });
    }
    family.series.get_mut(labels)
}

/// Whether a name is valid in the text format: letters, digits, underscores and some more.
fn is_name(name: &str, more: &str) -> bool {
    let is_valid = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || more.contains(letter);
    !name.is_empty()
        && name.chars().all(is_valid)
        && !name.starts_with(|letter: char| letter.is_ascii_digit())
}

// === impl GroupWrites ===

impl GroupWrites<'_> {
    /// Whether a series of the group stays.
    fn keeps(&self, name: &str, labels: &LabelSet) -> bool {
        let written = self.written.get(name);
        self.last_expiry.is_none() && written.is_some_and(|written| written.contains(labels))
    }
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
