//! [`Recorder`]: the metrics of the framework by profile: durations of extension points and of plugins, and how often
//! plugins were evaluated.
//!
//! Extension points are timed in every cycle, plugins in one of ten, as upstream does. Calls for single nodes take less time
//! than reading the clock does, so even then Filter and Score are timed only on some of the nodes. Evaluations are counted
//! once for each cycle: a Filter plugin ran on the nodes that no plugin before it rejected. The second run of the filters on
//! a node with nominated pods is not counted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_api::Clock;
use setpoint_values::metrics::{AtomicHistogram, Histogram, TextEncoder};

use crate::framework::{Code, Profile, Rejection};
use crate::state::NodeIndex;

/// Bounds of the durations of extension points in seconds.
const POINT_BOUNDS: [f64; 12] = [
    0.0001, 0.0002, 0.0004, 0.0008, 0.0016, 0.0032, 0.0064, 0.0128, 0.0256, 0.0512, 0.1024, 0.2048,
];
/// Bounds of the durations of plugins and of queueing hints in seconds: the first, and a half more from each to the next.
pub(super) const PLUGIN_BOUNDS: [f64; 20] = exponential(0.000_01, 1.5);
/// Bounds of the time that pods wait for a permission, in seconds.
const PERMIT_BOUNDS: [f64; 15] = super::DURATION_BOUNDS;
const NANOSECONDS: f64 = 1e9;
/// One of so many cycles has its plugins timed.
const SAMPLED_CYCLES: usize = 10;
/// In such a cycle, one of so many rows of nodes is timed.
const SAMPLED_ROWS: usize = 32;

/// An extension point, as the labels have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ExtensionPoint {
    PreEnqueue,
    PreFilter,
    Filter,
    PostFilter,
    PreScore,
    Score,
    Reserve,
    Unreserve,
    Permit,
    PreBind,
    Bind,
    PostBind,
}

/// The status of an extension point or of a plugin, as the labels have it (upstream: `Code`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StatusCode {
    Success,
    Skip,
    Rejected(Code),
}

/// Records the metrics of one profile. The default one has no clock and records nothing.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    clock: Option<Arc<dyn Clock>>,
    points: Vec<PointDurations>,
    /// The evaluations of PreFilter, Filter, PreScore and Score plugins, by their position in the profile.
    evaluations: BTreeMap<ExtensionPoint, Vec<PluginCount>>,
    plugins: Arc<PluginDurations>,
}

/// What the recorders of all profiles share: these metrics have no label of the profile.
#[derive(Debug, Default)]
pub(crate) struct PluginDurations {
    durations: Mutex<BTreeMap<(&'static str, ExtensionPoint, StatusCode), Histogram>>,
    permit_waits: Mutex<BTreeMap<StatusCode, Histogram>>,
}

/// The nodes that the filters of a cycle accepted and rejected.
#[derive(Debug, Default)]
pub(crate) struct FilterTally {
    passed: u64,
    /// By the plugin that rejected them. A cycle has few of these.
    rejected: Vec<(&'static str, u64)>,
}

/// The durations of one extension point, by status.
#[derive(Debug)]
struct PointDurations {
    point: ExtensionPoint,
    status: StatusCode,
    durations: AtomicHistogram,
}

#[derive(Debug)]
struct PluginCount {
    plugin: &'static str,
    count: AtomicU64,
}

// === impl Recorder ===

impl Recorder {
    pub(crate) fn new(profile: &Profile, clock: Arc<dyn Clock>, plugins: Arc<PluginDurations>) -> Self {
        let evaluations = [
            (
                ExtensionPoint::PreFilter,
                names(&profile.pre_filter, |one| one.name()),
            ),
            (ExtensionPoint::Filter, names(&profile.filter, |one| one.name())),
            (
                ExtensionPoint::PreScore,
                names(&profile.pre_score, |one| one.name()),
            ),
            (
                ExtensionPoint::Score,
                names(&profile.score, |(one, _)| one.name()),
            ),
        ];
        let points = ExtensionPoint::ALL.iter().flat_map(|point| {
            StatusCode::ALL.iter().map(|status| PointDurations {
                point: *point,
                status: *status,
                durations: AtomicHistogram::new(&POINT_BOUNDS, NANOSECONDS),
            })
        });
        Self {
            clock: Some(clock),
            points: points.collect(),
            evaluations: evaluations.into(),
            plugins,
        }
    }

    /// The time at which something begins that is timed.
    pub(crate) fn start(&self) -> Option<Timestamp> {
        self.clock.as_ref().map(|clock| clock.now())
    }

    /// The same for a plugin, of which only a part of the calls is timed.
    pub(crate) fn start_if(&self, is_timed: bool) -> Option<Timestamp> {
        if is_timed { self.start() } else { None }
    }

    /// Runs an extension point and observes its duration.
    pub(crate) fn timed<T>(
        &self,
        point: ExtensionPoint,
        status: impl FnOnce(&T) -> StatusCode,
        run: impl FnOnce() -> T,
    ) -> T {
        let began = self.start();
        let result = run();
        self.observe_point(point, status(&result), began);
        result
    }

    /// Observes the duration of an extension point that has ended.
    pub(crate) fn observe_point(&self, point: ExtensionPoint, status: StatusCode, began: Option<Timestamp>) {
        if let Some(seconds) = self.seconds_since(began) {
            let mut points = self.points.iter();
            let found = points.find(|one| one.point == point && one.status == status);
            found.into_iter().for_each(|one| one.durations.observe(seconds));
        }
    }

    /// Observes the duration of a plugin that has ended, if it was timed.
    pub(crate) fn observe_plugin(
        &self,
        point: ExtensionPoint,
        plugin: &'static str,
        status: StatusCode,
        began: Option<Timestamp>,
    ) {
        if let Some(seconds) = self.seconds_since(began) {
            let mut durations = self.plugins.durations.lock();
            let histogram = durations
                .entry((plugin, point, status))
                .or_insert_with(|| Histogram::new(&PLUGIN_BOUNDS));
            histogram.observe(seconds);
        }
    }

    /// Observes how long a pod has waited for a permission.
    pub(crate) fn observe_permit_wait(&self, status: StatusCode, began: Option<Timestamp>) {
        if let Some(seconds) = self.seconds_since(began) {
            let mut waits = self.plugins.permit_waits.lock();
            let histogram = waits
                .entry(status)
                .or_insert_with(|| Histogram::new(&PERMIT_BOUNDS));
            histogram.observe(seconds);
        }
    }

    /// Counts evaluations of the plugin at a position.
    pub(crate) fn count(&self, point: ExtensionPoint, position: usize, count: u64) {
        let plugin = self.evaluations.get(&point).and_then(|list| list.get(position));
        if let Some(plugin) = plugin {
            plugin.count.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Counts evaluations of all Score plugins but the skipped ones.
    pub(crate) fn count_scores(&self, skipped: u64, count: u64) {
        let scores = self.evaluations.get(&ExtensionPoint::Score);
        for position in 0..scores.map_or(0, Vec::len) {
            if skipped & (1 << position) == 0 {
                self.count(ExtensionPoint::Score, position, count);
            }
        }
    }

    /// Counts the evaluations of the Filter plugins, without the skipped ones, of a cycle.
    pub(crate) fn count_filters(&self, skipped: u64, tally: &FilterTally) {
        let mut reached = tally.total();
        let filters = self.evaluations.get(&ExtensionPoint::Filter);
        for (position, plugin) in filters.into_iter().flatten().enumerate() {
            if reached == 0 {
                return;
            }
            if skipped & (1 << position) == 0 {
                plugin.count.fetch_add(reached, Ordering::Relaxed);
                reached -= tally.rejected_by(plugin.plugin).min(reached);
            }
        }
    }

    fn seconds_since(&self, began: Option<Timestamp>) -> Option<f64> {
        let now = self.start()?;
        Some(now.duration_since(began?).as_secs_f64().max(0.0))
    }
}

fn names<T>(plugins: &[T], name: impl Fn(&T) -> &'static str) -> Vec<PluginCount> {
    let counts = plugins.iter().map(|plugin| PluginCount {
        plugin: name(plugin),
        count: AtomicU64::new(0),
    });
    counts.collect()
}

/// Whether the plugins of a cycle are timed.
pub(crate) fn is_sampled(turn: usize) -> bool {
    turn.is_multiple_of(SAMPLED_CYCLES)
}

/// Whether plugins are timed on a node in such a cycle.
pub(crate) fn is_sampled_node(node: NodeIndex) -> bool {
    node.row().is_multiple_of(SAMPLED_ROWS)
}

// === impl FilterTally ===

impl FilterTally {
    /// Counts a node: accepted, or rejected by a plugin.
    pub(crate) fn add(&mut self, rejected_by: Option<&'static str>) {
        let Some(plugin) = rejected_by else {
            self.passed += 1;
            return;
        };
        match self.rejected.iter_mut().find(|(own, _)| *own == plugin) {
            Some((_, count)) => *count += 1,
            None => self.rejected.push((plugin, 1)),
        }
    }

    /// The number of accepted nodes.
    pub(crate) fn passed(&self) -> u64 {
        self.passed
    }

    fn total(&self) -> u64 {
        self.passed + self.rejected.iter().map(|(_, count)| count).sum::<u64>()
    }

    fn rejected_by(&self, plugin: &str) -> u64 {
        let found = self.rejected.iter().find(|(own, _)| *own == plugin);
        found.map_or(0, |(_, count)| *count)
    }
}

// === impl StatusCode ===

impl StatusCode {
    const ALL: [Self; 6] = [
        Self::Success,
        Self::Skip,
        Self::Rejected(Code::Unschedulable),
        Self::Rejected(Code::UnschedulableAndUnresolvable),
        Self::Rejected(Code::Pending),
        Self::Rejected(Code::Error),
    ];

    /// The status of a step that cannot fail.
    pub(crate) fn success<T>(_: &T) -> Self {
        Self::Success
    }

    /// The status of a step whose only error is a failure.
    pub(crate) fn success_or_error<T, E>(result: &Result<T, E>) -> Self {
        match result {
            Ok(_) => Self::Success,
            Err(_) => Self::Rejected(Code::Error),
        }
    }

    /// The status of a result.
    pub(crate) fn of<T>(result: &Result<T, Rejection>) -> Self {
        match result {
            Ok(_) => Self::Success,
            Err(rejection) => Self::Rejected(rejection.code),
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::Skip => "Skip",
            Self::Rejected(Code::Unschedulable) => "Unschedulable",
            Self::Rejected(Code::UnschedulableAndUnresolvable) => "UnschedulableAndUnresolvable",
            Self::Rejected(Code::Pending) => "Pending",
            Self::Rejected(Code::Error) => "Error",
        }
    }
}

// === impl ExtensionPoint ===

impl ExtensionPoint {
    const ALL: [Self; 12] = [
        Self::PreEnqueue,
        Self::PreFilter,
        Self::Filter,
        Self::PostFilter,
        Self::PreScore,
        Self::Score,
        Self::Reserve,
        Self::Unreserve,
        Self::Permit,
        Self::PreBind,
        Self::Bind,
        Self::PostBind,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::PreEnqueue => "PreEnqueue",
            Self::PreFilter => "PreFilter",
            Self::Filter => "Filter",
            Self::PostFilter => "PostFilter",
            Self::PreScore => "PreScore",
            Self::Score => "Score",
            Self::Reserve => "Reserve",
            Self::Unreserve => "Unreserve",
            Self::Permit => "Permit",
            Self::PreBind => "PreBind",
            Self::Bind => "Bind",
            Self::PostBind => "PostBind",
        }
    }
}

/// Writes the metrics of all profiles.
pub(super) fn write(
    text: &mut TextEncoder,
    recorders: &[(String, Arc<Recorder>)],
    plugins: &PluginDurations,
) {
    let name = "scheduler_framework_extension_point_duration_seconds";
    let help = "Latency for running all plugins of a specific extension point.";
    text.family(name, "histogram", help);
    for (profile, recorder) in recorders {
        for one in recorder.points.iter().filter(|one| one.durations.count() > 0) {
            let labels = [
                ("extension_point", one.point.label()),
                ("profile", profile.as_str()),
                ("status", one.status.label()),
            ];
            text.histogram(name, &labels, &one.durations.snapshot().buckets());
        }
    }
    let name = "scheduler_plugin_evaluation_total";
    let help = "Number of attempts to schedule pods by each plugin and the extension point (available only in PreFilter, \
                Filter, PreScore, and Score).";
    text.family(name, "counter", help);
    for (profile, recorder) in recorders {
        for (point, counts) in &recorder.evaluations {
            for one in counts {
                let labels = [
                    ("extension_point", point.label()),
                    ("plugin", one.plugin),
                    ("profile", profile.as_str()),
                ];
                text.sample(name, &labels, one.count.load(Ordering::Relaxed));
            }
        }
    }
    let name = "scheduler_plugin_execution_duration_seconds";
    let help = "Duration for running a plugin at a specific extension point.";
    text.family(name, "histogram", help);
    for ((plugin, point, status), durations) in &*plugins.durations.lock() {
        let labels = [
            ("extension_point", point.label()),
            ("plugin", *plugin),
            ("status", status.label()),
        ];
        text.histogram(name, &labels, &durations.buckets());
    }
    let name = "scheduler_permit_wait_duration_seconds";
    text.family(name, "histogram", "Duration of waiting on permit.");
    for (status, durations) in &*plugins.permit_waits.lock() {
        text.histogram(name, &[("result", status.label())], &durations.buckets());
    }
}

const fn exponential(first: f64, factor: f64) -> [f64; 20] {
    let mut bounds = [first; 20];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = bounds[at - 1] * factor;
        at += 1;
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Filters `A`, `B` and `C`; nodes are the plugin that rejects them, or `-`. The expected counts are of `A`, `B`, `C`.
    #[track_caller]
    fn check(nodes: &[&'static str], skipped: u64, expected: [u64; 3]) {
        let recorder = Recorder {
            evaluations: [(ExtensionPoint::Filter, names(&["A", "B", "C"], |name| *name))].into(),
            ..Recorder::default()
        };
        let mut tally = FilterTally::default();
        for node in nodes {
            tally.add(Some(*node).filter(|plugin| *plugin != "-"));
        }
        recorder.count_filters(skipped, &tally);
        let counts = recorder.evaluations[&ExtensionPoint::Filter].iter();
        let counts: Vec<u64> = counts.map(|one| one.count.load(Ordering::Relaxed)).collect();
        assert_eq!(counts, expected);
    }

    #[test]
    fn a_filter_is_evaluated_on_the_nodes_that_no_filter_before_it_rejects() {
        check(&["-", "-"], 0, [2, 2, 2]);
        check(&["A", "-", "B", "C"], 0, [4, 3, 2]);
        check(&["A", "A"], 0, [2, 0, 0]);
        check(&["-", "C"], 0b010, [2, 0, 2]);
        check(&[], 0, [0, 0, 0]);
    }

    #[test]
    fn bounds_grow_by_a_half() {
        assert!((PLUGIN_BOUNDS[1] - 0.000_015).abs() < 1e-12);
        assert!((PLUGIN_BOUNDS[19] - 0.022_168).abs() < 1e-5);
    }
}
