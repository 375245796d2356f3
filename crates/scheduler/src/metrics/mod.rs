//! The scheduler's metrics under kube-scheduler's names, and the conflicts of optimistic cycles.
//!
//! Start reading at [`Metrics`]; those of plugins are in [`framework`], those of the queue in [`events`].

mod events;
mod framework;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_api::Clock;
use setpoint_values::metrics::{Histogram, TextEncoder};

use crate::framework::{EventLabel, Profile};
use crate::queue::QueueCounts;

pub(crate) use events::EventMetrics;
use framework::PluginDurations;
pub(crate) use framework::{ExtensionPoint, FilterTally, Recorder, StatusCode, is_sampled, is_sampled_node};

/// Bounds of attempt durations in seconds.
const DURATION_BOUNDS: [f64; 15] = [
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];
/// Bounds of the time from the first attempt of a pod to its binding, in seconds.
const SLI_BOUNDS: [f64; 20] = [
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68,
    655.36, 1310.72, 2621.44, 5242.88,
];
const ATTEMPT_BOUNDS: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];
const VICTIM_BOUNDS: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

/// All metrics of a scheduler.
#[derive(Debug, Default)]
pub struct Metrics {
    pub(crate) conflicts: Conflicts,
    preemption_attempts: AtomicU64,
    histograms: Mutex<Histograms>,
    pub(crate) queue: Mutex<QueueMetrics>,
    pub(crate) events: Arc<EventMetrics>,
    /// The binding cycles that run.
    pub(crate) bindings: AtomicU64,
    /// The recorder of each profile, by its name.
    recorders: Mutex<Vec<(String, Arc<Recorder>)>>,
    plugins: Arc<PluginDurations>,
}

/// Plans that did not hold at their commit.
#[derive(Debug, Default)]
pub(crate) struct Conflicts {
    revalidated: AtomicU64,
    replanned: AtomicU64,
    /// By the API server.
    rejected: AtomicU64,
}

/// The state of the queue and of the shared state, as the loop last saw them.
#[derive(Debug, Default, Clone)]
pub(crate) struct QueueMetrics {
    pub(crate) counts: QueueCounts,
    pub(crate) in_flight_events: BTreeMap<EventLabel, usize>,
    pub(crate) nodes: usize,
    pub(crate) pods: usize,
    pub(crate) assumed_pods: usize,
}

/// The result of an attempt, as `scheduler_schedule_attempts_total` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AttemptResult {
    Scheduled,
    Unschedulable,
    Error,
}

#[derive(Debug)]
struct Histograms {
    attempts: BTreeMap<(AttemptResult, String), Histogram>,
    algorithm: Histogram,
    attempts_per_pod: Histogram,
    sli: BTreeMap<String, Histogram>,
    victims: Histogram,
}

impl Default for Histograms {
    fn default() -> Self {
        Self {
            attempts: BTreeMap::new(),
            algorithm: Histogram::new(&DURATION_BOUNDS),
            attempts_per_pod: Histogram::new(&ATTEMPT_BOUNDS),
            sli: BTreeMap::new(),
            victims: Histogram::new(&VICTIM_BOUNDS),
        }
    }
}

impl Conflicts {
    /// A node changed, but the pod still fits.
    pub(crate) fn revalidated(&self) {
        self.revalidated.fetch_add(1, Ordering::Relaxed);
    }

    /// The pod no longer fits, and is planned again.
    pub(crate) fn replanned(&self) {
        self.replanned.fetch_add(1, Ordering::Relaxed);
    }

    /// The API server rejected the binding, since another scheduler has used the node.
    pub(crate) fn rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// The numbers of the first two.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (
            self.revalidated.load(Ordering::Relaxed),
            self.replanned.load(Ordering::Relaxed),
        )
    }
}

impl AttemptResult {
    fn label(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Unschedulable => "unschedulable",
            Self::Error => "error",
        }
    }
}

impl Metrics {
    /// Metrics that are timed by this clock.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            events: Arc::new(EventMetrics::new(clock)),
            ..Self::default()
        }
    }

    /// The recorder of a profile.
    pub(crate) fn recorder(&self, profile: &Profile, clock: Arc<dyn Clock>) -> Arc<Recorder> {
        let recorder = Arc::new(Recorder::new(profile, clock, self.plugins.clone()));
        let mut recorders = self.recorders.lock();
        recorders.push((profile.scheduler.clone(), recorder.clone()));
        recorder
    }

    /// Counts an attempt that ended.
    pub(crate) fn attempt_ended(&self, profile: &str, result: AttemptResult, duration: Duration) {
        let mut histograms = self.histograms.lock();
        let key = (result, profile.to_owned());
        let durations = histograms
            .attempts
            .entry(key)
            .or_insert_with(|| Histogram::new(&DURATION_BOUNDS));
        durations.observe(duration.as_secs_f64());
    }

    /// Counts the planning of a batch of pods.
    pub(crate) fn planned(&self, pods: usize, duration: Duration) {
        let Ok(count) = u32::try_from(pods.max(1)) else {
            return;
        };
        let each = (duration / count).as_secs_f64();
        let mut histograms = self.histograms.lock();
        (0..pods).for_each(|_| histograms.algorithm.observe(each));
    }

    /// Counts a bound pod.
    pub(crate) fn pod_bound(&self, attempts: u32, since_first_attempt: Duration) {
        let label = match attempts {
            0..15 => attempts.to_string(),
            _ => "15+".to_owned(),
        };
        let mut histograms = self.histograms.lock();
        histograms.attempts_per_pod.observe(f64::from(attempts));
        let sli = histograms
            .sli
            .entry(label)
            .or_insert_with(|| Histogram::new(&SLI_BOUNDS));
        sli.observe(since_first_attempt.as_secs_f64());
    }

    /// Counts an attempt to preempt, and its victims if it has any.
    pub(crate) fn preempted(&self, victims: usize) {
        self.preemption_attempts.fetch_add(1, Ordering::Relaxed);
        if victims > 0 {
            self.histograms.lock().victims.observe(victims as f64);
        }
    }

    /// All metrics in Prometheus' text format.
    pub fn to_text(&self) -> String {
        let mut text = TextEncoder::default();
        self.write_attempts(&mut text);
        self.write_queue(&mut text);
        self.events.write(&mut text);
        framework::write(&mut text, &self.recorders.lock(), &self.plugins);
        self.write_conflicts(&mut text);
        text.into_string()
    }

    fn write_attempts(&self, text: &mut TextEncoder) {
        let histograms = self.histograms.lock();
        let name = "scheduler_schedule_attempts_total";
        let help = "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, \
                    while 'error' means an internal scheduler problem.";
        text.family(name, "counter", help);
        for ((result, profile), durations) in &histograms.attempts {
            text.sample(
                name,
                &[("profile", profile), ("result", result.label())],
                durations.count(),
            );
        }
        let name = "scheduler_scheduling_attempt_duration_seconds";
        text.family(
            name,
            "histogram",
            "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
        );
        for ((result, profile), durations) in &histograms.attempts {
            let labels = [("profile", profile.as_str()), ("result", result.label())];
            text.histogram(name, &labels, &durations.buckets());
        }
        let name = "scheduler_scheduling_algorithm_duration_seconds";
        text.family(name, "histogram", "Scheduling algorithm latency in seconds");
        text.histogram(name, &[], &histograms.algorithm.buckets());
        let name = "scheduler_pod_scheduling_attempts";
        text.family(
            name,
            "histogram",
            "Number of attempts to successfully schedule a pod.",
        );
        text.histogram(name, &[], &histograms.attempts_per_pod.buckets());
        let name = "scheduler_pod_scheduling_sli_duration_seconds";
        let help = "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might \
                    involve multiple scheduling attempts.";
        text.family(name, "histogram", help);
        for (attempts, durations) in &histograms.sli {
            text.histogram(name, &[("attempts", attempts)], &durations.buckets());
        }
        let name = "scheduler_preemption_victims";
        text.family(name, "histogram", "Number of selected preemption victims");
        text.histogram(name, &[], &histograms.victims.buckets());
        let name = "scheduler_preemption_attempts_total";
        text.family(
            name,
            "counter",
            "Total preemption attempts in the cluster till now",
        );
        text.sample(name, &[], self.preemption_attempts.load(Ordering::Relaxed));
    }

    fn write_queue(&self, text: &mut TextEncoder) {
        let queue = self.queue.lock().clone();
        let name = "scheduler_pending_pods";
        let help = "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means \
                    number of pods in backoffQ; 'unschedulable' means number of pods in unschedulableEntities that the \
                    scheduler attempted to schedule and failed; 'gated' is the number of unschedulable pods that the \
                    scheduler never attempted to schedule because they are gated.";
        text.family(name, "gauge", help);
        let counts = queue.counts;
        for (label, count) in [
            ("active", counts.active),
            ("backoff", counts.backoff),
            ("unschedulable", counts.unschedulable),
            ("gated", counts.gated),
        ] {
            text.sample(name, &[("queue", label)], count);
        }
        let name = "scheduler_inflight_events";
        text.family(
            name,
            "gauge",
            "Number of events currently tracked in the scheduling queue.",
        );
        for (event, count) in &queue.in_flight_events {
            text.sample(name, &[("event", &event.to_string())], count);
        }
        let name = "scheduler_cache_size";
        text.family(
            name,
            "gauge",
            "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
        );
        text.sample(name, &[("type", "nodes")], queue.nodes);
        text.sample(name, &[("type", "pods")], queue.pods);
        text.sample(name, &[("type", "assumed_pods")], queue.assumed_pods);
        let name = "scheduler_goroutines";
        let help = "Number of running goroutines split by the work they do such as binding.";
        text.family(name, "gauge", help);
        let bindings = self.bindings.load(Ordering::Relaxed);
        text.sample(name, &[("operation", "binding")], bindings);
    }

    fn write_conflicts(&self, text: &mut TextEncoder) {
        let (revalidated, replanned) = self.conflicts.counts();
        let name = "setpoint_scheduler_conflicts_total";
        let help = "Plans whose node or other input changed before their commit: 'revalidated' if the pod still fitted the \
                    node, 'replanned' if it was planned again, 'rejected' by the API server, since another scheduler has used the node.";
        text.family(name, "counter", help);
        text.sample(name, &[("result", "revalidated")], revalidated);
        text.sample(name, &[("result", "replanned")], replanned);
        let rejected = self.conflicts.rejected.load(Ordering::Relaxed);
        text.sample(name, &[("result", "rejected")], rejected);
    }
}

#[cfg(test)]
mod tests;
