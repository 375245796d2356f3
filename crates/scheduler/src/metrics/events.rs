//! [`EventMetrics`]: the metrics of cluster events and of the queue: how long events are handled, how long queueing hints
//! run, which events bring pods into the queues, and which plugins hold pods back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use compact_str::CompactString;
use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_api::Clock;
use setpoint_values::metrics::{Histogram, TextEncoder};

use super::framework::PLUGIN_BOUNDS;
use crate::framework::{EventLabel, QueueingHint};

/// Bounds of the durations of event handling in seconds.
const HANDLING_BOUNDS: [f64; 12] = [
    0.0001, 0.0002, 0.0004, 0.0008, 0.0016, 0.0032, 0.0064, 0.0128, 0.0256, 0.0512, 0.1024, 0.2048,
];

/// The hints of which one is timed.
const HINTS_PER_SAMPLE: u64 = 16;

/// The metrics of events. The default ones have no clock: they count, but time nothing.
#[derive(Debug, Default)]
pub(crate) struct EventMetrics {
    clock: Option<Arc<dyn Clock>>,
    handling: Mutex<BTreeMap<EventLabel, Histogram>>,
    hints: Mutex<BTreeMap<(&'static str, EventLabel, &'static str), Histogram>>,
    /// The queueing hints so far, of which some are timed.
    hint_runs: AtomicU64,
    /// By queue and event.
    incoming: Mutex<BTreeMap<(&'static str, EventLabel), u64>>,
    /// By plugin and profile.
    unschedulable: Mutex<BTreeMap<(&'static str, CompactString), i64>>,
}

impl EventMetrics {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock: Some(clock),
            ..Self::default()
        }
    }

    /// The time at which something begins that is timed.
    pub(crate) fn start(&self) -> Option<Timestamp> {
        self.clock.as_ref().map(|clock| clock.now())
    }

    /// Observes that an event was handled.
    pub(crate) fn handled(&self, event: EventLabel, began: Option<Timestamp>) {
        if let Some(seconds) = self.seconds_since(began) {
            let mut handling = self.handling.lock();
            let histogram = handling
                .entry(event)
                .or_insert_with(|| Histogram::new(&HANDLING_BOUNDS));
            histogram.observe(seconds);
        }
    }

    /// Runs a queueing hint. One of [`HINTS_PER_SAMPLE`] is timed: to observe a hint takes longer than to run it.
    pub(crate) fn timed_hint(
        &self,
        plugin: &'static str,
        event: EventLabel,
        hint: impl FnOnce() -> QueueingHint,
    ) -> QueueingHint {
        let run = self.hint_runs.fetch_add(1, Ordering::Relaxed);
        if !run.is_multiple_of(HINTS_PER_SAMPLE) {
            return hint();
        }
        let began = self.start();
        let result = hint();
        if let Some(seconds) = self.seconds_since(began) {
            let label = match result {
                QueueingHint::Queue => "Queue",
                QueueingHint::Skip => "QueueSkip",
            };
            let mut hints = self.hints.lock();
            let histogram = hints
                .entry((plugin, event, label))
                .or_insert_with(|| Histogram::new(&PLUGIN_BOUNDS));
            histogram.observe(seconds);
        }
        result
    }

    /// Counts a pod that an event brings into a queue.
    pub(crate) fn pod_queued(&self, queue: &'static str, event: EventLabel) {
        *self.incoming.lock().entry((queue, event)).or_default() += 1;
    }

    /// Counts a pod for the plugins that reject it: one more, or one less once it is tried again or removed.
    pub(crate) fn count_unschedulable<'a>(
        &self,
        plugins: impl IntoIterator<Item = &'a &'static str>,
        profile: &CompactString,
        change: i64,
    ) {
        let mut plugins = plugins.into_iter().peekable();
        if plugins.peek().is_none() {
            return;
        }
        let mut unschedulable = self.unschedulable.lock();
        for plugin in plugins {
            *unschedulable.entry((plugin, profile.clone())).or_default() += change;
        }
    }

    /// Forgets all rejected pods: the queue is built again.
    pub(crate) fn reset_unschedulable(&self) {
        self.unschedulable.lock().clear();
    }

    pub(super) fn write(&self, text: &mut TextEncoder) {
        let name = "scheduler_event_handling_duration_seconds";
        text.family(name, "histogram", "Event handling latency in seconds.");
        for (event, durations) in &*self.handling.lock() {
            text.histogram(name, &[("event", &event.to_string())], &durations.buckets());
        }
        let name = "scheduler_queueing_hint_execution_duration_seconds";
        let help = "Duration for running a queueing hint function of a plugin.";
        text.family(name, "histogram", help);
        for ((plugin, event, hint), durations) in &*self.hints.lock() {
            let event = event.to_string();
            let labels = [("event", event.as_str()), ("hint", *hint), ("plugin", *plugin)];
            text.histogram(name, &labels, &durations.buckets());
        }
        let name = "scheduler_queue_incoming_pods_total";
        let help = "Number of pods added to scheduling queues by event and queue type.";
        text.family(name, "counter", help);
        for ((queue, event), count) in &*self.incoming.lock() {
            text.sample(name, &[("event", &event.to_string()), ("queue", queue)], count);
        }
        let name = "scheduler_unschedulable_pods";
        let help = "The number of unschedulable pods broken down by plugin name. A pod will increment the gauge for all \
                    plugins that caused it to not schedule and so this metric have meaning only when broken down by plugin.";
        text.family(name, "gauge", help);
        for ((plugin, profile), count) in &*self.unschedulable.lock() {
            text.sample(name, &[("plugin", plugin), ("profile", profile)], count);
        }
    }

    fn seconds_since(&self, began: Option<Timestamp>) -> Option<f64> {
        let now = self.start()?;
        Some(now.duration_since(began?).as_secs_f64().max(0.0))
    }
}
