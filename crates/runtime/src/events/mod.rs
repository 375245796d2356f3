//! Kubernetes events: what a controller did and why, for users.
//!
//! Recording never waits and never fails: when the queue is full, events are dropped. A sink writes them, aggregates
//! similar ones, and drops those that the server rejects. [`Recorder`] writes events of the core group, which every tool
//! shows; [`SeriesRecorder`] those of `events.k8s.io`, which have an action besides the reason.

mod correlate;
mod metrics;
mod name;
mod series;
mod sink;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use k8s_openapi::api::core::v1::ObjectReference;
use setpoint_api::Clock;
use setpoint_client::{Client, Object, TypedObject};
use tokio::sync::mpsc;

pub use series::{SeriesKey, SeriesRecorder, SeriesSink, series_recorder};
pub use sink::Sink;

/// Records events for one component (client-go's `EventRecorder`). Cloning shares the queue.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), setpoint_api::Status> {
/// # let cluster = setpoint_testkit::Cluster::start().await;
/// # let (client, clock) = (cluster.client("me"), std::sync::Arc::new(cluster.clock.clone()));
/// use k8s_openapi::api::core::v1::{ConfigMap, Event};
/// use setpoint_runtime::events;
/// use tokio_util::sync::CancellationToken;
///
/// // A manager has both, and its context the recorder.
/// let (recorder, sink) = events::recorder(client.clone(), clock);
/// let map = client.namespaced::<ConfigMap>("default").create(&setpoint_testkit::config_map("a", "k", "v")).await?;
/// for _ in 0..3 {
///     recorder.for_component("web-operator").normal(&map, "Ready", "the site is up");
/// }
/// drop(recorder);
/// sink.run(CancellationToken::new()).await;
/// # cluster.settle().await;
/// let events = cluster.list::<Event>();
/// assert_eq!((events.len(), events[0].count), (1, Some(3)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Recorder {
    component: Arc<str>,
    action: Option<Arc<str>>,
    field_manager: Option<Arc<str>>,
    queue: mpsc::Sender<Event>,
    dropped: Arc<AtomicU64>,
    /// Recorded events that are not written yet.
    pending: Arc<AtomicU64>,
}

/// An event to record about an object.
#[derive(Debug, Clone)]
pub struct Event {
    /// The reporting component.
    pub component: Arc<str>,
    /// What the component did or tried to do, one word in CamelCase.
    pub action: Option<Arc<str>>,
    /// The field manager of the event object; without one, that of the sink's client.
    pub field_manager: Option<Arc<str>>,
    /// The object that the event is about.
    pub involved_object: ObjectReference,
    /// Normal or warning.
    pub event_type: EventType,
    /// The machine-readable reason, one word in CamelCase.
    pub reason: String,
    /// A description for users.
    pub message: String,
}

/// The type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Something went as expected.
    Normal,
    /// Something may need a user's attention.
    Warning,
}

/// The capacity of the queue. When it is full, events are dropped.
const QUEUE_EVENTS: usize = 1000;

/// A recorder, and the sink that writes its events.
pub fn recorder(client: Client, clock: Arc<dyn Clock>) -> (Recorder, Sink) {
    let (sender, receiver) = mpsc::channel(QUEUE_EVENTS);
    let recorder = Recorder {
        component: "setpoint".into(),
        action: None,
        field_manager: None,
        queue: sender,
        dropped: Arc::default(),
        pending: Arc::default(),
    };
    let sink = Sink::new(receiver, recorder.pending.clone(), client, clock);
    (recorder, sink)
}

/// The reference to an object in an event.
pub fn reference<T: Object>(object: &TypedObject<T>) -> ObjectReference {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let gvk = T::gvk();
    ObjectReference {
        api_version: Some(gvk.api_version().into()),
        kind: Some(gvk.kind.into()),
        namespace: some(object.key().namespace()),
        name: some(object.key().name()),
        uid: some(object.uid()),
        resource_version: Some(object.resource_version().to_string()),
        field_path: None,
    }
}

// === impl Recorder ===

impl Recorder {
    /// The same recorder for another component.
    #[must_use]
    pub fn for_component(&self, component: &str) -> Self {
        let component = component.into();
        Self {
            component,
            ..self.clone()
        }
    }

    /// The same recorder, with this action in its events: what the component did or tried to do.
    #[must_use]
    pub fn with_action(&self, action: &str) -> Self {
        Self {
            action: Some(action.into()),
            ..self.clone()
        }
    }

    /// The same recorder, with this field manager for the events that it writes.
    #[must_use]
    pub fn with_field_manager(&self, manager: &str) -> Self {
        Self {
            field_manager: Some(manager.into()),
            ..self.clone()
        }
    }

    /// Records an event of type Normal.
    pub fn normal<T: Object>(&self, object: &TypedObject<T>, reason: &str, message: impl Into<String>) {
        self.record(reference(object), EventType::Normal, reason, message);
    }

    /// Records an event of type Warning.
    pub fn warning<T: Object>(&self, object: &TypedObject<T>, reason: &str, message: impl Into<String>) {
        self.record(reference(object), EventType::Warning, reason, message);
    }

    /// Records an event about any object reference.
    pub fn record(
        &self,
        involved_object: ObjectReference,
        event_type: EventType,
        reason: &str,
        message: impl Into<String>,
    ) {
        let event = Event {
            component: self.component.clone(),
            action: self.action.clone(),
            field_manager: self.field_manager.clone(),
            involved_object,
            event_type,
            reason: reason.to_owned(),
            message: message.into(),
        };
        self.pending.fetch_add(1, Ordering::AcqRel);
        if self.queue.try_send(event).is_err() {
            self.pending.fetch_sub(1, Ordering::AcqRel);
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The number of recorded events that are not written yet.
    pub fn pending(&self) -> u64 {
        self.pending.load(Ordering::Acquire)
    }

    /// The number of events dropped because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Recorder").field(&self.component).finish()
    }
}

// === impl Severity ===

impl EventType {
    /// The value of the API field `type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

#[cfg(test)]
mod tests;
