//! What a factory says of its informers: whether they have all they watch, and how much that is.

use std::fmt::Write;
use std::sync::Arc;

use super::{Factory, Id, SharedInformer};

impl Factory {
    /// Whether everything that has been asked for so far is filled; if not, what is not.
    pub fn check_synced(&self) -> Result<(), String> {
        let missing: Vec<String> = self
            .all()
            .iter()
            .filter(|(_, informer)| !informer.has_synced())
            .map(|(id, _)| id.resource.group_resource().to_string())
            .collect();
        match missing.is_empty() {
            true => Ok(()),
            false => Err(format!("not seen in full yet: {}", missing.join(", "))),
        }
    }

    /// The figures of all informers as text, under the names that client-go gave those it has, too.
    pub fn metrics_text(&self) -> String {
        let informers = self.all();
        let figures: Vec<_> = informers
            .iter()
            .map(|(id, informer)| (id, informer.cache().metrics()))
            .collect();
        let mut text = String::new();
        for (metric, figure) in [
            (
                "informer_store_resource_version",
                (|cache| cache.version.0 % VERSION_DIGITS) as fn(&setpoint_cache::Metrics) -> u64,
            ),
            ("setpoint_informer_store_objects", |cache| cache.objects as u64),
            ("setpoint_informer_queued_changes", |cache| {
                cache.untold_changes as u64
            }),
            ("setpoint_informer_window_changes", |cache| {
                cache.window_changes as u64
            }),
            ("setpoint_informer_window_bytes", |cache| {
                cache.window_bytes as u64
            }),
            ("setpoint_informer_handlers", |cache| cache.subscribers as u64),
        ] {
            writeln!(text, "# TYPE {metric} gauge").expect("a string takes what is written");
            for (id, cache) in &figures {
                let (labels, figure) = (labels(id), figure(cache));
                writeln!(text, "{metric}{{{labels}}} {figure}").expect("a string takes what is written");
            }
        }
        text
    }

    fn all(&self) -> Vec<(Id, Arc<SharedInformer>)> {
        let informers = self.informers.lock();
        informers
            .iter()
            .map(|(id, informer)| (id.clone(), informer.clone()))
            .collect()
    }
}

/// A figure is a floating-point number to whoever gathers it, which has no more digits than fifteen.
const VERSION_DIGITS: u64 = 1_000_000_000_000_000;

/// Informers of one resource differ by their selection, which is their name.
fn labels(id: &Id) -> String {
    let selection = [&id.namespace, &id.labels, &id.fields].map(|part| part.replace(['"', '\\'], ""));
    format!(
        "name=\"{}\",group=\"{}\",version=\"{}\",resource=\"{}\"",
        selection.join(" ").trim(),
        id.resource.group,
        id.resource.version,
        id.resource.resource
    )
}
