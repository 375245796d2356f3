//! Namespaces of a binding that are selected by labels: they start and stop to match at any time.
//!
//! The objects come from one informer of all namespaces, so that the server sees one watch however many namespaces match.
//! Objects of a namespace that starts or stops to match appear in, and disappear from, the snapshot without events, as
//! upstream does it.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::Change;
use setpoint_runtime::{Cache, Event, HandlerOptions, Registration, SharedInformer};

use super::{MonitorError, Shared};

/// The namespaces that match now.
#[derive(Clone)]
pub(super) struct NamespaceFilter {
    shared: Arc<Shared>,
    /// Namespaces that have an informer of their own.
    ignored: Arc<BTreeSet<String>>,
    matching: Arc<Mutex<BTreeSet<String>>>,
    /// The caches with the objects of all namespaces.
    caches: Arc<Mutex<Vec<Arc<Cache>>>>,
}

impl NamespaceFilter {
    pub(super) fn new(shared: Arc<Shared>, ignored: BTreeSet<String>) -> Self {
        Self {
            shared,
            ignored: Arc::new(ignored),
            matching: Arc::default(),
            caches: Arc::default(),
        }
    }

    /// Handles the objects of all namespaces: those of matching ones go to the monitor.
    pub(super) fn add_object_handler(&self, informer: &SharedInformer) -> Result<Registration, MonitorError> {
        let (filter, cache) = (self.clone(), informer.cache().clone());
        self.caches.lock().push(cache.clone());
        let handle = move |event: Event<'_>| {
            let key = match event {
                Event::Present(object) => object.key().clone(),
                Event::Changed(change) => change.key().clone(),
                Event::Gap => return filter.shared.handle(event, &cache),
            };
            if filter.matching.lock().contains(key.namespace()) {
                filter.shared.handle(event, &cache);
            }
        };
        informer
            .add_handler(HandlerOptions::default(), handle)
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

    fn add(&self, namespace: &str) {
        if self.ignored.contains(namespace) || !self.matching.lock().insert(namespace.to_owned()) {
            return;
        }
        tracing::info!(
            hook = self.shared.hook,
            namespace,
            "namespace matches; its objects are monitored"
        );
        let caches = self.caches.lock().clone();
        for cache in caches {
            for object in cache.snapshot().in_namespace(namespace) {
                self.shared.load(object);
            }
        }
    }

    fn remove(&self, namespace: &str) {
        if self.matching.lock().remove(namespace) {
            tracing::info!(hook = self.shared.hook, namespace, "namespace no longer matches");
            self.shared.state.lock().remove_namespace(namespace);
        }
    }

    fn remove_missing(&self, cache: &Cache) {
        let current = cache.snapshot();
        let exists = |name: &str| current.iter().any(|namespace| namespace.key().name() == name);
        let matching: Vec<String> = self.matching.lock().iter().cloned().collect();
        for namespace in matching.iter().filter(|name| !exists(name)) {
            self.remove(namespace);
        }
    }
}
