//! List, watch and their failures, against a scripted server.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use parking_lot::Mutex;
use setpoint_api::{
    Body, Change, GroupResource, Header, Request, Response, Serve, ServeFuture, Stored, SystemClock, User,
    Verb,
};
use setpoint_cache::{Caches, Subscription};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::*;

/// What the server does when requests.
enum ScriptedResponse {
    List(&'static [&'static str], u64, Option<&'static str>),
    /// Sends these events, then ends or stays open.
    Watch(Vec<Event>, Tail),
    Fail(Box<Status>),
}

#[derive(Clone, Copy)]
enum Tail {
    Ends,
    Hangs,
}

/// A server that sends its responses in order, records the requests, and never responds after the last.
#[derive(Clone)]
struct Script {
    responses: Arc<Mutex<VecDeque<ScriptedResponse>>>,
    requests: Arc<Mutex<Vec<String>>>,
    notify: Arc<Notify>,
}

/// A stream that must not be polled again after its end.
struct ScriptedWatch {
    events: VecDeque<Event>,
    tail: Tail,
    ended: bool,
}

impl futures_core::Stream for ScriptedWatch {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Event>> {
        match (self.events.pop_front(), self.tail) {
            (Some(event), _) => Poll::Ready(Some(event)),
            (None, Tail::Ends) => {
                assert!(!self.ended, "a watch was polled after its end");
                self.ended = true;
                Poll::Ready(None)
            }
            (None, Tail::Hangs) => Poll::Pending,
        }
    }
}

impl Serve for Script {
    fn call(&self, request: Request) -> ServeFuture<'_> {
        self.requests.lock().push(format_verb(&request.verb));
        let response = self.responses.lock().pop_front();
        self.notify.notify_waiters();
        Box::pin(async move {
            let body = match response {
                None => std::future::pending().await,
                Some(ScriptedResponse::Fail(status)) => return Err(*status),
                Some(ScriptedResponse::List(objects, version, token)) => Body::List(List {
                    items: objects.iter().map(|text| object(text)).collect(),
                    resource_version: ResourceVersion(version),
                    continue_token: token.map(str::to_owned),
                    remaining_item_count: None,
                }),
                Some(ScriptedResponse::Watch(events, tail)) => {
                    let events = events.into();
                    Body::Watch(Box::pin(ScriptedWatch {
                        events,
                        tail,
                        ended: false,
                    }))
                }
            };
            Ok(Response::new(body))
        })
    }
}

fn format_verb(verb: &Verb) -> String {
    let at = |version: Option<ResourceVersion>| version.map_or("newest".to_owned(), |at| at.to_string());
    match verb {
        Verb::List(options) => {
            let limit = options
                .limit
                .map_or(String::new(), |limit| format!(" limit {limit}"));
            let token = options
                .continue_token
                .as_deref()
                .map_or(String::new(), |token| format!(" from {token}"));
            format!("list {}{limit}{token}", at(options.resource_version))
        }
        Verb::Watch(options) if options.send_initial_events == Some(true) => {
            format!("stream {}", at(options.resource_version))
        }
        Verb::Watch(options) => {
            assert!(options.allow_watch_bookmarks);
            assert!((300..=600).contains(&options.timeout.unwrap().as_secs()));
            format!("watch {}", at(options.resource_version))
        }
        verb => verb.api_verb().to_string(),
    }
}

/// `a/x@5`
fn object(text: &str) -> Arc<Stored> {
    let (key, version) = text.split_once('@').unwrap();
    let mut header = Header::new(key.parse().unwrap());
    header.resource_version = ResourceVersion(version.parse().unwrap());
    Arc::new(Stored::new(header, Bytes::from_static(b"{}"), 1))
}

fn added(text: &str) -> Event {
    Event::Added(object(text))
}

fn modified(text: &str) -> Event {
    Event::Modified(object(text))
}

fn deleted(text: &str) -> Event {
    Event::Deleted(object(text))
}

fn bookmark(version: u64) -> Event {
    let resource_version = ResourceVersion(version);
    Event::Bookmark(Bookmark {
        resource_version,
        initial_events_end: false,
    })
}

fn initial_end(version: u64) -> Event {
    let resource_version = ResourceVersion(version);
    Event::Bookmark(Bookmark {
        resource_version,
        initial_events_end: true,
    })
}

fn fail(status: Status) -> ScriptedResponse {
    ScriptedResponse::Fail(Box::new(status))
}

fn expired() -> Status {
    Status::too_old_resource_version(ResourceVersion(1), ResourceVersion(9))
}

/// A reflector that has been started on a script.
struct Fixture {
    cache: Arc<Cache>,
    script: Script,
    handler: Subscription,
    tasks: JoinSet<()>,
}

fn start(how: InitialList, responses: Vec<ScriptedResponse>) -> Fixture {
    let options = ReflectorOptions {
        initial_list: how,
        ..ReflectorOptions::default()
    };
    start_with(options, responses)
}

fn start_with(options: ReflectorOptions, responses: Vec<ScriptedResponse>) -> Fixture {
    let script = Script {
        responses: Arc::new(Mutex::new(responses.into())),
        requests: Arc::default(),
        notify: Arc::default(),
    };
    let client = Client::new(Arc::new(script.clone()), Arc::new(User::component("test")));
    let cache = Arc::new(Cache::new(GroupResource::new("", "pods")));
    let clock = Arc::new(SystemClock::new());
    let reflector = Reflector::new(&client, Gvr::new("", "v1", "pods"), options, cache.clone(), clock);
    let handler = cache.subscribe(None).unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(reflector.run(CancellationToken::new()));
    Fixture {
        cache,
        script,
        handler,
        tasks,
    }
}

impl Fixture {
    /// The requests, once there is no response left.
    async fn requests(&mut self) -> Vec<String> {
        loop {
            let notified = self.script.notify.notified();
            if self.script.responses.lock().is_empty() {
                break;
            }
            tokio::select! {
                () = notified => {}
                Some(ended) = self.tasks.join_next() => panic!("a reflector ends only when stopped: {ended:?}"),
            }
        }
        // Paused time only moves on when everyone waits, so by then all is applied.
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(self.tasks.len(), 1);
        self.script.requests.lock().clone()
    }

    /// The changes delivered to a handler.
    fn delivered(&mut self) -> Vec<String> {
        let mut delivered = Vec::new();
        while let Some(batch) = self.handler.try_next().unwrap() {
            delivered.extend(batch.changes().iter().map(|change| match change {
                Change::Added(new) => format!("+{new:?}"),
                Change::Modified { old, new } => format!("~{}>{new:?}", old.resource_version()),
                Change::Deleted { last, .. } => format!("-{last:?}"),
            }));
        }
        delivered
    }

    fn objects(&self) -> Vec<String> {
        self.cache
            .snapshot()
            .iter()
            .map(|object| format!("{object:?}"))
            .collect()
    }
}

/// IN1
#[tokio::test(start_paused = true)]
async fn in1_a_reflector_lists_once_and_watches_from_there() {
    let mut fixture = start(
        InitialList::Paged,
        vec![
            ScriptedResponse::List(&["a/x@3", "a/y@4"], 7, None),
            ScriptedResponse::Watch(
                vec![modified("a/x@8"), added("a/z@9"), deleted("a/y@10")],
                Tail::Hangs,
            ),
        ],
    );
    assert_eq!(fixture.requests().await, ["list 0 limit 500", "watch 7"]);
    assert_eq!(fixture.objects(), ["a/x@8", "a/z@9"]);
    assert_eq!(
        fixture.delivered(),
        ["+a/x@3", "+a/y@4", "~3>a/x@8", "+a/z@9", "-a/y@10"]
    );
    assert_eq!(fixture.cache.version(), ResourceVersion(10));
}

/// IN1, by one streaming list.
#[tokio::test(start_paused = true)]
async fn in1_a_streaming_list_is_one_request() {
    let events = vec![
        added("a/x@3"),
        bookmark(5),
        added("a/y@4"),
        modified("a/x@6"),
        initial_end(7),
        added("a/z@8"),
    ];
    let mut fixture = start(
        InitialList::WatchList,
        vec![ScriptedResponse::Watch(events, Tail::Hangs)],
    );
    assert_eq!(fixture.requests().await, ["stream 0"]);
    assert!(fixture.cache.is_synced());
    assert_eq!(fixture.delivered(), ["+a/x@6", "+a/y@4", "+a/z@8"]);
    assert_eq!(fixture.cache.version(), ResourceVersion(8));
}

/// IN12: a replayed event is not delivered, whenever it comes: neither a deletion nor an object deleted since
/// is applied again.
#[tokio::test(start_paused = true)]
async fn in12_a_repeated_event_changes_nothing() {
    let events = vec![
        added("a/x@3"),
        deleted("a/x@5"),
        added("a/x@3"),
        added("a/y@4"),
        initial_end(7),
        modified("a/y@8"),
        modified("a/y@5"),
        modified("a/y@8"),
        deleted("a/y@9"),
        modified("a/y@8"),
        added("a/y@10"),
        deleted("a/y@9"),
        bookmark(7),
        added("a/z@10"),
    ];
    let mut fixture = start(
        InitialList::WatchList,
        vec![ScriptedResponse::Watch(events, Tail::Hangs)],
    );
    assert_eq!(fixture.requests().await, ["stream 0"]);
    assert_eq!(
        fixture.delivered(),
        ["+a/y@4", "~4>a/y@8", "-a/y@9", "+a/y@10", "+a/z@10"]
    );
    assert_eq!(fixture.objects(), ["a/y@10", "a/z@10"]);
    assert_eq!(fixture.cache.version(), ResourceVersion(10));
}

/// IN12: an object that is missing in the list was deleted by then, whatever the watch replays of it.
#[tokio::test(start_paused = true)]
async fn in12_an_object_deleted_before_the_list_does_not_come_back() {
    let events = vec![modified("a/y@5"), deleted("a/y@6"), added("a/y@8")];
    let mut fixture = start(
        InitialList::Paged,
        vec![
            ScriptedResponse::List(&["a/x@3"], 7, None),
            ScriptedResponse::Watch(events, Tail::Hangs),
        ],
    );
    fixture.requests().await;
    assert_eq!(fixture.delivered(), ["+a/x@3", "+a/y@8"]);
}

/// TR9: events of different objects may be reordered.
#[tokio::test(start_paused = true)]
async fn tr9_order_is_needed_for_each_object_only() {
    let events = vec![
        added("a/y@9"),
        added("a/x@8"),
        deleted("a/y@12"),
        modified("a/x@11"),
    ];
    let mut fixture = start(
        InitialList::Paged,
        vec![
            ScriptedResponse::List(&[], 7, None),
            ScriptedResponse::Watch(events, Tail::Hangs),
        ],
    );
    fixture.requests().await;
    assert_eq!(fixture.delivered(), ["+a/y@9", "+a/x@8", "-a/y@12", "~8>a/x@11"]);
    assert_eq!(fixture.objects(), ["a/x@11"]);
    assert_eq!(fixture.cache.version(), ResourceVersion(12));
}

/// TR3, IN14: a lost event is corrected by the next list, where relists are enabled.
#[tokio::test(start_paused = true)]
async fn tr3_lost_events_are_found_by_the_next_list() {
    let responses = vec![
        ScriptedResponse::List(&["a/x@3", "a/y@4"], 7, None),
        ScriptedResponse::Watch(vec![bookmark(20)], Tail::Hangs),
        ScriptedResponse::List(&["a/x@9", "a/z@12"], 21, None),
        ScriptedResponse::Watch(Vec::new(), Tail::Hangs),
    ];
    let options = ReflectorOptions {
        initial_list: InitialList::Paged,
        relist: Some(Duration::from_secs(60)),
        ..ReflectorOptions::default()
    };
    let mut fixture = start_with(options, responses);
    assert_eq!(
        fixture.requests().await,
        ["list 0 limit 500", "watch 7", "list 20", "watch 21"]
    );
    assert_eq!(
        fixture.delivered(),
        ["+a/x@3", "+a/y@4", "-a/y@4", "~3>a/x@9", "+a/z@12"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streaming_lists_is_listed() {
    let mut fixture = start(
        InitialList::WatchList,
        vec![
            fail(Status::bad_request("sendInitialEvents is forbidden")),
            ScriptedResponse::List(&["a/x@3"], 7, None),
            ScriptedResponse::Watch(Vec::new(), Tail::Hangs),
        ],
    );
    assert_eq!(
        fixture.requests().await,
        ["stream 0", "list 0 limit 500", "watch 7"]
    );
    assert_eq!(fixture.delivered(), ["+a/x@3"]);
}

/// IN2: a watch that ends is continued where it ended, bookmarks included, without a list.
#[tokio::test(start_paused = true)]
async fn in2_a_closed_watch_continues_without_a_list() {
    let mut fixture = start(
        InitialList::Paged,
        vec![
            ScriptedResponse::List(&["a/x@3"], 7, None),
            ScriptedResponse::Watch(vec![modified("a/x@8")], Tail::Ends),
            ScriptedResponse::Watch(vec![bookmark(20)], Tail::Ends),
            ScriptedResponse::Watch(vec![modified("a/x@21")], Tail::Hangs),
        ],
    );
    assert_eq!(
        fixture.requests().await,
        ["list 0 limit 500", "watch 7", "watch 8", "watch 20"]
    );
    assert_eq!(fixture.delivered(), ["+a/x@3", "~3>a/x@8", "~8>a/x@21"]);
}

/// IN2, IN5: after an expired watch there is one list; handlers get only the differences.
#[tokio::test(start_paused = true)]
async fn in2_an_expired_watch_is_one_relist() {
    let mut fixture = start(
        InitialList::Paged,
        vec![
            ScriptedResponse::List(&["a/x@3", "a/y@4"], 7, None),
            ScriptedResponse::Watch(vec![Event::Error(Box::new(expired()))], Tail::Ends),
            ScriptedResponse::List(&["a/x@3", "a/z@9"], 12, None),
            ScriptedResponse::Watch(Vec::new(), Tail::Hangs),
        ],
    );
    assert_eq!(
        fixture.requests().await,
        ["list 0 limit 500", "watch 7", "list 7", "watch 12"]
    );
    assert_eq!(fixture.delivered(), ["+a/x@3", "+a/y@4", "-a/y@4", "+a/z@9"]);
}

/// IN2: events before the error are applied, and the next list continues from there.
#[tokio::test(start_paused = true)]
async fn in2_events_before_an_error_are_delivered() {
    let events = vec![modified("a/x@8"), Event::Error(Box::new(expired()))];
    let mut fixture = start(
        InitialList::Paged,
        vec![
            ScriptedResponse::List(&["a/x@3"], 7, None),
            ScriptedResponse::Watch(events, Tail::Ends),
            ScriptedResponse::List(&["a/x@9"], 12, None),
            ScriptedResponse::Watch(Vec::new(), Tail::Hangs),
        ],
    );
    assert_eq!(fixture.requests().await[2..], ["list 8", "watch 12"]);
    assert_eq!(fixture.delivered(), ["+a/x@3", "~3>a/x@8", "~8>a/x@9"]);
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_is_too_large_is_not_requested_again() {
    let large = Status::too_large_resource_version(ResourceVersion(7), ResourceVersion(2));
    let mut fixture = start(
        InitialList::Paged,
        vec![
            ScriptedResponse::List(&["a/x@3"], 7, None),
            ScriptedResponse::Watch(vec![Event::Error(Box::new(expired()))], Tail::Ends),
            fail(large),
            ScriptedResponse::List(&["a/x@3"], 12, None),
            ScriptedResponse::Watch(Vec::new(), Tail::Hangs),
        ],
    );
    assert_eq!(
        fixture.requests().await[2..],
        ["list 7", "list newest", "watch 12"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_first_list_comes_in_pages() {
    let mut fixture = start(
        InitialList::Paged,
        vec![
            ScriptedResponse::List(&["a/x@3"], 7, Some("t1")),
            ScriptedResponse::List(&["a/y@4"], 7, Some("t2")),
            ScriptedResponse::List(&["a/z@5"], 7, None),
            ScriptedResponse::Watch(Vec::new(), Tail::Hangs),
        ],
    );
    let requests = fixture.requests().await;
    assert_eq!(
        requests[1..],
        [
            "list newest limit 500 from t1",
            "list newest limit 500 from t2",
            "watch 7"
        ]
    );
    assert_eq!(fixture.objects(), ["a/x@3", "a/y@4", "a/z@5"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_continue_token_makes_one_full_list() {
    let mut fixture = start(
        InitialList::Paged,
        vec![
            ScriptedResponse::List(&["a/x@3"], 7, Some("t1")),
            fail(expired()),
            ScriptedResponse::List(&["a/x@3", "a/y@9"], 9, None),
            ScriptedResponse::Watch(Vec::new(), Tail::Hangs),
        ],
    );
    assert_eq!(fixture.requests().await[2..], ["list 0", "watch 9"]);
    assert_eq!(fixture.objects(), ["a/x@3", "a/y@9"]);
}

/// IN12: the request after a watch from revision 7 failed in this way, and whether the reflector waited before it.
#[track_caller]
fn check_failure(response: ScriptedResponse, expected: &str, waits: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let (next, waited) = runtime.block_on(async {
        let start_of_time = tokio::time::Instant::now();
        let responses = vec![
            ScriptedResponse::List(&["a/x@3"], 7, None),
            response,
            fail(expired()),
        ];
        let mut fixture = start(InitialList::Paged, responses);
        let requests = fixture.requests().await;
        (
            requests[2].clone(),
            start_of_time.elapsed() >= Duration::from_millis(800),
        )
    });
    assert_eq!((next.as_str(), waited), (expected, waits));
}

#[test]
fn in12_every_failure_has_its_reaction() {
    let error = |status| ScriptedResponse::Watch(vec![Event::Error(Box::new(status))], Tail::Ends);
    check_failure(fail(Status::unavailable("connection refused")), "watch 7", true);
    check_failure(fail(Status::too_many_requests(1)), "watch 7", true);
    check_failure(fail(expired()), "list 7", false);
    check_failure(fail(Status::internal("broken")), "list 7", true);
    check_failure(error(Status::internal("broken")), "list 7", true);
    check_failure(error(expired()), "list 7", false);
    check_failure(ScriptedResponse::Watch(Vec::new(), Tail::Ends), "list 7", true);
    check_failure(
        ScriptedResponse::Watch(vec![bookmark(9)], Tail::Ends),
        "watch 9",
        false,
    );
}

/// IN12: a stalled watch is replaced, and nothing is delivered twice when the next one replays events.
#[tokio::test(start_paused = true)]
async fn in12_a_stalled_watch_is_replaced() {
    let mut fixture = start(
        InitialList::Paged,
        vec![
            ScriptedResponse::List(&["a/x@3"], 7, None),
            ScriptedResponse::Watch(vec![modified("a/x@8")], Tail::Hangs),
            ScriptedResponse::Watch(
                vec![modified("a/x@8"), deleted("a/gone@8"), modified("a/x@9")],
                Tail::Hangs,
            ),
        ],
    );
    assert_eq!(fixture.requests().await[2], "watch 8");
    assert_eq!(fixture.delivered(), ["+a/x@3", "~3>a/x@8", "~8>a/x@9"]);
}

/// IN12: a failed list is retried with backoff.
#[tokio::test(start_paused = true)]
async fn in12_an_unreachable_server_is_retried_with_backoff() {
    let down = || fail(Status::unavailable("connection refused"));
    let began = tokio::time::Instant::now();
    let mut responses: Vec<_> = (0..5).map(|_| down()).collect();
    responses.push(ScriptedResponse::List(&[], 7, None));
    let mut fixture = start(InitialList::Paged, responses);
    fixture.requests().await;
    let least = Duration::from_millis(800 + 1600 + 3200 + 6400 + 12_800);
    assert!(began.elapsed() >= least && began.elapsed() <= least * 2 + Duration::from_secs(1));
    assert!(fixture.cache.is_synced());
}

/// IN8, IN15: one cache for each resource, however many readers it has.
#[tokio::test(start_paused = true)]
async fn in8_every_reader_of_a_resource_shares_one_cache() {
    let script = Script {
        responses: Arc::new(Mutex::new(VecDeque::from([ScriptedResponse::Watch(
            vec![added("a/x@3"), initial_end(7)],
            Tail::Hangs,
        )]))),
        requests: Arc::default(),
        notify: Arc::default(),
    };
    let client = Client::new(Arc::new(script.clone()), Arc::new(User::component("test")));
    let pods = Gvr::new("", "v1", "pods");
    let factory = crate::SharedInformerFactory::new(client, Arc::new(SystemClock::new()));
    let requested = factory.cache_of(&pods).unwrap();
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let (running, token) = (factory.clone(), stop.clone());
    tasks.spawn(async move { running.run(token).await });
    let one = factory.cache(&pods.group_resource()).unwrap();
    let two = factory.cache(&pods.group_resource()).unwrap();
    one.synced().await;
    assert!(Arc::ptr_eq(&one, &two) && Arc::ptr_eq(&one, &requested));
    assert!(factory.cache(&GroupResource::new("", "nodes")).is_none());
    assert_eq!(*script.requests.lock(), ["stream 0"]);
    stop.cancel();
    tasks.join_next().await.unwrap().unwrap().unwrap();
}
