//! Prometheus metrics of the registry and of the stores below it. Those of further stores than the default one have the
//! label `storage_cluster_id`, as in kube-apiserver's metrics.

use setpoint_api::ApiVerb;
use setpoint_store::{Histogram, Metrics as StoreMetrics, Store};
use setpoint_values::metrics::{Buckets, MetricsSource, TextEncoder};

use super::latency;
use crate::Registry;

impl MetricsSource for Registry {
    fn write(&self, text: &mut TextEncoder) {
        latency::write(text, self);
        self.conversions.metrics.write(text);
        write_registry(text, self);
        let metrics: Vec<_> = self.stores().map(Store::metrics).collect();
        write_stores(text, &metrics);
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

const STORE_METRICS: [StoreMetric; 15] = [
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
    (
        "full",
        "gauge",
        "Whether writes other than deletes are rejected because the disk is full.",
        |store| store.full.into(),
    ),
    (
        "undecodable_keys",
        "gauge",
        "Keys whose stored values cannot be decoded.",
        |store| store.undecodable_keys,
    ),
];

/// Writes the metrics of all stores, family by family. The first is the default one.
fn write_stores(text: &mut TextEncoder, stores: &[StoreMetrics]) {
    let ids: Vec<String> = (0..stores.len()).map(super::storage_cluster_id).collect();
    for (name, kind, help, value) in STORE_METRICS {
        let name = format!("setpoint_store_{name}");
        text.family(&name, kind, help);
        for (index, metrics) in stores.iter().enumerate() {
            text.sample(&name, labels(index, &ids).as_slice(), value(metrics));
        }
    }
    // Only a store with files has these, and it is the only one.
    let [metrics, ..] = stores else { return };
    if let Some(free_bytes) = metrics.free_bytes {
        let name = "setpoint_store_free_bytes";
        text.family(name, "gauge", "Bytes that are free on the disk of the store.");
        text.sample(name, &[], free_bytes);
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

/// The labels of the store with this index.
fn labels(index: usize, ids: &[String]) -> Vec<(&str, &str)> {
    match index {
        0 => Vec::new(),
        _ => vec![("storage_cluster_id", &ids[index])],
    }
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
