//! Prometheus metrics of the components below the API server (work queues, events, registry, store), and of the process.

use std::fs;
use std::sync::Arc;

use setpoint_api::ApiVerb;
use setpoint_apiserver::metrics::{Buckets, MetricsSource, TextEncoder};
use setpoint_registry::Registry;
use setpoint_runtime::{Manager, Recorder, metrics};
use setpoint_store::{Histogram, Metrics as StoreMetrics};

/// All sources of metrics.
pub(crate) fn sources(
    registry: &Arc<Registry>,
    manager: &Manager,
    aggregation: Box<dyn MetricsSource>,
) -> Vec<Box<dyn MetricsSource>> {
    let context = manager.context();
    vec![
        Box::new(WorkQueueSource(context.metrics.clone())),
        Box::new(EventSource(context.events.clone())),
        Box::new(StorageSource(registry.clone())),
        aggregation,
        Box::new(ProcessSource),
    ]
}

/// The work queues of all controllers.
struct WorkQueueSource(Arc<metrics::Metrics>);

impl MetricsSource for WorkQueueSource {
    fn write(&self, text: &mut TextEncoder) {
        text.append(&self.0.to_text());
    }
}

/// The recorder of Kubernetes events.
struct EventSource(Recorder);

impl MetricsSource for EventSource {
    fn write(&self, text: &mut TextEncoder) {
        text.family(
            "setpoint_events_dropped_total",
            "counter",
            "Events that were dropped since the queue was full.",
        );
        text.sample("setpoint_events_dropped_total", &[], self.0.dropped());
        text.family("setpoint_events_pending", "gauge", "Events in the queue.");
        text.sample("setpoint_events_pending", &[], self.0.pending());
    }
}

/// The registry and the store below it.
struct StorageSource(Arc<Registry>);

impl MetricsSource for StorageSource {
    fn write(&self, text: &mut TextEncoder) {
        write_registry(text, &self.0);
        write_store(text, &self.0.store().metrics());
    }
}

fn write_registry(text: &mut TextEncoder, registry: &Registry) {
    let metrics = registry.metrics();
    text.family(
        "setpoint_registry_requests_total",
        "counter",
        "Requests to the registry, over HTTP or from within the process.",
    );
    for (verb, counts) in ApiVerb::ALL.into_iter().zip(metrics.verbs) {
        let done = counts.requests - counts.failed;
        text.sample(
            "setpoint_registry_requests_total",
            &[("verb", verb.as_str()), ("outcome", "done")],
            done,
        );
        text.sample(
            "setpoint_registry_requests_total",
            &[("verb", verb.as_str()), ("outcome", "refused")],
            counts.failed,
        );
    }
    text.family(
        "setpoint_registry_conflicts_total",
        "counter",
        "Updates that failed since the object had changed.",
    );
    text.sample("setpoint_registry_conflicts_total", &[], metrics.conflicts);
    text.family(
        "setpoint_registry_unchanged_writes_total",
        "counter",
        "Writes that would have changed nothing.",
    );
    text.sample(
        "setpoint_registry_unchanged_writes_total",
        &[],
        metrics.unchanged_writes,
    );
}

/// A metric of the store: name, type, help text, and its value in the store's metrics.
type StoreMetric = (&'static str, &'static str, &'static str, fn(&StoreMetrics) -> u64);

const STORE_METRICS: [StoreMetric; 13] = [
    ("commits_total", "counter", "Committed transactions.", |store| {
        store.commits
    }),
    (
        "conflicts_total",
        "counter",
        "Transactions whose compare failed.",
        |store| store.conflicts,
    ),
    ("syncs_total", "counter", "Syncs of the log to disk.", |store| {
        store.syncs
    }),
    (
        "appended_bytes_total",
        "counter",
        "Bytes appended to the log.",
        |store| store.bytes_appended,
    ),
    ("expired_total", "counter", "Keys that expired.", |store| {
        store.expired
    }),
    (
        "compactions_total",
        "counter",
        "Compactions of old revisions.",
        |store| store.compactions,
    ),
    ("log_bytes", "gauge", "Bytes of log on disk.", |store| {
        store.log_bytes
    }),
    ("keys", "gauge", "Live keys.", |store| store.index_keys),
    ("live_bytes", "gauge", "Bytes of live keys and values.", |store| {
        store.index_bytes
    }),
    (
        "history_events",
        "gauge",
        "Past changes that a watch can start from.",
        |store| store.history_events,
    ),
    ("history_bytes", "gauge", "Bytes of past revisions.", |store| {
        store.history_bytes
    }),
    ("watchers", "gauge", "Watchers of the store.", |store| {
        store.watchers
    }),
    (
        "slow_watchers",
        "gauge",
        "Watchers that lag behind the current revision.",
        |store| store.slow_watchers,
    ),
];

fn write_store(text: &mut TextEncoder, metrics: &StoreMetrics) {
    for (name, kind, help, value) in STORE_METRICS {
        let name = format!("setpoint_store_{name}");
        text.family(&name, kind, help);
        text.sample(&name, &[], value(metrics));
    }
    text.family(
        "setpoint_store_sync_seconds",
        "histogram",
        "Duration of syncs of the log to disk.",
    );
    write_histogram(text, "setpoint_store_sync_seconds", &metrics.sync_micros, 1e-6);
    text.family(
        "setpoint_store_batch_transactions",
        "histogram",
        "Transactions per sync of the log.",
    );
    write_histogram(
        text,
        "setpoint_store_batch_transactions",
        &metrics.batch_txns,
        1.0,
    );
}

/// Writes a histogram with buckets of powers of two, scaled to `unit`.
#[allow(
    clippy::cast_precision_loss,
    reason = "bounds and sums of metrics need not be exact"
)]
fn write_histogram(text: &mut TextEncoder, name: &str, histogram: &Histogram, unit: f64) {
    let Some(last) = histogram.buckets.len().checked_sub(1) else {
        return;
    };
    let bounds: Vec<f64> = (0..last).map(|bucket| (1_u64 << bucket) as f64 * unit).collect();
    let sum = histogram.sum as f64 * unit;
    text.histogram(
        name,
        &[],
        &Buckets {
            bounds: &bounds,
            counts: &histogram.buckets,
            sum,
        },
    );
}

/// The process, by `/proc/self`.
struct ProcessSource;

impl MetricsSource for ProcessSource {
    fn write(&self, text: &mut TextEncoder) {
        let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let page = rustix::param::page_size() as u64;
        let mut pages = pages
            .split_whitespace()
            .filter_map(|count| count.parse::<u64>().ok());
        for (name, help) in [
            ("process_virtual_memory_bytes", "Address space of the process."),
            ("process_resident_memory_bytes", "Resident memory of the process."),
        ] {
            if let Some(count) = pages.next() {
                text.family(name, "gauge", help);
                text.sample(name, &[], count * page);
            }
        }
        if let Some(seconds) = cpu_seconds() {
            text.family("process_cpu_seconds_total", "counter", "CPU time of the process.");
            text.sample("process_cpu_seconds_total", &[], seconds);
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            text.family("process_open_fds", "gauge", "Open files of the process.");
            text.sample("process_open_fds", &[], files.count());
        }
    }
}

/// User and system time. The process name may contain blanks, so fields are counted from after it.
#[allow(clippy::cast_precision_loss, reason = "a sum of seconds need not be exact")]
fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}
