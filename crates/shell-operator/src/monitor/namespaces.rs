//! Namespaces of a binding that are selected by labels: they start and stop to match at any time.
//!
//! The objects come from one informer of all namespaces, so that the server sees one watch however many namespaces match.
//! Objects of a namespace that starts or stops to match appear in, and disappear from, the snapshot without events, as
//! upstream does it.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::{Change, Key};
use setpoint_runtime::{Cache, Event, HandlerOptions, Registration, SharedInformer};

use super::caches::Namespaces;
use super::{MonitorError, Shared};

/// The namespaces that match now.
#[derive(Clone)]
pub(super) struct NamespaceFilter {
    shared: Arc<Shared>,
    /// Namespaces that have an informer of their own.
    ignored: Arc<BTreeSet<String>>,
    /// Locked while an event is handled, too: an object that is deleted while its namespace starts to match would otherwise
    /// stay in the snapshot. It is locked before the state of the monitor.
    matching: Arc<Mutex<BTreeSet<String>>>,
}

impl NamespaceFilter {
    pub(super) fn new(shared: Arc<Shared>, ignored: BTreeSet<String>) -> Self {
        Self {
            shared,
            ignored: Arc::new(ignored),
            matching: Arc::default(),
        }
    }

    /// Handles the objects of all namespaces: those of matching ones go to the monitor.
    pub(super) fn add_object_handler(&self, informer: &SharedInformer) -> Result<Registration, MonitorError> {
        let namespaces = Namespaces::AllBut(self.ignored.clone());
        self.shared.caches.add(namespaces, informer.cache().clone());
        let filter = self.clone();
        informer
            .add_handler(HandlerOptions::default(), move |event| filter.handle(event))
            .map_err(|_| MonitorError::Stopped)
    }

    /// Handles the namespaces with the labels.
    pub(super) fn add_namespace_handler(
        &self,
        informer: &SharedInformer,
    ) -> Result<Registration, MonitorError> {
        let (filter, cache) = (self.clone(), informer.cache().clone());
        let handle = move |event: Event<'_>| match event {
            Event::Present(namespace) => filter.add(namespace.key().name()),
            Event::Changed(Change::Deleted { last, .. }) => filter.remove(last.key().name()),
            Event::Changed(change) => filter.add(change.key().name()),
            Event::Gap => filter.remove_missing(&cache),
        };
        informer
            .add_handler(HandlerOptions::default(), handle)
            .map_err(|_| MonitorError::Stopped)
    }

    fn handle(&self, event: Event<'_>) {
        let matching = self.matching.lock();
        let is_selected = match event {
            Event::Present(object) => matching.contains(object.key().namespace()),
            Event::Changed(change) => matching.contains(change.key().namespace()),
            Event::Gap => true,
        };
        if is_selected {
            self.shared.handle(event);
        }
    }

    fn add(&self, namespace: &str) {
        let mut matching = self.matching.lock();
        if self.ignored.contains(namespace) || !matching.insert(namespace.to_owned()) {
            return;
        }
        tracing::info!(
            hook = self.shared.hook,
            namespace,
            "namespace matches; its objects are monitored"
        );
        for snapshot in self.shared.caches.in_namespace(namespace) {
            for object in snapshot.in_namespace(namespace) {
                self.shared.load(object);
            }
        }
    }

    fn remove(&self, namespace: &str) {
        let mut matching = self.matching.lock();
        if matching.remove(namespace) {
            tracing::info!(hook = self.shared.hook, namespace, "namespace no longer matches");
            self.shared.state.lock().remove_namespace(namespace);
        }
    }

    fn remove_missing(&self, cache: &Cache) {
        let current = cache.snapshot();
        let matching: Vec<String> = self.matching.lock().iter().cloned().collect();
        for namespace in &matching {
            if current.find(&Key::new("", namespace)).is_none() {
                self.remove(namespace);
            }
        }
    }
}
