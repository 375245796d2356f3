//! The filter with few seats: which requests execute, wait or are rejected.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use futures_util::{StreamExt, stream};
use http::Method;
use http::uri::PathAndQuery;
use setpoint_api::{Event, List, SystemClock, User};

use super::configuration::tests::{flow_schema, level, queuing_level};
use super::objects::{FlowSchemaObject, PriorityLevelObject};
use super::work_estimator::ObjectStats;
use super::*;
use crate::body::Body;
use crate::metrics::{Metrics, MetricsSource, TextEncoder};
use crate::negotiate::Representation;
use crate::request::parse;
use crate::request::query::Query;
use crate::respond::ListBody;
use crate::respond::tests::{kind, render_options, stored};
use crate::watch::WatchBody;

const MAX_WAIT: Duration = Duration::from_secs(15);

type AdmitFuture = Pin<Box<dyn Future<Output = Result<ExecutingRequest, TooManyRequests>>>>;

/// A filter on which alice and bob share the level `shared`, and carol has `own`.
struct Fixture {
    filter: Arc<PriorityAndFairness>,
}

impl Fixture {
    /// Each of the two levels has this many seats, and `catch-all` has five.
    fn new(seats: u32, shared: PriorityLevelObject, own: PriorityLevelObject) -> Self {
        let stats = |_: &_| {
            Some(ObjectStats {
                count: 1000,
                average_bytes: 300,
            })
        };
        let seats = 2 * seats as usize + 5;
        let filters = std::iter::repeat_with(|| {
            PriorityAndFairness::new(seats, Box::new(stats), Arc::new(SystemClock::new()))
        });
        // The queues are random; alice and bob have different ones.
        let mut distinct = filters.filter(|filter| queue(filter, "alice") != queue(filter, "bob"));
        let filter = distinct.next().unwrap();
        let fixture = Self { filter };
        let schemas = vec![
            flow_schema("alice", 100, "shared", "alice"),
            flow_schema("bob", 100, "shared", "bob"),
            flow_schema("carol", 100, "own", "carol"),
        ];
        fixture.configure(schemas, vec![shared, own]);
        fixture
    }

    fn queues(seats: u32) -> Self {
        let level = |name| queuing_level(name, seats, 64, 2);
        Self::new(seats, level("shared"), level("own"))
    }

    fn rejects(seats: u32) -> Self {
        Self::new(seats, level("shared", seats), level("own", seats))
    }

    fn configure(&self, flow_schemas: Vec<FlowSchemaObject>, levels: Vec<PriorityLevelObject>) {
        *self.filter.objects.lock() = Objects {
            flow_schemas: Some(flow_schemas),
            levels: Some(levels),
        };
        self.filter.reconfigure();
    }

    fn send(&self, user: &str, url: &'static str) -> AdmitFuture {
        let (filter, user) = (self.filter.clone(), Arc::new(User::new(user, &[])));
        Box::pin(async move {
            let path = PathAndQuery::from_static(url);
            let query = Query::parse(path.query());
            let info = parse(&Method::GET, path.path(), &query);
            let digest = RequestDigest {
                user: &user,
                info: &info,
                query: &query,
                method: &Method::GET,
                path: Some(&path),
                max_wait: MAX_WAIT,
            };
            filter.admit(&digest, &OnceLock::new()).await
        })
    }

    fn get(&self, user: &str) -> AdmitFuture {
        self.send(user, "/api/v1/namespaces/a/pods/x")
    }

    /// Takes seats until a request has to wait or is rejected.
    fn fill(&self, user: &str) -> Vec<ExecutingRequest> {
        std::iter::from_fn(|| poll(&mut self.get(user))?.ok()).collect()
    }

    fn metrics(&self) -> String {
        let mut text = TextEncoder::default();
        self.filter.write(&mut text);
        text.into_string()
    }

    #[track_caller]
    fn check_metric(&self, name: &str, labels: &str, value: &str) {
        let expected = format!("apiserver_flowcontrol_{name}{{{labels}}} {value}\n");
        let metrics = self.metrics();
        let found = metrics.lines().filter(|line| line.contains(name));
        assert!(
            metrics.contains(&expected),
            "no {expected} in {:#?}",
            found.collect::<Vec<_>>()
        );
    }
}

/// The queue of a user in a level of 64 queues.
fn queue(filter: &PriorityAndFairness, user: &str) -> u64 {
    filter.hash_key.hash_one((user, user)) % 64
}

fn poll(future: &mut AdmitFuture) -> Option<Result<ExecutingRequest, TooManyRequests>> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_user_with_many_requests_does_not_delay_another() {
    let fixture = Fixture::queues(4);
    let mut executing = fixture.fill("alice");
    assert_eq!(executing.len(), 4);
    let mut waiting = [fixture.get("alice"), fixture.get("alice")];
    assert!(waiting.iter_mut().all(|request| poll(request).is_none()));
    let mut bob = fixture.get("bob");
    assert!(poll(&mut bob).is_none());
    executing.pop();
    assert!(poll(&mut waiting[0]).is_none());
    assert!(poll(&mut bob).unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_level_has_its_own_seats() {
    let fixture = Fixture::rejects(4);
    let _shared = fixture.fill("alice");
    assert_eq!(fixture.fill("carol").len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_level_without_queues_rejects() {
    let fixture = Fixture::rejects(1);
    let _executing = fixture.fill("alice");
    let rejected = poll(&mut fixture.get("bob")).unwrap().unwrap_err();
    assert_eq!(rejected.retry_after_seconds, 1);
    let labels = r#"priority_level="shared",flow_schema="bob",reason="concurrency-limit""#;
    fixture.check_metric("rejected_requests_total", labels, "1");
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_rejects_and_a_cancelled_request_leaves_it() {
    let fixture = Fixture::queues(1);
    let _executing = fixture.fill("alice");
    let mut waiting = vec![fixture.get("alice"), fixture.get("alice")];
    assert!(waiting.iter_mut().all(|request| poll(request).is_none()));
    assert!(poll(&mut fixture.get("alice")).unwrap().is_err());
    waiting.pop();
    assert!(poll(&mut fixture.get("alice")).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_request_cancelled_after_its_dispatch_passes_its_seat_on() {
    let fixture = Fixture::queues(1);
    let executing = fixture.fill("alice");
    let (mut first, mut second) = (fixture.get("alice"), fixture.get("bob"));
    assert!(poll(&mut first).is_none() && poll(&mut second).is_none());
    drop(executing);
    drop(first);
    assert!(poll(&mut second).unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_too_long_is_rejected() {
    let fixture = Fixture::queues(1);
    let _executing = fixture.fill("alice");
    assert_eq!(fixture.get("bob").await.unwrap_err().retry_after_seconds, 1);
    let labels = r#"priority_level="shared",flow_schema="bob""#;
    fixture.check_metric(
        "rejected_requests_total",
        &format!(r#"{labels},reason="time-out""#),
        "1",
    );
    fixture.check_metric("current_inqueue_requests", labels, "0");
    let waited = format!(r#"{labels},execute="false""#);
    fixture.check_metric("request_wait_duration_seconds_sum", &waited, "15");
}

#[tokio::test(start_paused = true)]
async fn a_long_list_takes_several_seats() {
    let fixture = Fixture::rejects(10);
    let _list = poll(&mut fixture.send("alice", "/api/v1/pods")).unwrap().unwrap();
    let labels = r#"priority_level="shared",flow_schema="alice""#;
    fixture.check_metric("current_executing_seats", labels, "3");
    fixture.check_metric("current_executing_requests", labels, "1");
}

#[tokio::test(start_paused = true)]
async fn a_watch_takes_seats_until_it_is_initialized() {
    let fixture = Fixture::rejects(10);
    let mut watch = poll(&mut fixture.send("alice", "/api/v1/pods?watch=1"))
        .unwrap()
        .unwrap();
    let labels = r#"priority_level="shared",flow_schema="alice""#;
    fixture.check_metric("current_executing_seats", labels, "3");
    watch.release_seats();
    fixture.check_metric("current_executing_seats", labels, "0");
    let info = parse(&Method::PUT, "/api/v1/namespaces/a/pods/x", &Query::default());
    let RequestInfo::Resource(pod) = &info else {
        panic!("a pod is a resource");
    };
    assert_eq!(fixture.filter.watches.interested(pod), 1);
    drop(watch);
    assert_eq!(fixture.filter.watches.interested(pod), 0);
}

/// A list of several frames.
fn long_list() -> Body {
    let list = List {
        items: (0..300).map(|n| stored(&format!("m{n:03}"), 1000)).collect(),
        ..List::default()
    };
    ListBody::new(render_options(Representation::Plain), list).into_body()
}

/// A watch that sends one event and does not end.
fn open_watch(clock: &Arc<dyn Clock>) -> Body {
    let first = stream::iter([Event::Added(stored("m", 1))]);
    let watch = WatchBody::new(
        Box::pin(first.chain(stream::pending())),
        render_options(Representation::Plain),
        clock.clone(),
        CancellationToken::new(),
        Metrics::default().start_watch(&kind()),
    );
    Body::Watch(Box::new(watch))
}

/// Reads a body until it ends or has nothing more to send.
fn read(body: &mut Body) {
    while let Poll::Ready(Some(_)) = body.poll_bytes(&mut Context::from_waker(Waker::noop())) {}
}

#[tokio::test(start_paused = true)]
async fn a_body_keeps_its_seat_until_it_is_written() {
    let fixture = Fixture::rejects(1);
    let clock = &fixture.filter.factory.clock;
    for mut body in [long_list(), open_watch(clock)] {
        body.hold(poll(&mut fixture.get("alice")).unwrap().unwrap(), &**clock);
        assert!(poll(&mut fixture.get("alice")).unwrap().is_err(), "{body:?}");
        read(&mut body);
        assert!(poll(&mut fixture.get("alice")).unwrap().is_ok(), "{body:?}");
    }
    let mut whole = Body::Whole("x".into());
    whole.hold(poll(&mut fixture.get("alice")).unwrap().unwrap(), &**clock);
    assert!(poll(&mut fixture.get("alice")).unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_not_read_loses_its_seat_after_a_minute() {
    let fixture = Fixture::rejects(1);
    let clock = &fixture.filter.factory.clock;
    let mut body = long_list();
    body.hold(poll(&mut fixture.get("alice")).unwrap().unwrap(), &**clock);
    tokio::time::advance(Duration::from_secs(59)).await;
    assert!(poll(&mut fixture.get("alice")).unwrap().is_err());
    tokio::time::advance(Duration::from_secs(1)).await;
    let _other = poll(&mut fixture.get("alice")).unwrap().unwrap();
    drop(body);
    // The seat is the other request's.
    assert!(poll(&mut fixture.get("alice")).unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn streams_take_no_seat() {
    let fixture = Fixture::rejects(1);
    let _executing = fixture.fill("alice");
    let exec = "/api/v1/namespaces/a/pods/x/exec";
    assert!(
        poll(&mut fixture.send("alice", exec))
            .unwrap()
            .unwrap()
            .ticket
            .is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_level_drains_before_it_is_removed() {
    let fixture = Fixture::queues(1);
    let executing = fixture.fill("alice");
    let mut waiting = fixture.get("alice");
    assert!(poll(&mut waiting).is_none());
    let own = queuing_level("own", 1, 64, 2);
    fixture.configure(vec![flow_schema("all", 100, "own", "alice")], vec![own]);
    let names = || {
        let configuration = fixture.filter.configuration.load();
        let levels = configuration.levels.iter();
        levels.map(|one| one.level.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(), ["catch-all", "exempt", "own", "shared"]);
    drop(executing);
    let dispatched = poll(&mut waiting).unwrap().unwrap();
    // New requests have another level meanwhile.
    let _other = fixture.fill("alice");
    fixture.filter.remove_drained_levels();
    assert_eq!(names().len(), 4);
    drop(dispatched);
    fixture.filter.remove_drained_levels();
    assert_eq!(names(), ["catch-all", "exempt", "own"]);
}

#[tokio::test(start_paused = true)]
async fn a_level_lends_its_seats_and_gets_them_back() {
    let lending = |name: &str| {
        let mut level = queuing_level(name, 10, 4, 50);
        if let objects::PriorityLevelSpec::Limited { limited } = &mut level.spec {
            limited.lendable_percent = Some(50);
        }
        level
    };
    let fixture = Fixture::new(10, lending("shared"), lending("own"));
    let load = |user: &str| -> Vec<AdmitFuture> {
        let mut requests: Vec<AdmitFuture> = (0..20).map(|_| fixture.get(user)).collect();
        // What executes at once is kept by its future, too.
        requests.retain_mut(|request| {
            poll(request).is_none_or(|admitted| admitted.map(std::mem::forget).is_err())
        });
        requests
    };
    let check = |shared: usize, own: usize| {
        let configuration = fixture.filter.configuration.load();
        fixture.filter.adjust(&configuration.levels);
        let limits = configuration.levels[2..].iter().rev();
        let limits: Vec<usize> = limits
            .map(|one| one.level.read(|state| state.queue_set.limit()))
            .collect();
        assert_eq!(limits, [shared, own]);
    };
    let _alice = load("alice");
    tokio::time::advance(ADJUSTMENT_PERIOD).await;
    check(15, 5);
    let _carol = load("carol");
    tokio::time::advance(ADJUSTMENT_PERIOD).await;
    check(10, 10);
}

#[tokio::test(start_paused = true)]
async fn final_seats_that_a_request_waits_for_are_released_by_the_task() {
    let fixture = Fixture::queues(1);
    let watches: Vec<_> = (0..20)
        .map(|_| {
            let mut watch = poll(&mut fixture.send("carol", "/api/v1/pods?watch=1&resourceVersion=7"))
                .unwrap()
                .unwrap();
            watch.release_seats();
            watch
        })
        .collect();
    assert_eq!(watches.len(), 20);
    let user = Arc::new(User::new("alice", &[]));
    let path = PathAndQuery::from_static("/api/v1/namespaces/a/pods/x");
    let query = Query::default();
    let info = parse(&Method::PUT, path.path(), &query);
    let digest = RequestDigest {
        user: &user,
        info: &info,
        query: &query,
        method: &Method::PUT,
        path: Some(&path),
        max_wait: MAX_WAIT,
    };
    drop(fixture.filter.admit(&digest, &OnceLock::new()).await.unwrap());
    let mut waiting = fixture.get("bob");
    assert!(poll(&mut waiting).is_none());
    let started = fixture.filter.factory.clock.now();
    tokio::select! {
        admitted = waiting => assert!(admitted.is_ok()),
        () = fixture.filter.maintain() => {}
    }
    let waited = fixture.filter.factory.clock.now().duration_since(started);
    assert_eq!(waited.as_millis(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_dump_lists_levels_queues_and_requests() {
    let fixture = Fixture::queues(1);
    let _executing = fixture.fill("alice");
    let mut waiting = fixture.get("bob");
    assert!(poll(&mut waiting).is_none());
    let dump = |path: &str, query: &str| {
        let path = format!("/debug/api_priority_and_fairness/{path}");
        debug_dump::dump(&fixture.filter, &path, &Query::parse(Some(query)))
    };
    let cells = |dump: Option<String>, text: &str| -> Vec<String> {
        let dump = dump.unwrap();
        let line = dump.lines().find(|line| line.contains(text)).unwrap();
        line.split(',').map(|cell| cell.trim().to_owned()).collect()
    };
    assert_eq!(
        cells(dump("dump_priority_levels", ""), "shared"),
        ["shared", "1", "false", "false", "1", "1", "1", "1", "0", "1"]
    );
    assert_eq!(dump("dump_queues", "").unwrap().lines().count(), 1 + 2 * 64);
    let request = cells(dump("dump_requests", "includeRequestDetails=1"), " bob,");
    assert_eq!(request.len(), 18);
    assert_eq!(request[3..5], ["0", "bob"]);
    assert_eq!(request[6..10], ["1", "0", "0s", "0001-01-01T00:00:00Z"]);
    assert_eq!(
        request[10..],
        [
            "bob",
            "get",
            "/api/v1/namespaces/a/pods/x",
            "a",
            "x",
            "v1",
            "pods",
            ""
        ]
    );
    assert_eq!(dump("dump_nothing", ""), None);
}

#[tokio::test(start_paused = true)]
async fn utilization_is_counted_in_nanoseconds() {
    let fixture = Fixture::queues(1);
    let executing = fixture.fill("alice");
    let mut waiting = fixture.get("alice");
    assert!(poll(&mut waiting).is_none());
    tokio::time::advance(Duration::from_secs(2)).await;
    drop((executing, waiting));
    tokio::time::advance(Duration::from_secs(1)).await;
    let (idle, busy) = ("1000000000", "3000000000");
    let level = "priority_level=\"shared\"";
    let executing = "phase=\"executing\"";
    let seats = "priority_level_seat_utilization_bucket";
    fixture.check_metric(seats, &format!("{executing},{level},le=\"0.99\""), idle);
    fixture.check_metric(seats, &format!("{executing},{level},le=\"1\""), busy);
    // One request waits, of two in each of 64 queues.
    let requests = "priority_level_request_utilization_bucket";
    let waiting = "phase=\"waiting\"";
    fixture.check_metric(requests, &format!("{waiting},{level},le=\"0.003\""), idle);
    fixture.check_metric(requests, &format!("{waiting},{level},le=\"0.01\""), busy);
    fixture.check_metric("demand_seats_bucket", &format!("{level},le=\"1.7\""), idle);
    fixture.check_metric("demand_seats_bucket", &format!("{level},le=\"2\""), busy);
    // One of seven requests, in all levels together.
    let reads = "read_vs_write_current_requests_bucket";
    let kind = "request_kind=\"readOnly\"";
    fixture.check_metric(reads, &format!("{executing},{kind},le=\"0.1\""), idle);
    fixture.check_metric(reads, &format!("{executing},{kind},le=\"0.2\""), busy);
}
