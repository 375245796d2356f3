//! [`Metrics`]: the metrics of all controllers in a process, in Prometheus' text format under client-go's names.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use setpoint_values::metrics::{Histogram, MetricsSource, TextEncoder};

use crate::queue::{DURATION_BOUNDS, Metrics as QueueMetrics};

/// The registry of all controllers' metrics.
#[derive(Default)]
pub struct Metrics {
    sources: Mutex<Vec<Source>>,
    /// Metrics of other components of the process.
    included: Mutex<Vec<Arc<Text>>>,
}

/// Metrics in Prometheus' text format.
type Text = dyn Fn() -> String + Send + Sync;

/// The counters of a controller besides those of its queue.
#[derive(Debug)]
pub struct Counters {
    /// The number of workers.
    pub workers: u64,
    /// Reconciles in progress.
    pub active_workers: AtomicU64,
    /// Reconciles that succeeded.
    pub succeeded: AtomicU64,
    /// Those among them that returned [`crate::Next::After`].
    pub requeued_after: AtomicU64,
    /// Reconciles that failed and are retried.
    pub failed: AtomicU64,
    /// Reconciles that failed with a conflict and are retried.
    pub conflicts: AtomicU64,
    /// Reconciles that failed with a terminal error.
    pub terminal: AtomicU64,
    /// Reconciles that panicked and are retried.
    pub panics: AtomicU64,
    /// Reconciles that timed out.
    pub timeouts: AtomicU64,
    /// The durations of reconciles.
    pub durations: Mutex<Histogram>,
    /// Reconciles whose key was held until the caches had their writes.
    pub held: AtomicU64,
}

struct Source {
    name: &'static str,
    queue: Box<dyn Fn() -> QueueMetrics + Send + Sync>,
    counters: Arc<Counters>,
}

/// A value of a controller's counters.
type CounterFn = fn(&Counters) -> u64;

/// Families under controller-runtime's names with one value each: name, type, help text and value.
const RECONCILE_VALUES: [(&str, &str, &str, CounterFn); 6] = [
    (
        "controller_runtime_max_concurrent_reconciles",
        "gauge",
        "Workers of the controller.",
        |counters| counters.workers,
    ),
    (
        "controller_runtime_reconcile_errors_total",
        "counter",
        "Reconciles that failed and are retried.",
        |counters| read(&counters.failed) + read(&counters.conflicts),
    ),
    (
        "controller_runtime_terminal_reconcile_errors_total",
        "counter",
        "Reconciles that failed with a terminal error.",
        |counters| read(&counters.terminal),
    ),
    (
        "controller_runtime_reconcile_panics_total",
        "counter",
        "Reconciles that panicked.",
        |counters| read(&counters.panics),
    ),
    (
        "controller_runtime_reconcile_timeouts_total",
        "counter",
        "Reconciles that timed out.",
        |counters| read(&counters.timeouts),
    ),
    (
        "controller_runtime_active_workers",
        "gauge",
        "Reconciles in progress.",
        |counters| read(&counters.active_workers),
    ),
];

// === impl Metrics ===

impl Metrics {
    /// Registers a controller; one of the same name is replaced.
    pub(crate) fn register(
        &self,
        name: &'static str,
        queue: impl Fn() -> QueueMetrics + Send + Sync + 'static,
        counters: Arc<Counters>,
    ) {
        let mut sources = self.sources.lock();
        sources.retain(|source| source.name != name);
        let queue = Box::new(queue);
        sources.push(Source {
            name,
            queue,
            counters,
        });
        sources.sort_by_key(|source| source.name);
    }

    /// Includes further metrics, in Prometheus' text format. Metric names must be unique.
    pub fn include(&self, text: impl Fn() -> String + Send + Sync + 'static) {
        self.included.lock().push(Arc::new(text));
    }

    /// All metrics as text.
    pub fn to_text(&self) -> String {
        let sources = self.sources.lock();
        let queues: Vec<_> = sources
            .iter()
            .map(|source| (source.name, (source.queue)()))
            .collect();
        let mut text = TextEncoder::default();
        write_queues(&mut text, &queues);
        write_counters(&mut text, &sources);
        write_reconciles(&mut text, &sources);
        drop(sources);
        let included = self.included.lock().clone();
        included.iter().for_each(|metrics| text.append(&metrics()));
        text.into_string()
    }
}

impl MetricsSource for Metrics {
    fn write(&self, text: &mut TextEncoder) {
        text.append(&self.to_text());
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sources = self.sources.lock();
        f.debug_list()
            .entries(sources.iter().map(|source| source.name))
            .finish()
    }
}

fn write_queues(text: &mut TextEncoder, queues: &[(&str, QueueMetrics)]) {
    type ValueFn = fn(&QueueMetrics) -> f64;
    type HistogramFn = fn(&QueueMetrics) -> &Histogram;
    let values: [(&str, &str, &str, ValueFn); 5] = [
        (
            "workqueue_depth",
            "gauge",
            "Keys in the queue that wait for a worker.",
            |queue| queue.depth as f64,
        ),
        (
            "workqueue_adds_total",
            "counter",
            "Keys that were added to the queue.",
            |queue| queue.adds as f64,
        ),
        (
            "workqueue_retries_total",
            "counter",
            "Keys that were added again after an error.",
            |queue| queue.retries as f64,
        ),
        (
            "workqueue_unfinished_work_seconds",
            "gauge",
            "Time that all reconciles in progress have taken so far.",
            |queue| queue.unfinished_work,
        ),
        (
            "workqueue_longest_running_processor_seconds",
            "gauge",
            "Time that the longest reconcile in progress has taken so far.",
            |queue| queue.longest_running,
        ),
    ];
    for (metric, kind, help, value) in values {
        text.family(metric, kind, help);
        for (name, queue) in queues {
            text.sample(metric, &[("name", name)], value(queue));
        }
    }
    let histograms: [(&str, &str, HistogramFn); 2] = [
        (
            "workqueue_queue_duration_seconds",
            "Time that a key waits in the queue.",
            |queue| &queue.queue_duration,
        ),
        (
            "workqueue_work_duration_seconds",
            "Time that the reconcile of a key takes.",
            |queue| &queue.work_duration,
        ),
    ];
    for (metric, help, histogram) in histograms {
        text.family(metric, "histogram", help);
        for (name, queue) in queues {
            text.histogram(metric, &[("name", name)], &histogram(queue).buckets());
        }
    }
}

fn write_counters(text: &mut TextEncoder, sources: &[Source]) {
    let metric = "setpoint_controller_active_workers";
    text.family(metric, "gauge", "Reconciles in progress.");
    for source in sources {
        let active = source.counters.active_workers.load(Ordering::Relaxed);
        text.sample(metric, &[("controller", source.name)], active);
    }
    let metric = "setpoint_controller_reconciles_total";
    text.family(metric, "counter", "Finished reconciles, by their result.");
    for source in sources {
        for (result, counter) in source.counters.results() {
            let count = counter.load(Ordering::Relaxed);
            text.sample(metric, &[("controller", source.name), ("result", result)], count);
        }
    }
    let metric = "setpoint_controller_held_total";
    let help = "Reconciles whose key was held until the caches had their writes.";
    text.family(metric, "counter", help);
    for source in sources {
        let held = source.counters.held.load(Ordering::Relaxed);
        text.sample(metric, &[("controller", source.name)], held);
    }
}

/// The same under controller-runtime's names, for existing dashboards.
fn write_reconciles(text: &mut TextEncoder, sources: &[Source]) {
    let metric = "controller_runtime_reconcile_total";
    text.family(metric, "counter", "Finished reconciles, by their result.");
    for source in sources {
        for (result, count) in source.counters.totals() {
            text.sample(metric, &[("controller", source.name), ("result", result)], count);
        }
    }
    for (metric, kind, help, value) in RECONCILE_VALUES {
        text.family(metric, kind, help);
        for source in sources {
            let value = value(&source.counters);
            text.sample(metric, &[("controller", source.name)], value);
        }
    }
    let metric = "controller_runtime_reconcile_time_seconds";
    text.family(metric, "histogram", "Time that a reconcile takes.");
    for source in sources {
        let took = source.counters.durations.lock().clone();
        text.histogram(metric, &[("controller", source.name)], &took.buckets());
    }
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

// === impl Counters ===

impl Counters {
    /// The counters of a controller with so many workers.
    pub(crate) fn of(workers: usize) -> Self {
        Self {
            workers: workers as u64,
            active_workers: AtomicU64::default(),
            succeeded: AtomicU64::default(),
            requeued_after: AtomicU64::default(),
            failed: AtomicU64::default(),
            conflicts: AtomicU64::default(),
            terminal: AtomicU64::default(),
            panics: AtomicU64::default(),
            timeouts: AtomicU64::default(),
            durations: Mutex::new(Histogram::new(&DURATION_BOUNDS)),
            held: AtomicU64::default(),
        }
    }

    /// The counts by controller-runtime's `result` label.
    fn totals(&self) -> [(&'static str, u64); 4] {
        let failures = [
            &self.failed,
            &self.conflicts,
            &self.terminal,
            &self.panics,
            &self.timeouts,
        ];
        let later = read(&self.requeued_after);
        [
            ("error", failures.into_iter().map(read).sum()),
            ("requeue", 0),
            ("requeue_after", later),
            ("success", read(&self.succeeded).saturating_sub(later)),
        ]
    }

    fn results(&self) -> [(&'static str, &AtomicU64); 6] {
        [
            ("success", &self.succeeded),
            ("error", &self.failed),
            ("conflict", &self.conflicts),
            ("terminal", &self.terminal),
            ("panic", &self.panics),
            ("timeout", &self.timeouts),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WQ3: dashboards made for controller-runtime find their metrics.
    #[test]
    fn wq3_reconciles_have_the_metric_names_of_controller_runtime() {
        let (metrics, counters) = (Metrics::default(), Arc::new(Counters::of(7)));
        for (counter, count) in [
            (&counters.succeeded, 5),
            (&counters.requeued_after, 2),
            (&counters.failed, 3),
            (&counters.terminal, 1),
            (&counters.active_workers, 4),
        ] {
            counter.store(count, Ordering::Relaxed);
        }
        metrics.register("web", QueueMetrics::default, counters);
        let text = metrics.to_text();
        let expected = [
            "controller_runtime_reconcile_total{controller=\"web\",result=\"success\"} 3",
            "controller_runtime_reconcile_total{controller=\"web\",result=\"requeue_after\"} 2",
            "controller_runtime_reconcile_total{controller=\"web\",result=\"error\"} 4",
            "controller_runtime_max_concurrent_reconciles{controller=\"web\"} 7",
            "controller_runtime_active_workers{controller=\"web\"} 4",
            "controller_runtime_terminal_reconcile_errors_total{controller=\"web\"} 1",
            "# TYPE controller_runtime_reconcile_time_seconds histogram",
        ];
        for line in expected {
            assert!(text.lines().any(|own| own == line), "{line} is missing in {text}");
        }
    }

    /// Dashboards made for client-go find their metrics, with the same types and labels.
    #[test]
    fn queues_have_the_metric_names_of_client_go() {
        let metrics = Metrics::default();
        metrics.register("web", QueueMetrics::default, Arc::new(Counters::of(1)));
        let text = metrics.to_text();
        let expected = [
            "# TYPE workqueue_depth gauge",
            "workqueue_depth{name=\"web\"} 0",
            "# TYPE workqueue_adds_total counter",
            "# TYPE workqueue_retries_total counter",
            "# TYPE workqueue_unfinished_work_seconds gauge",
            "# TYPE workqueue_longest_running_processor_seconds gauge",
            "# TYPE workqueue_queue_duration_seconds histogram",
            "workqueue_queue_duration_seconds_bucket{name=\"web\",le=\"1e-08\"} 0",
            "workqueue_work_duration_seconds_bucket{name=\"web\",le=\"+Inf\"} 0",
            "workqueue_work_duration_seconds_count{name=\"web\"} 0",
        ];
        for line in expected {
            assert!(text.lines().any(|own| own == line), "{line} is missing in {text}");
        }
    }
}
