//! Events of `events.k8s.io`: repeated events are one object with a series.
//!
//! The first event is written as it is, the second turns it into a series, and from then on events are only counted: the
//! count is written every half hour, and when the series has ended. So the count on the server may lag, and a loop that fails
//! every second costs two writes an hour. The rules are client-go's, `tools/events/event_broadcaster.go`.

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
use setpoint_client::{Api, Client, Patch};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::EventType;
use super::name::NameGenerator;
use super::sink::retry_until_reached;

/// Records events for one instance of a controller. Cloning shares the queue.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let cluster = setpoint_testkit::Cluster::start().await;
/// # let (client, clock) = (cluster.client("me"), std::sync::Arc::new(cluster.clock.clone()));
/// # let regarding = Default::default();
/// use setpoint_runtime::EventType;
/// use setpoint_runtime::events::{SeriesKey, series_recorder};
/// use tokio_util::sync::CancellationToken;
///
/// let (recorder, sink) = series_recorder(client, clock, "example.com/web-operator", "pod-1");
/// let key = SeriesKey {
///     regarding,
///     related: None,
///     event_type: EventType::Warning,
///     reason: "ImageMissing".to_owned(),
///     action: "Deploying".to_owned(),
/// };
/// recorder.record(key, "the image does not exist");
/// drop(recorder);
/// sink.run(CancellationToken::new()).await;
/// # }
/// ```
#[derive(Clone)]
pub struct SeriesRecorder {
    controller: Arc<str>,
    instance: Arc<str>,
    queue: mpsc::Sender<(SeriesKey, String)>,
    dropped: Arc<AtomicU64>,
}

/// Identifies a series: events that agree in all of this are counted together.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesKey {
    /// The object that the event is about.
    pub regarding: ObjectReference,
    /// A second object involved, if any.
    pub related: Option<ObjectReference>,
    /// Normal or warning.
    pub event_type: EventType,
    /// The machine-readable reason, one word in CamelCase.
    pub reason: String,
    /// The action taken or failed, one word in CamelCase.
    pub action: String,
}

/// Writes the events of a series recorder. It must be run for any event to be written.
pub struct SeriesSink {
    controller: Arc<str>,
    instance: Arc<str>,
    queue: mpsc::Receiver<(SeriesKey, String)>,
    client: Client,
    clock: Arc<dyn Clock>,
    /// The series that have not ended, by [`SeriesKey::id`].
    active: HashMap<String, ActiveSeries>,
    names: NameGenerator,
}

struct ActiveSeries {
    event: Object,
    last: Timestamp,
    /// The count that was last written.
    written: i32,
}

/// The capacity of the queue. When it is full, events are dropped.
const QUEUE_EVENTS: usize = 1000;
/// How often the counts of running series are written.
const REFRESH_PERIOD: Duration = Duration::from_secs(30 * 60);
/// A series without an event for this time has ended.
const FINISH_AFTER: SignedDuration = SignedDuration::from_secs(6 * 60);
const FINISH_CHECK_PERIOD: Duration = Duration::from_secs(6 * 60);

/// A recorder for one instance of a controller, and the sink that writes its events.
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
        active: HashMap::new(),
        names: NameGenerator::default(),
    };
    (recorder, sink)
}

// === impl SeriesRecorder ===

impl SeriesRecorder {
    /// Records an event. It never waits: when the queue is full, the event is dropped.
    pub fn record(&self, key: SeriesKey, note: impl Into<String>) {
        if self.queue.try_send((key, note.into())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The number of events dropped because the queue was full.
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
    /// Writes events until stopped, or until all recorders are dropped; then the counts that are not written yet.
    pub async fn run(mut self, stop: CancellationToken) {
        let (mut refresh, mut finish_check) = (
            self.clock.sleep(REFRESH_PERIOD),
            self.clock.sleep(FINISH_CHECK_PERIOD),
        );
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                received = self.queue.recv() => match received {
                    Some((key, note)) => self.record(key, note).await,
                    None => break,
                },
                () = &mut refresh => {
                    self.write_counts().await;
                    refresh = self.clock.sleep(REFRESH_PERIOD);
                }
                () = &mut finish_check => {
                    self.finish_idle().await;
                    finish_check = self.clock.sleep(FINISH_CHECK_PERIOD);
                }
            }
        }
        self.write_counts().await;
    }

    async fn record(&mut self, key: SeriesKey, note: String) {
        let (now, id) = (self.clock.now(), key.id());
        let Some(series) = self.active.get_mut(&id) else {
            let event = self.first(&key, note, now);
            self.create(&event).await;
            let (last, written) = (now, 1);
            self.active.insert(id, ActiveSeries { event, last, written });
            return;
        };
        let is_second = series.event.series.is_none();
        series.count_up(now);
        if is_second {
            self.write_count(&id).await;
        }
    }

    /// Writes all counts that the server does not have.
    async fn write_counts(&mut self) {
        let unwritten =
            |(id, series): (&String, &ActiveSeries)| (series.written < series.count()).then(|| id.clone());
        let unwritten: Vec<String> = self.active.iter().filter_map(unwritten).collect();
        for id in unwritten {
            self.write_count(&id).await;
        }
    }

    async fn finish_idle(&mut self) {
        let now = self.clock.now();
        let is_idle = |series: &ActiveSeries| now.duration_since(series.last) > FINISH_AFTER;
        let finished: Vec<String> = self
            .active
            .iter()
            .filter(|(_, series)| is_idle(series))
            .map(|(id, _)| id.clone())
            .collect();
        for id in finished {
            let is_unwritten = self
                .active
                .get(&id)
                .is_some_and(|series| series.written < series.count());
            if is_unwritten {
                self.write_count(&id).await;
            }
            self.active.remove(&id);
        }
    }

    /// Writes the count of a series; an event that has expired on the server is created again.
    async fn write_count(&mut self, id: &str) {
        let Some(series) = self.active.get(id) else {
            return;
        };
        let (event, count) = (series.event.clone(), series.count());
        let written = match self.patch(&event).await {
            Err(status) if status.is_not_found() => {
                let name = self
                    .names
                    .next(&event.regarding.clone().unwrap_or_default(), self.clock.now());
                let mut event = event;
                event.metadata.name = Some(name);
                self.create(&event).await;
                if let Some(series) = self.active.get_mut(id) {
                    series.event = event;
                }
                Ok(())
            }
            written => written,
        };
        match (written, self.active.get_mut(id)) {
            (Ok(()), Some(series)) => series.written = count,
            (Err(status), _) => tracing::debug!(%status, "the server rejected the count of an event series"),
            (Ok(()), None) => {}
        }
    }

    async fn create(&self, event: &Object) {
        let events = self.events(event);
        if let Err(status) = retry_until_reached(&*self.clock, || events.create(event)).await {
            tracing::debug!(%status, reason = event.reason, "the server rejected the event");
        }
    }

    async fn patch(&self, event: &Object) -> Result<(), Status> {
        let patch = Patch::merge(&json!({"series": event.series}))?;
        let (events, name) = (
            self.events(event),
            event.metadata.name.clone().unwrap_or_default(),
        );
        retry_until_reached(&*self.clock, || events.patch(&name, &patch))
            .await
            .map(drop)
    }

    fn events(&self, event: &Object) -> Api<Object> {
        self.client
            .namespaced(event.metadata.namespace.as_deref().unwrap_or_default())
    }

    fn first(&mut self, key: &SeriesKey, note: String, now: Timestamp) -> Object {
        let namespace = key.regarding.namespace.clone();
        Object {
            metadata: ObjectMeta {
                name: Some(self.names.next(&key.regarding, now)),
                namespace: Some(namespace.unwrap_or_else(|| "default".to_owned())),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            reporting_controller: Some(self.controller.to_string()),
            reporting_instance: Some(self.instance.to_string()),
            action: Some(key.action.clone()),
            reason: Some(key.reason.clone()),
            regarding: Some(key.regarding.clone()),
            related: key.related.clone(),
            note: Some(note),
            type_: Some(key.event_type.as_str().to_owned()),
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
            self.active.len()
        )
    }
}

// === impl SeriesKey ===

impl SeriesKey {
    fn id(&self) -> String {
        let Self {
            regarding,
            related,
            event_type,
            reason,
            action,
        } = self;
        format!("{event_type:?} {action:?} {reason:?} {regarding:?} {related:?}")
    }
}

// === impl Known ===

impl ActiveSeries {
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
