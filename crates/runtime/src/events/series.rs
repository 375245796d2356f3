//! Events of `events.k8s.io`: what happened, to whom and by whom, told once with a count instead of many times.
//!
//! The first of a kind is written as it is, the second turns it into a series, and from then on it is only counted: the
//! count is written every half hour, and when the series has fallen silent. So what a server shows may lag, and a loop that
//! fails every second costs two writes an hour. The rules are client-go's, `tools/events/event_broadcaster.go`.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event as Object, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use serde_json::json;
use setpoint_api::{Clock, Status};
use setpoint_client::{Client, Handle, Patch};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Severity;
use super::name::Names;
use super::sink::until_reached;

/// Takes down what one instance of one controller did. Cloning shares the queue.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let cluster = setpoint_testkit::Cluster::start().await;
/// # let (client, clock) = (cluster.client("me"), std::sync::Arc::new(cluster.clock.clone()));
/// # let regarding = Default::default();
/// use setpoint_runtime::Severity;
/// use setpoint_runtime::events::{Matter, series_recorder};
/// use tokio_util::sync::CancellationToken;
///
/// let (recorder, sink) = series_recorder(client, clock, "example.com/shop-operator", "pod-1");
/// let matter = Matter {
///     regarding,
///     related: None,
///     severity: Severity::Warning,
///     reason: "NoStock".to_owned(),
///     action: "Selling".to_owned(),
/// };
/// recorder.record(matter, "there is nothing left to sell");
/// drop(recorder);
/// sink.run(CancellationToken::new()).await;
/// # }
/// ```
#[derive(Clone)]
pub struct SeriesRecorder {
    controller: Arc<str>,
    instance: Arc<str>,
    queue: mpsc::Sender<(Matter, String)>,
    dropped: Arc<AtomicU64>,
}

/// What makes two events one series.
#[derive(Debug, Clone, PartialEq)]
pub struct Matter {
    /// To whom it happened.
    pub regarding: ObjectReference,
    /// Who else has to do with it.
    pub related: Option<ObjectReference>,
    /// Whether a user should worry.
    pub severity: Severity,
    /// One word in CamelCase: why.
    pub reason: String,
    /// One word in CamelCase: what was done, or failed to be.
    pub action: String,
}

/// The one who writes. Nothing is written unless it runs.
pub struct SeriesSink {
    controller: Arc<str>,
    instance: Arc<str>,
    queue: mpsc::Receiver<(Matter, String)>,
    client: Client,
    clock: Arc<dyn Clock>,
    /// What happened lately, by all that makes a series.
    known: HashMap<String, Known>,
    names: Names,
}

struct Known {
    event: Object,
    last: Timestamp,
    /// How much of the count the server has.
    written: i32,
}

/// What is not written yet. When it is full, events are dropped.
const QUEUE_EVENTS: usize = 1000;
/// How often the counts are written of what goes on.
const REFRESH_EVERY: Duration = Duration::from_secs(30 * 60);
/// What has been silent for so long is over.
const SILENCE: SignedDuration = SignedDuration::from_secs(6 * 60);
const LOOK_EVERY: Duration = Duration::from_secs(6 * 60);

/// A recorder for one instance of a controller, and the sink that writes what it takes down.
pub fn series_recorder(
    client: Client,
    clock: Arc<dyn Clock>,
    controller: &str,
    instance: &str,
) -> (SeriesRecorder, SeriesSink) {
    let (sender, receiver) = mpsc::channel(QUEUE_EVENTS);
    let (controller, instance): (Arc<str>, Arc<str>) = (controller.into(), instance.into());
    let recorder = SeriesRecorder {
        controller: controller.clone(),
        instance: instance.clone(),
        queue: sender,
        dropped: Arc::default(),
    };
    let sink = SeriesSink {
        controller,
        instance,
        queue: receiver,
        client,
        clock,
        known: HashMap::new(),
        names: Names::default(),
    };
    (recorder, sink)
}

// === impl SeriesRecorder ===

impl SeriesRecorder {
    /// Takes down that something happened. It never waits: what finds no room is dropped.
    pub fn record(&self, matter: Matter, note: impl Into<String>) {
        if self.queue.try_send((matter, note.into())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many events found no room.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for SeriesRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SeriesRecorder({} at {})", self.controller, self.instance)
    }
}

// === impl SeriesSink ===

impl SeriesSink {
    /// Writes events until stopped, or until there is no recorder left; then the counts that are not written yet.
    pub async fn run(mut self, stop: CancellationToken) {
        let (mut refresh, mut look) = (self.clock.sleep(REFRESH_EVERY), self.clock.sleep(LOOK_EVERY));
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                happened = self.queue.recv() => match happened {
                    Some((matter, note)) => self.note(matter, note).await,
                    None => break,
                },
                () = &mut refresh => {
                    self.write_counts().await;
                    refresh = self.clock.sleep(REFRESH_EVERY);
                }
                () = &mut look => {
                    self.end_silent().await;
                    look = self.clock.sleep(LOOK_EVERY);
                }
            }
        }
        self.write_counts().await;
    }

    async fn note(&mut self, matter: Matter, note: String) {
        let (now, id) = (self.clock.now(), matter.id());
        let Some(known) = self.known.get_mut(&id) else {
            let event = self.first(&matter, note, now);
            self.create(&event).await;
            let (last, written) = (now, 1);
            self.known.insert(id, Known { event, last, written });
            return;
        };
        let is_second = known.event.series.is_none();
        known.count_up(now);
        if is_second {
            self.write_count(&id).await;
        }
    }

    /// The counts that the server does not have.
    async fn write_counts(&mut self) {
        let behind = |(id, known): (&String, &Known)| (known.written < known.count()).then(|| id.clone());
        let behind: Vec<String> = self.known.iter().filter_map(behind).collect();
        for id in behind {
            self.write_count(&id).await;
        }
    }

    async fn end_silent(&mut self) {
        let now = self.clock.now();
        let silent = |known: &Known| now.duration_since(known.last) > SILENCE;
        let over: Vec<String> = self
            .known
            .iter()
            .filter(|(_, known)| silent(known))
            .map(|(id, _)| id.clone())
            .collect();
        for id in over {
            let is_behind = self
                .known
                .get(&id)
                .is_some_and(|known| known.written < known.count());
            if is_behind {
                self.write_count(&id).await;
            }
            self.known.remove(&id);
        }
    }

    /// Writes how often it has happened; what is not there any more, as events go, is written anew.
    async fn write_count(&mut self, id: &str) {
        let Some(known) = self.known.get(id) else {
            return;
        };
        let (event, count) = (known.event.clone(), known.count());
        let written = match self.patch(&event).await {
            Err(status) if status.is_not_found() => {
                let name = self
                    .names
                    .next(&event.regarding.clone().unwrap_or_default(), self.clock.now());
                let mut event = event;
                event.metadata.name = Some(name);
                self.create(&event).await;
                if let Some(known) = self.known.get_mut(id) {
                    known.event = event;
                }
                Ok(())
            }
            written => written,
        };
        match (written, self.known.get_mut(id)) {
            (Ok(()), Some(known)) => known.written = count,
            (Err(status), _) => tracing::debug!(%status, "the server does not take the count of an event"),
            (Ok(()), None) => {}
        }
    }

    async fn create(&self, event: &Object) {
        let events = self.events(event);
        if let Err(status) = until_reached(&*self.clock, || events.create(event)).await {
            tracing::debug!(%status, reason = event.reason, "the server does not take the event");
        }
    }

    async fn patch(&self, event: &Object) -> Result<(), Status> {
        let patch = Patch::merge(&json!({"series": event.series}))?;
        let (events, name) = (
            self.events(event),
            event.metadata.name.clone().unwrap_or_default(),
        );
        until_reached(&*self.clock, || events.patch(&name, &patch))
            .await
            .map(drop)
    }

    fn events(&self, event: &Object) -> Handle<Object> {
        self.client
            .namespaced(event.metadata.namespace.as_deref().unwrap_or_default())
    }

    fn first(&mut self, matter: &Matter, note: String, now: Timestamp) -> Object {
        let namespace = matter.regarding.namespace.clone();
        Object {
            metadata: ObjectMeta {
                name: Some(self.names.next(&matter.regarding, now)),
                namespace: Some(namespace.unwrap_or_else(|| "default".to_owned())),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            reporting_controller: Some(self.controller.to_string()),
            reporting_instance: Some(self.instance.to_string()),
            action: Some(matter.action.clone()),
            reason: Some(matter.reason.clone()),
            regarding: Some(matter.regarding.clone()),
            related: matter.related.clone(),
            note: Some(note),
            type_: Some(matter.severity.as_str().to_owned()),
            ..Object::default()
        }
    }
}

impl fmt::Debug for SeriesSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SeriesSink({} at {}, {} series)",
            self.controller,
            self.instance,
            self.known.len()
        )
    }
}

// === impl Matter ===

impl Matter {
    fn id(&self) -> String {
        let Self {
            regarding,
            related,
            severity,
            reason,
            action,
        } = self;
        format!("{severity:?} {action:?} {reason:?} {regarding:?} {related:?}")
    }
}

// === impl Known ===

impl Known {
    fn count(&self) -> i32 {
        self.event.series.as_ref().map_or(1, |series| series.count)
    }

    fn count_up(&mut self, now: Timestamp) {
        let count = self.count().saturating_add(1);
        self.last = now;
        self.event.series = Some(EventSeries {
            count,
            last_observed_time: MicroTime(now),
        });
    }
}
