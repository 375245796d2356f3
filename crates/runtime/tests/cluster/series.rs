//! Events of `events.k8s.io` as the server has them: the first as it is, the rest as one series.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use setpoint_api::Clock;
use setpoint_api::options::{DeleteOptions, ListOptions};
use setpoint_runtime::events::{EventType, SeriesKey, SeriesRecorder, series_recorder};
use setpoint_testkit::Cluster;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const MINUTE: Duration = Duration::from_secs(60);

/// A recorder whose sink runs.
struct Fixture {
    cluster: Cluster,
    recorder: SeriesRecorder,
    stop: CancellationToken,
    sink: JoinSet<()>,
}

impl Fixture {
    async fn start() -> Self {
        let cluster = Cluster::start().await;
        let clock = Arc::new(cluster.clock.clone());
        let (recorder, sink) = series_recorder(cluster.client("test"), clock, "example.com/x", "x-1");
        let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
        running.spawn(sink.run(stop.clone()));
        cluster.settle().await;
        Self {
            cluster,
            recorder,
            stop,
            sink: running,
        }
    }

    async fn record(&self, matter: SeriesKey, note: &str) {
        self.recorder.record(matter, note);
        self.cluster.settle().await;
    }

    /// All events in the version of their group: they are stored in that of the core group.
    async fn events(&self) -> Vec<Event> {
        let events = self.cluster.client("test").all::<Event>();
        let list = events.list(&ListOptions::default()).await.unwrap();
        list.items.iter().map(|event| event.to_owned().unwrap()).collect()
    }

    /// All events, oldest first, as `Reason note xcount`.
    async fn shown(&self) -> Vec<String> {
        let mut events = self.events().await;
        events.sort_by_key(|event| event.event_time.as_ref().map(|time| time.0));
        let show = |event: &Event| {
            let count = event.series.as_ref().map_or(1, |series| series.count);
            format!(
                "{} {} x{count}",
                event.reason.as_deref().unwrap(),
                event.note.as_deref().unwrap()
            )
        };
        events.iter().map(show).collect()
    }
}

fn about(name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some("default".to_owned()),
        name: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}

fn pulled() -> SeriesKey {
    SeriesKey {
        regarding: about("web"),
        related: None,
        event_type: EventType::Normal,
        reason: "Pulled".to_owned(),
        action: "Pulling".to_owned(),
    }
}

#[tokio::test]
async fn the_first_event_is_written_as_it_is() {
    let fixture = Fixture::start().await;
    let now = fixture.cluster.clock.now();
    fixture.record(pulled(), "once").await;
    let event = fixture.events().await.remove(0);
    assert_eq!(
        event.metadata.name.unwrap(),
        format!("web.{:x}", now.as_nanosecond())
    );
    assert_eq!(event.metadata.namespace.as_deref(), Some("default"));
    assert_eq!(event.event_time.unwrap().0, now);
    assert_eq!(event.type_.as_deref(), Some("Normal"));
    assert_eq!(event.action.as_deref(), Some("Pulling"));
    assert_eq!(event.reporting_controller.as_deref(), Some("example.com/x"));
    assert_eq!(event.reporting_instance.as_deref(), Some("x-1"));
    assert_eq!(event.regarding.unwrap(), about("web"));
    assert!(event.series.is_none());
}

#[tokio::test]
async fn the_second_makes_it_a_series_and_the_third_is_only_counted() {
    let fixture = Fixture::start().await;
    fixture.record(pulled(), "once").await;
    fixture.cluster.advance(MINUTE).await;
    let second = fixture.cluster.clock.now();
    fixture.record(pulled(), "in other words").await;
    fixture.cluster.advance(MINUTE).await;
    fixture.record(pulled(), "once").await;
    assert_eq!(fixture.shown().await, ["Pulled once x2"]);
    let series = fixture.events().await.remove(0).series.unwrap();
    assert_eq!(series.last_observed_time.0, second);
}

#[tokio::test]
async fn events_that_differ_in_more_than_the_note_are_another_series() {
    let fixture = Fixture::start().await;
    fixture.record(pulled(), "a").await;
    for other in [
        SeriesKey {
            regarding: about("db"),
            ..pulled()
        },
        SeriesKey {
            related: Some(about("node")),
            ..pulled()
        },
        SeriesKey {
            event_type: EventType::Warning,
            ..pulled()
        },
        SeriesKey {
            reason: "Failed".to_owned(),
            ..pulled()
        },
        SeriesKey {
            action: "Starting".to_owned(),
            ..pulled()
        },
    ] {
        fixture.record(other, "a").await;
    }
    assert_eq!(fixture.shown().await.len(), 6);
    assert!(fixture.shown().await.iter().all(|line| line.ends_with("x1")));
}

/// Every half hour the count is written, which keeps the event from expiring, too.
#[tokio::test]
async fn a_running_series_is_written_every_half_hour() {
    let fixture = Fixture::start().await;
    for minute in (0..30).step_by(5) {
        fixture.record(pulled(), "again").await;
        let expected = if minute == 0 { "x1" } else { "x2" };
        assert!(fixture.shown().await[0].ends_with(expected), "minute {minute}");
        fixture.cluster.advance(5 * MINUTE).await;
    }
    assert_eq!(fixture.shown().await, ["Pulled again x6"]);
}

#[tokio::test]
async fn an_idle_series_is_written_and_ended() {
    let fixture = Fixture::start().await;
    for _ in 0..5 {
        fixture.record(pulled(), "again").await;
    }
    assert_eq!(fixture.shown().await, ["Pulled again x2"]);
    fixture.cluster.advance(13 * MINUTE).await;
    assert_eq!(fixture.shown().await, ["Pulled again x5"]);
    fixture.record(pulled(), "a new one").await;
    assert_eq!(fixture.shown().await, ["Pulled again x5", "Pulled a new one x1"]);
}

/// Events expire, and users delete them.
#[tokio::test]
async fn a_series_whose_event_has_expired_is_created_again() {
    let fixture = Fixture::start().await;
    fixture.record(pulled(), "again").await;
    let events = fixture.cluster.client("test").namespaced::<Event>("default");
    let name = fixture.events().await.remove(0).metadata.name.unwrap();
    events.delete(&name, DeleteOptions::default()).await.unwrap();
    fixture.record(pulled(), "again").await;
    assert_eq!(fixture.shown().await, ["Pulled again x2"]);
}

#[tokio::test]
async fn the_last_counts_are_written_at_the_end() {
    let mut fixture = Fixture::start().await;
    for _ in 0..7 {
        fixture.record(pulled(), "again").await;
    }
    fixture.stop.cancel();
    while let Some(ended) = fixture.sink.join_next().await {
        ended.unwrap();
    }
    fixture.cluster.settle().await;
    assert_eq!(fixture.shown().await, ["Pulled again x7"]);
}

/// Cluster-scoped objects have their events in the default namespace, whatever their name.
#[tokio::test]
async fn events_about_the_cluster_are_in_the_default_namespace() {
    let fixture = Fixture::start().await;
    for name in ["n1", "system:node"] {
        let regarding = ObjectReference {
            namespace: None,
            ..about(name)
        };
        fixture
            .record(
                SeriesKey {
                    regarding,
                    ..pulled()
                },
                name,
            )
            .await;
    }
    let events = fixture.events().await;
    assert_eq!(events.len(), 2);
    let is_default = |event: &Event| event.metadata.namespace.as_deref() == Some("default");
    assert!(events.iter().all(is_default));
}

/// Recording never waits: when the queue is full, events are dropped and counted.
#[tokio::test]
async fn events_are_dropped_when_the_queue_is_full() {
    let cluster = Cluster::start().await;
    let clock = Arc::new(cluster.clock.clone());
    let (recorder, _sink) = series_recorder(cluster.client("test"), clock, "example.com/x", "x-1");
    for _ in 0..1003 {
        recorder.record(pulled(), "again");
    }
    assert_eq!(recorder.dropped(), 3);
}
