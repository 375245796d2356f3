//! Events: telling users what a controller did and why.
//!
//! Recording never waits and never fails: what finds the queue full is dropped. A sink writes them, many of the same kind
//! as one, and gives up on those the server does not want. [`Recorder`] writes events of the core group, which every tool
//! shows; [`SeriesRecorder`] those of `events.k8s.io`, which say what was done as well as why.

mod correlate;
mod name;
mod series;
mod sink;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use k8s_openapi::api::core::v1::ObjectReference;
use setpoint_api::Clock;
use setpoint_client::{Client, Object, Typed};
use tokio::sync::mpsc;

pub use series::{Matter, SeriesRecorder, SeriesSink, series_recorder};
pub use sink::Sink;

/// Takes events down for one component. Cloning shares the queue.
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
///     recorder.of("shop-operator").normal(&map, "Opened", "the shop is open");
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
    queue: mpsc::Sender<Event>,
    dropped: Arc<AtomicU64>,
    /// Taken down and not written yet.
    pending: Arc<AtomicU64>,
}

/// Something worth telling about an object.
#[derive(Debug, Clone)]
pub struct Event {
    /// Who tells.
    pub component: Arc<str>,
    /// What it happened to.
    pub about: ObjectReference,
    /// Whether a user should worry.
    pub severity: Severity,
    /// One word in CamelCase: why.
    pub reason: String,
    /// The same in words for a reader.
    pub message: String,
}

/// Whether a user should worry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// Things go as they should.
    Normal,
    /// Somebody may have to look.
    Warning,
}

/// What is not written yet. When it is full, events are dropped.
const QUEUE_EVENTS: usize = 1000;

/// A recorder, and the sink that writes what it takes down.
pub fn recorder(client: Client, clock: Arc<dyn Clock>) -> (Recorder, Sink) {
    let (sender, receiver) = mpsc::channel(QUEUE_EVENTS);
    let recorder = Recorder {
        component: "setpoint".into(),
        queue: sender,
        dropped: Arc::default(),
        pending: Arc::default(),
    };
    let sink = Sink::new(receiver, recorder.pending.clone(), client, clock);
    (recorder, sink)
}

/// A reference to an object, as events have it.
pub fn reference<T: Object>(object: &Typed<T>) -> ObjectReference {
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
    pub fn of(&self, component: &str) -> Self {
        let component = component.into();
        Self {
            component,
            ..self.clone()
        }
    }

    /// Takes down that something went as it should.
    pub fn normal<T: Object>(&self, object: &Typed<T>, reason: &str, message: impl Into<String>) {
        self.record(reference(object), Severity::Normal, reason, message);
    }

    /// Takes down that something is wrong.
    pub fn warning<T: Object>(&self, object: &Typed<T>, reason: &str, message: impl Into<String>) {
        self.record(reference(object), Severity::Warning, reason, message);
    }

    /// Takes an event down about anything that can be referred to.
    pub fn record(
        &self,
        about: ObjectReference,
        severity: Severity,
        reason: &str,
        message: impl Into<String>,
    ) {
        let event = Event {
            component: self.component.clone(),
            about,
            severity,
            reason: reason.to_owned(),
            message: message.into(),
        };
        self.pending.fetch_add(1, Ordering::AcqRel);
        if self.queue.try_send(event).is_err() {
            self.pending.fetch_sub(1, Ordering::AcqRel);
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many events have been taken down and are not written yet.
    pub fn pending(&self) -> u64 {
        self.pending.load(Ordering::Acquire)
    }

    /// How many events found no room.
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

impl Severity {
    /// The word that the API has for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

#[cfg(test)]
mod tests;
