//! Sync status and metrics of a factory's informers.

use std::fmt::Write;
use std::sync::Arc;

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
        let mut text = String::new();
        for (metric, value) in [
            (
                "informer_store_resource_version",
                (|cache| cache.version.0 % VERSION_DIGITS) as fn(&setpoint_cache::Metrics) -> u64,
            ),
            ("setpoint_informer_store_objects", |cache| cache.objects as u64),
            ("setpoint_informer_queued_changes", |cache| {
                cache.undelivered_changes as u64
            }),
            ("setpoint_informer_window_changes", |cache| {
                cache.window_changes as u64
            }),
            ("setpoint_informer_window_bytes", |cache| {
                cache.window_bytes as u64
            }),
            ("setpoint_informer_handlers", |cache| cache.subscribers as u64),
        ] {
            writeln!(text, "# TYPE {metric} gauge").expect("writing to a string never fails");
            for (id, cache) in &caches {
                let (labels, value) = (labels(id), value(cache));
                writeln!(text, "{metric}{{{labels}}} {value}").expect("writing to a string never fails");
            }
        }
        text
    }

    fn all(&self) -> Vec<(InformerKey, Arc<SharedInformer>)> {
        let informers = self.informers.lock();
        informers
            .iter()
            .map(|(id, informer)| (id.clone(), informer.clone()))
            .collect()
    }
}

/// Prometheus stores a value as a 64-bit float, which is exact for fifteen digits only.
const VERSION_DIGITS: u64 = 1_000_000_000_000_000;

/// Informers of one resource differ by their selection, which is their name.
fn labels(id: &InformerKey) -> String {
    let selection = [&id.namespace, &id.labels, &id.fields].map(|field| field.replace(['"', '\\'], ""));
    format!(
        "name=\"{}\",group=\"{}\",version=\"{}\",resource=\"{}\"",
        selection.join(" ").trim(),
        id.resource.group,
        id.resource.version,
        id.resource.resource
    )
}
