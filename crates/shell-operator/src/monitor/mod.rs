//! Monitors: the objects of one kubernetes binding and their changes.
//!
//! A monitor reads the shared informers of its resource. It keeps the result of the binding's jq program for each object
//! and reports a change only if that result changes. Until [`Monitor::unlock_events`] is called, which is after the run
//! with the existing objects, events are kept back; a snapshot contains them, so taking one drops them.

mod caches;
mod namespaces;
mod start;
mod state;

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::Stored;
use setpoint_runtime::{Event, Registration};

use crate::binding_context::{ObjectAndFilterResult, ObjectId};
use crate::config::{KubernetesBinding, WatchEvent};
use crate::metrics::{LabelSet, MetricStorage, names};

use caches::MonitorCaches;
pub use start::MonitorError;
pub(crate) use start::{MonitorFactory, MonitorSpec};
use state::{FilteredObject, State};

/// The monitor of one binding. Dropping it ends it.
pub struct Monitor {
    shared: Arc<Shared>,
    /// Keeps the handlers of the informers.
    registrations: Vec<Registration>,
}

/// A change that a hook is to be run for.
#[derive(Debug, Clone)]
pub struct KubeEvent {
    /// How the object has changed.
    pub event: WatchEvent,
    /// The object.
    pub object: ObjectAndFilterResult,
}

/// Called with each event, in order.
pub(crate) type EventSink = Arc<dyn Fn(KubeEvent) + Send + Sync>;

/// What the handlers of the informers share.
struct Shared {
    hook: String,
    binding: usize,
    config: Arc<BindingConfig>,
    kind: String,
    caches: MonitorCaches,
    state: Mutex<State>,
    sink: EventSink,
    metrics: Arc<MetricStorage>,
    labels: LabelSet,
}

/// The part of a binding that a monitor uses.
struct BindingConfig {
    name: String,
    filter: Option<Arc<crate::jq::Filter>>,
    events: Vec<WatchEvent>,
    keep_full_objects: bool,
}

/// How many objects a monitor has, and how many changes it has seen.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub struct ObjectCounts {
    /// Objects in the snapshot.
    pub count: u64,
    /// Objects that were added.
    pub added: u64,
    /// Objects that were deleted.
    pub deleted: u64,
    /// Changes.
    pub modified: u64,
    /// How often the snapshot has become empty.
    pub cleaned: u64,
}

// === impl Monitor ===

impl Monitor {
    /// The objects, sorted by namespace and name, for the run with the existing objects. Events that are kept back are
    /// dropped: the objects have their state.
    pub fn synchronize(&self) -> Vec<ObjectAndFilterResult> {
        self.shared.state.lock().synchronize()
    }

    /// The objects, sorted by namespace and name. Events that are kept back stay: the run that gets the objects may be one
    /// of another binding.
    pub fn snapshot(&self) -> Vec<ObjectAndFilterResult> {
        self.shared.state.lock().snapshot()
    }

    /// Delivers the events that were kept back, and then every event as it comes.
    pub fn unlock_events(&self) {
        let mut state = self.shared.state.lock();
        for event in state.unlock() {
            (self.shared.sink)(event);
        }
    }

    /// Counts since the start, and since the last call.
    pub(crate) fn counts(&self) -> (ObjectCounts, ObjectCounts) {
        self.shared.state.lock().counts()
    }
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor")
            .field("hook", &self.shared.hook)
            .field("binding", &self.shared.binding)
            .field("informers", &self.registrations.len())
            .finish_non_exhaustive()
    }
}

// === impl BindingConfig ===

impl BindingConfig {
    fn new(binding: &KubernetesBinding) -> Self {
        Self {
            name: binding.options.name.clone(),
            filter: binding.jq_filter.clone(),
            events: binding.events.clone(),
            keep_full_objects: binding.keep_full_objects,
        }
    }
}

// === impl Shared ===

impl Shared {
    /// Handles an event of an informer whose objects are all in the binding's namespaces.
    fn handle(&self, event: Event<'_>) {
        match event {
            Event::Present(object) => self.present(object),
            Event::Changed(change) => match change {
                setpoint_api::Change::Added(object) => self.changed(WatchEvent::Added, object),
                setpoint_api::Change::Modified { new, .. } => self.changed(WatchEvent::Modified, new),
                setpoint_api::Change::Deleted { last, .. } => self.deleted(last),
            },
            Event::Gap => self.delete_missing(),
        }
    }

    /// An object of the initial list, or one that is delivered again after a gap.
    fn present(&self, object: &Arc<Stored>) {
        let id = self.id(object);
        let (is_initial, is_known) = {
            let state = self.state.lock();
            (state.is_initial(), state.contains(&id))
        };
        match (is_initial, is_known) {
            (true, _) => self.load(object),
            (false, true) => self.changed(WatchEvent::Modified, object),
            (false, false) => self.changed(WatchEvent::Added, object),
        }
    }

    /// Takes an object into the snapshot without an event.
    fn load(&self, object: &Arc<Stored>) {
        if let Some(checked) = self.check(object) {
            let mut state = self.state.lock();
            state.put(checked, None);
            self.record_count(&state);
        }
    }

    fn changed(&self, event: WatchEvent, object: &Arc<Stored>) {
        let Some(checked) = self.check(object) else { return };
        let entry = checked.entry.clone();
        let mut state = self.state.lock();
        let is_changed = state.put(checked, Some(event));
        self.record_count(&state);
        if is_changed {
            self.fire(&mut state, event, entry);
        }
    }

    /// Reports a deletion once: that of an object that the snapshot had. If the jq program fails, its last result is that of
    /// the event; otherwise the snapshot would have the object for ever.
    fn deleted(&self, object: &Arc<Stored>) {
        let checked = self.check(object);
        let mut state = self.state.lock();
        let Some(old) = state.remove(&self.id(object)) else {
            return;
        };
        self.record_count(&state);
        let entry = checked.map_or(old, |checked| checked.entry);
        self.fire(&mut state, WatchEvent::Deleted, entry);
    }

    /// Deletes objects that are no longer in the caches, whose deletion was missed. Each cache has some of the objects only.
    fn delete_missing(&self) {
        let objects = self.caches.snapshots();
        let mut state = self.state.lock();
        for entry in state.missing(|id| objects.contains(id)) {
            state.remove(&entry.id);
            self.fire(&mut state, WatchEvent::Deleted, entry);
        }
        self.record_count(&state);
    }

    /// The sink is called with the lock held, so that events stay in order. It only adds a task to a queue.
    fn fire(&self, state: &mut State, event: WatchEvent, object: ObjectAndFilterResult) {
        if !self.config.events.contains(&event) {
            return;
        }
        let event = KubeEvent { event, object };
        if let Some(event) = state.keep_back(event) {
            (self.sink)(event);
        }
    }

    /// The object with the result of the jq program; `None` if that fails, which is logged.
    fn check(&self, object: &Arc<Stored>) -> Option<FilteredObject> {
        let result = match &self.config.filter {
            None => None,
            Some(filter) => match filter.apply(object.json()) {
                Ok(result) => Some(Arc::<str>::from(result)),
                Err(error) => {
                    let (hook, binding) = (&self.hook, &self.config.name);
                    tracing::error!(hook, binding, key = object.key().as_str(), %error, "jqFilter failed on an object");
                    return None;
                }
            },
        };
        Some(FilteredObject {
            version: object.resource_version(),
            entry: ObjectAndFilterResult {
                object: self.config.keep_full_objects.then(|| object.clone()),
                filter_result: result,
                id: self.id(object),
            },
        })
    }

    fn id(&self, object: &Stored) -> ObjectId {
        ObjectId {
            namespace: object.key().namespace().to_owned(),
            name: object.key().name().to_owned(),
            kind: self.kind.clone(),
        }
    }

    fn record_count(&self, state: &State) {
        self.metrics
            .set_gauge(names::KUBE_SNAPSHOT_OBJECTS, &self.labels, state.len() as f64);
    }
}

#[cfg(test)]
mod tests;
