//! What is written of what is recorded.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::api::core::v1::{Event as Object, Pod};
use parking_lot::Mutex;
use setpoint_api::{
    Body, Header, Key, Reply, Request, Response, Serve, Status, Stored, SystemClock, User, Verb,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::*;

/// A server that keeps events by name and may refuse a while.
#[derive(Clone, Default)]
struct Server {
    events: Arc<Mutex<BTreeMap<String, Object>>>,
    asked: Arc<Mutex<Vec<&'static str>>>,
    refusals: Arc<Mutex<Vec<Status>>>,
    /// Requests under way, and the most there have been.
    under_way: Arc<AtomicU64>,
    most: Arc<AtomicU64>,
}

impl Serve for Server {
    fn call(&self, request: Request) -> Reply<'_> {
        self.asked.lock().push(request.verb.name());
        Box::pin(async move {
            let under_way = self.under_way.fetch_add(1, Ordering::Relaxed) + 1;
            self.most.fetch_max(under_way, Ordering::Relaxed);
            tokio::task::yield_now().await;
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            if let Some(status) = self.refusals.lock().pop() {
                return Err(status);
            }
            let resource = request.target.resource.group_resource();
            assert_eq!(resource.to_string(), "events");
            let (is_new, payload) = match &request.verb {
                Verb::Create(payload, _) => (true, payload),
                Verb::Update(payload, _) => (false, payload),
                verb => panic!("a recorder does not {}", verb.name()),
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
            Ok(Response::of(Body::Object(Arc::new(stored))))
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

struct World {
    server: Server,
    recorder: Recorder,
    sink: Sink,
}

impl World {
    fn new() -> Self {
        let server = Server::default();
        let client = Client::new(Arc::new(server.clone()), Arc::new(User::component("test")));
        let (recorder, sink) = recorder(client, Arc::new(SystemClock::new()));
        let recorder = recorder.of("test-controller");
        Self {
            server,
            recorder,
            sink,
        }
    }

    fn say(&self, reason: &str, message: &str) {
        self.recorder.normal(&pod("a/web"), reason, message);
    }

    /// Writes all that was recorded.
    async fn written(self) -> Server {
        drop(self.recorder);
        self.sink.run(CancellationToken::new()).await;
        self.server
    }
}

fn pod(key: &str) -> Typed<Pod> {
    let mut header = Header::new(key.parse().unwrap());
    header.uid = "u".into();
    Typed::new(Arc::new(Stored::new(header, Bytes::from_static(b"{}"), 1)))
}

#[tokio::test(start_paused = true)]
async fn an_event_says_who_what_and_why() {
    let world = World::new();
    world.recorder.warning(&pod("a/web"), "FailedCreate", "no room");
    let server = world.written().await;
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
async fn an_object_of_the_whole_cluster_has_its_events_in_the_default_namespace() {
    let world = World::new();
    world.recorder.normal(&pod("n1"), "Ready", "it is");
    let server = world.written().await;
    let events = server.events.lock();
    assert_eq!(
        events.values().next().unwrap().metadata.namespace.as_deref(),
        Some("default")
    );
}

#[tokio::test(start_paused = true)]
async fn the_same_event_in_one_breath_is_counted_and_written_once() {
    let world = World::new();
    for message in ["one", "one", "two", "one"] {
        world.say("Created", message);
    }
    let server = world.written().await;
    let mut shown = server.shown();
    shown.sort();
    assert_eq!(shown, ["1x Created two", "3x Created one"]);
    assert_eq!(*server.asked.lock(), ["create", "create"]);
}

#[tokio::test(start_paused = true)]
async fn the_same_event_later_on_is_counted_up() {
    let world = World::new();
    let (server, recorder) = (world.server.clone(), world.recorder.clone());
    let mut tasks = JoinSet::new();
    tasks.spawn(world.sink.run(CancellationToken::new()));
    for _ in 0..3 {
        recorder.normal(&pod("a/web"), "Created", "one");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(server.shown(), ["3x Created one"]);
    assert_eq!(*server.asked.lock(), ["create", "update", "update"]);
}

#[tokio::test(start_paused = true)]
async fn events_of_different_objects_are_written_at_the_same_time() {
    let world = World::new();
    for i in 0..100 {
        world.recorder.normal(&pod(&format!("a/{i}")), "Created", "one");
    }
    let server = world.written().await;
    assert_eq!(server.shown().len(), 100);
    assert_eq!(server.most.load(Ordering::Relaxed), 64);
}

#[tokio::test(start_paused = true)]
async fn the_tenth_different_message_is_combined_with_those_after_it() {
    let world = World::new();
    for i in 1..=12 {
        world.say("Created", &format!("pod {i}"));
    }
    let shown = world.written().await.shown();
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
async fn an_object_that_says_too_much_is_not_listened_to() {
    let world = World::new();
    for i in 0..60 {
        world.say(&format!("Reason{i}"), "look");
    }
    world.recorder.normal(&pod("a/other"), "Quiet", "word");
    let shown = world.written().await.shown();
    assert_eq!(shown.len(), 25 + 1);
    assert!(shown.contains(&"1x Quiet word".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_gone_is_written_anew() {
    let mut world = World::new();
    let stop = CancellationToken::new();
    world.say("Created", "one");
    let (server, recorder) = (world.server.clone(), world.recorder.clone());
    drop(std::mem::replace(&mut world.recorder, recorder.clone()));
    let mut tasks = JoinSet::new();
    tasks.spawn(world.sink.run(stop.clone()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.events.lock().clear();
    recorder.normal(&pod("a/web"), "Created", "one");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.shown(), ["2x Created one"]);
    assert_eq!(*server.asked.lock(), ["create", "update", "create"]);
    stop.cancel();
    tasks.join_next().await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_is_tried_again_and_one_that_says_no_is_not() {
    let world = World::new();
    world
        .server
        .refusals
        .lock()
        .extend([Status::unavailable("down"), Status::unavailable("down")]);
    world.say("Created", "one");
    let server = world.written().await;
    assert_eq!(server.shown(), ["1x Created one"]);
    assert_eq!(server.asked.lock().len(), 3);
    let world = World::new();
    world.server.refusals.lock().push(Status::bad_request("no"));
    world.say("Created", "one");
    let server = world.written().await;
    assert_eq!((server.shown().len(), server.asked.lock().len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn recording_never_waits_and_what_finds_no_room_is_dropped() {
    let world = World::new();
    for i in 0..1005 {
        world.recorder.normal(&pod(&format!("a/{i}")), "Created", "one");
    }
    assert_eq!(world.recorder.dropped(), 5);
    assert_eq!(world.written().await.shown().len(), 1000);
}
