//! Sync status and metrics of a factory's informers.

use std::sync::Arc;

use setpoint_values::metrics::TextEncoder;

use super::{InformerKey, SharedInformer, SharedInformerFactory};

impl SharedInformerFactory {
    /// Whether all informers created so far have synced; if not, the resources that have not.
    pub fn check_synced(&self) -> Result<(), String> {
        let missing: Vec<String> = self
            .all()
            .iter()
            .filter(|(_, informer)| !informer.has_synced())
            .map(|(id, _)| id.resource.group_resource().to_string())
            .collect();
        match missing.is_empty() {
            true => Ok(()),
            false => Err(format!("caches not synced: {}", missing.join(", "))),
        }
    }

    /// The metrics of all informers in Prometheus' text format, under client-go's names where it has them.
    pub fn metrics_text(&self) -> String {
        let informers = self.all();
        let caches: Vec<_> = informers
            .iter()
            .map(|(id, informer)| (id, informer.cache().metrics()))
            .collect();
        let mut text = TextEncoder::default();
        for (metric, help, value) in CACHE_METRICS {
            text.family(metric, "gauge", help);
            for (id, cache) in &caches {
                let name = selection(id);
                let labels = [
                    ("name", name.as_str()),
                    ("group", &id.resource.group),
                    ("version", &id.resource.version),
                    ("resource", &id.resource.resource),
                ];
                text.sample(metric, &labels, value(cache));
            }
        }
        text.into_string()
    }

    fn all(&self) -> Vec<(InformerKey, Arc<SharedInformer>)> {
        let informers = self.informers.lock();
        informers
            .iter()
            .map(|(id, informer)| (id.clone(), informer.clone()))
            .collect()
    }
}

/// A metric of a cache: name, help text, and its value.
type CacheMetric = (&'static str, &'static str, fn(&setpoint_cache::Metrics) -> u64);

const CACHE_METRICS: [CacheMetric; 6] = [
    (
        "informer_store_resource_version",
        "The last fifteen digits of the newest resource version.",
        |cache| cache.version.0 % VERSION_DIGITS,
    ),
    ("setpoint_informer_store_objects", "Cached objects.", |cache| {
        cache.objects as u64
    }),
    (
        "setpoint_informer_queued_changes",
        "Changes that the slowest handler has not received.",
        |cache| cache.undelivered_changes as u64,
    ),
    (
        "setpoint_informer_window_changes",
        "Past changes that are kept for handlers.",
        |cache| cache.window_changes as u64,
    ),
    (
        "setpoint_informer_window_bytes",
        "Bytes of past changes that are kept for handlers.",
        |cache| cache.window_bytes as u64,
    ),
    (
        "setpoint_informer_handlers",
        "Handlers that follow the cache.",
        |cache| cache.subscribers as u64,
    ),
];

/// Prometheus stores a value as a 64-bit float, which is exact for fifteen digits only.
const VERSION_DIGITS: u64 = 1_000_000_000_000_000;

/// The name of an informer: its selection, by which informers of one resource differ.
fn selection(id: &InformerKey) -> String {
    let selection = [id.namespace.as_str(), &id.labels, &id.fields];
    selection.join(" ").trim().to_owned()
}
