//! The events written by a sink.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::api::core::v1::{Event as Object, Pod};
use parking_lot::Mutex;
use setpoint_api::{
    Body, Header, Key, Request, Response, Serve, ServeFuture, Status, Stored, SystemClock, User, Verb,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::*;

/// A server that stores events by name and may reject some requests.
#[derive(Clone, Default)]
struct Server {
    events: Arc<Mutex<BTreeMap<String, Object>>>,
    requests: Arc<Mutex<Vec<&'static str>>>,
    errors: Arc<Mutex<Vec<Status>>>,
    /// Concurrent requests, and their maximum.
    under_way: Arc<AtomicU64>,
    most: Arc<AtomicU64>,
}

impl Serve for Server {
    fn call(&self, request: Request) -> ServeFuture<'_> {
        self.requests.lock().push(request.verb.api_verb().as_str());
        Box::pin(async move {
            let under_way = self.under_way.fetch_add(1, Ordering::Relaxed) + 1;
            self.most.fetch_max(under_way, Ordering::Relaxed);
            tokio::task::yield_now().await;
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            if let Some(status) = self.errors.lock().pop() {
                return Err(status);
            }
            let resource = request.target.resource.group_resource();
            assert_eq!(resource.to_string(), "events");
            let (is_new, payload) = match &request.verb {
                Verb::Create(payload, _) => (true, payload),
                Verb::Update(payload, _) => (false, payload),
                verb => panic!("a recorder does not {}", verb.api_verb()),
            };
            let event: Object = serde_json::from_slice(&payload.bytes).unwrap();
            let name = event.metadata.name.clone().unwrap();
            assert_eq!(
                event.metadata.namespace.as_deref(),
                request.target.namespace.as_deref()
            );
            let mut events = self.events.lock();
            if !is_new && !events.contains_key(&name) {
                return Err(Status::not_found(&resource, &name));
            }
            events.insert(name.clone(), event);
            let stored = Stored::new(Header::new(Key::new("", &name)), Bytes::from_static(b"{}"), 1);
            Ok(Response::new(Body::Object(Arc::new(stored))))
        })
    }
}

impl Server {
    /// `3x reason message`, by name.
    fn shown(&self) -> Vec<String> {
        let events = self.events.lock();
        let show = |event: &Object| {
            let text = |text: &Option<String>| text.clone().unwrap();
            format!(
                "{}x {} {}",
                event.count.unwrap(),
                text(&event.reason),
                text(&event.message)
            )
        };
        events.values().map(show).collect()
    }
}

struct Fixture {
    server: Server,
    recorder: Recorder,
    sink: Sink,
}

impl Fixture {
    fn new() -> Self {
        let server = Server::default();
        let client = Client::new(Arc::new(server.clone()), Arc::new(User::component("test")));
        let (recorder, sink) = recorder(client, Arc::new(SystemClock::new()));
        let recorder = recorder.for_component("test-controller");
        Self {
            server,
            recorder,
            sink,
        }
    }

    fn record(&self, reason: &str, message: &str) {
        self.recorder.normal(&pod("a/web"), reason, message);
    }

    /// Writes all that was recorded.
    async fn written(self) -> Server {
        drop(self.recorder);
        self.sink.run(CancellationToken::new()).await;
        self.server
    }
}

fn pod(key: &str) -> TypedObject<Pod> {
    let mut header = Header::new(key.parse().unwrap());
    header.uid = "u".into();
    TypedObject::new(Arc::new(Stored::new(header, Bytes::from_static(b"{}"), 1)))
}

#[tokio::test(start_paused = true)]
async fn an_event_has_component_object_and_reason() {
    let fixture = Fixture::new();
    fixture.recorder.warning(&pod("a/web"), "FailedCreate", "no room");
    let server = fixture.written().await;
    let events = server.events.lock();
    let (name, event) = events.first_key_value().unwrap();
    assert!(name.starts_with("web."), "{name}");
    assert_eq!(event.involved_object.kind.as_deref(), Some("Pod"));
    assert_eq!(event.involved_object.uid.as_deref(), Some("u"));
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(
        event.source.as_ref().unwrap().component.as_deref(),
        Some("test-controller")
    );
    assert_eq!(
        (event.count, event.metadata.namespace.as_deref()),
        (Some(1), Some("a"))
    );
    assert_eq!(event.first_timestamp, event.last_timestamp);
}

#[tokio::test(start_paused = true)]
async fn an_event_has_the_action_of_its_recorder() {
    let fixture = Fixture::new();
    let recorder = fixture.recorder.with_action("Binding");
    recorder.normal(&pod("a/web"), "Scheduled", "it has a node");
    drop(recorder);
    let server = fixture.written().await;
    let events = server.events.lock();
    assert_eq!(events.values().next().unwrap().action.as_deref(), Some("Binding"));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_object_has_its_events_in_the_default_namespace() {
    let fixture = Fixture::new();
    fixture.recorder.normal(&pod("n1"), "Ready", "it is");
    let server = fixture.written().await;
    let events = server.events.lock();
    assert_eq!(
        events.values().next().unwrap().metadata.namespace.as_deref(),
        Some("default")
    );
}

#[tokio::test(start_paused = true)]
async fn the_same_event_in_one_batch_is_counted_and_written_once() {
    let fixture = Fixture::new();
    for message in ["one", "one", "two", "one"] {
        fixture.record("Created", message);
    }
    let server = fixture.written().await;
    let mut shown = server.shown();
    shown.sort();
    assert_eq!(shown, ["1x Created two", "3x Created one"]);
    assert_eq!(*server.requests.lock(), ["create", "create"]);
}

#[tokio::test(start_paused = true)]
async fn the_same_event_later_on_is_counted_up() {
    let fixture = Fixture::new();
    let (server, recorder) = (fixture.server.clone(), fixture.recorder.clone());
    let mut tasks = JoinSet::new();
    tasks.spawn(fixture.sink.run(CancellationToken::new()));
    for _ in 0..3 {
        recorder.normal(&pod("a/web"), "Created", "one");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(server.shown(), ["3x Created one"]);
    assert_eq!(*server.requests.lock(), ["create", "update", "update"]);
}

#[tokio::test(start_paused = true)]
async fn events_of_different_objects_are_written_at_the_same_time() {
    let fixture = Fixture::new();
    for i in 0..100 {
        fixture.recorder.normal(&pod(&format!("a/{i}")), "Created", "one");
    }
    let server = fixture.written().await;
    assert_eq!(server.shown().len(), 100);
    assert_eq!(server.most.load(Ordering::Relaxed), 64);
}

#[tokio::test(start_paused = true)]
async fn the_tenth_different_message_is_combined_with_those_after_it() {
    let fixture = Fixture::new();
    for i in 1..=12 {
        fixture.record("Created", &format!("pod {i}"));
    }
    let shown = fixture.written().await.shown();
    assert_eq!(
        shown
            .iter()
            .filter(|line| line.starts_with("1x Created pod "))
            .count(),
        9
    );
    assert!(
        shown.contains(&"3x Created (combined from similar events): pod 12".to_owned()),
        "{shown:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_with_too_many_events_is_rate_limited() {
    let fixture = Fixture::new();
    for i in 0..60 {
        fixture.record(&format!("Reason{i}"), "look");
    }
    fixture.recorder.normal(&pod("a/other"), "Quiet", "word");
    let shown = fixture.written().await.shown();
    assert_eq!(shown.len(), 25 + 1);
    assert!(shown.contains(&"1x Quiet word".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn an_expired_event_is_created_again() {
    let mut fixture = Fixture::new();
    let stop = CancellationToken::new();
    fixture.record("Created", "one");
    let (server, recorder) = (fixture.server.clone(), fixture.recorder.clone());
    drop(std::mem::replace(&mut fixture.recorder, recorder.clone()));
    let mut tasks = JoinSet::new();
    tasks.spawn(fixture.sink.run(stop.clone()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.events.lock().clear();
    recorder.normal(&pod("a/web"), "Created", "one");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.shown(), ["2x Created one"]);
    assert_eq!(*server.requests.lock(), ["create", "update", "create"]);
    stop.cancel();
    tasks.join_next().await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_is_retried_and_a_rejection_is_not() {
    let fixture = Fixture::new();
    fixture
        .server
        .errors
        .lock()
        .extend([Status::unavailable("down"), Status::unavailable("down")]);
    fixture.record("Created", "one");
    let server = fixture.written().await;
    assert_eq!(server.shown(), ["1x Created one"]);
    assert_eq!(server.requests.lock().len(), 3);
    let fixture = Fixture::new();
    fixture.server.errors.lock().push(Status::bad_request("no"));
    fixture.record("Created", "one");
    let server = fixture.written().await;
    assert_eq!((server.shown().len(), server.requests.lock().len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn recording_never_waits_and_drops_events_when_the_queue_is_full() {
    let fixture = Fixture::new();
    for i in 0..1005 {
        fixture.recorder.normal(&pod(&format!("a/{i}")), "Created", "one");
    }
    assert_eq!(fixture.recorder.dropped(), 5);
    assert_eq!(fixture.written().await.shown().len(), 1000);
}
