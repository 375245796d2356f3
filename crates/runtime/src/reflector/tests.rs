//! List, watch and everything that goes wrong between, against a server that follows a script.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use parking_lot::Mutex;
use setpoint_api::{
    Body, Change, GroupResource, Header, Reply, Request, Response, Serve, Stored, SystemClock, User, Verb,
};
use setpoint_cache::{Caches, Subscription};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::*;

/// What the server does when asked.
enum Answer {
    List(&'static [&'static str], u64, Option<&'static str>),
    /// Tells these events, then ends or stays silent.
    Watch(Vec<Event>, Tail),
    Fail(Box<Status>),
}

#[derive(Clone, Copy)]
enum Tail {
    Ends,
    Hangs,
}

/// A server that gives its answers in order, writes down what it was asked, and is silent after the last.
#[derive(Clone)]
struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<String>>>,
    told: Arc<Notify>,
}

/// A stream that must not be asked once more after its end.
struct Told {
    events: VecDeque<Event>,
    tail: Tail,
    ended: bool,
}

impl futures_core::Stream for Told {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Event>> {
        match (self.events.pop_front(), self.tail) {
            (Some(event), _) => Poll::Ready(Some(event)),
            (None, Tail::Ends) => {
                assert!(!self.ended, "a watch is over when it ends");
                self.ended = true;
                Poll::Ready(None)
            }
            (None, Tail::Hangs) => Poll::Pending,
        }
    }
}

impl Serve for Script {
    fn call(&self, request: Request) -> Reply<'_> {
        self.asked.lock().push(shown(&request.verb));
        let answer = self.answers.lock().pop_front();
        self.told.notify_waiters();
        Box::pin(async move {
            let body = match answer {
                None => std::future::pending().await,
                Some(Answer::Fail(status)) => return Err(*status),
                Some(Answer::List(objects, version, token)) => Body::List(List {
                    items: objects.iter().map(|text| object(text)).collect(),
                    resource_version: ResourceVersion(version),
                    continue_token: token.map(str::to_owned),
                    remaining: None,
                }),
                Some(Answer::Watch(events, tail)) => {
                    let events = events.into();
                    Body::Watch(Box::pin(Told {
                        events,
                        tail,
                        ended: false,
                    }))
                }
            };
            Ok(Response::of(body))
        })
    }
}

fn shown(verb: &Verb) -> String {
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
            assert!(options.bookmarks);
            assert!((300..=600).contains(&options.timeout.unwrap().as_secs()));
            format!("watch {}", at(options.resource_version))
        }
        verb => verb.name().to_owned(),
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

fn fail(status: Status) -> Answer {
    Answer::Fail(Box::new(status))
}

fn expired() -> Status {
    Status::too_old(ResourceVersion(1), ResourceVersion(9))
}

/// A reflector that has been started on a script.
struct World {
    cache: Arc<Cache>,
    script: Script,
    handler: Subscription,
    tasks: JoinSet<()>,
}

fn start(how: Start, answers: Vec<Answer>) -> World {
    let scope = Scope {
        start: how,
        ..Scope::default()
    };
    start_with(scope, answers)
}

fn start_with(scope: Scope, answers: Vec<Answer>) -> World {
    let script = Script {
        answers: Arc::new(Mutex::new(answers.into())),
        asked: Arc::default(),
        told: Arc::default(),
    };
    let client = Client::new(Arc::new(script.clone()), Arc::new(User::component("test")));
    let cache = Arc::new(Cache::new(GroupResource::new("", "pods")));
    let clock = Arc::new(SystemClock::new());
    let reflector = Reflector::new(&client, Gvr::new("", "v1", "pods"), scope, cache.clone(), clock);
    let handler = cache.subscribe(None).unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(reflector.run(CancellationToken::new()));
    World {
        cache,
        script,
        handler,
        tasks,
    }
}

impl World {
    /// What was asked, once there is no answer left.
    async fn asked(&mut self) -> Vec<String> {
        loop {
            let told = self.script.told.notified();
            if self.script.answers.lock().is_empty() {
                break;
            }
            tokio::select! {
                () = told => {}
                Some(ended) = self.tasks.join_next() => panic!("a reflector ends only when stopped: {ended:?}"),
            }
        }
        // Paused time only moves on when everyone waits, so by then all is applied.
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(self.tasks.len(), 1);
        self.script.asked.lock().clone()
    }

    /// What a handler has been told.
    fn told(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        while let Some(batch) = self.handler.try_next().unwrap() {
            told.extend(batch.changes().iter().map(|change| match change {
                Change::Added(new) => format!("+{new:?}"),
                Change::Modified { old, new } => format!("~{}>{new:?}", old.resource_version()),
                Change::Deleted { last, .. } => format!("-{last:?}"),
            }));
        }
        told
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
    let mut world = start(
        Start::List,
        vec![
            Answer::List(&["a/x@3", "a/y@4"], 7, None),
            Answer::Watch(
                vec![modified("a/x@8"), added("a/z@9"), deleted("a/y@10")],
                Tail::Hangs,
            ),
        ],
    );
    assert_eq!(world.asked().await, ["list 0 limit 500", "watch 7"]);
    assert_eq!(world.objects(), ["a/x@8", "a/z@9"]);
    assert_eq!(
        world.told(),
        ["+a/x@3", "+a/y@4", "~3>a/x@8", "+a/z@9", "-a/y@10"]
    );
    assert_eq!(world.cache.version(), ResourceVersion(10));
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
    let mut world = start(Start::Stream, vec![Answer::Watch(events, Tail::Hangs)]);
    assert_eq!(world.asked().await, ["stream 0"]);
    assert!(world.cache.is_synced());
    assert_eq!(world.told(), ["+a/x@6", "+a/y@4", "+a/z@8"]);
    assert_eq!(world.cache.version(), ResourceVersion(8));
}

/// IN12: what a line repeats is told to nobody, whenever it comes: neither an end nor an object that has ended since
/// comes back.
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
    let mut world = start(Start::Stream, vec![Answer::Watch(events, Tail::Hangs)]);
    assert_eq!(world.asked().await, ["stream 0"]);
    assert_eq!(
        world.told(),
        ["+a/y@4", "~4>a/y@8", "-a/y@9", "+a/y@10", "+a/z@10"]
    );
    assert_eq!(world.objects(), ["a/y@10", "a/z@10"]);
    assert_eq!(world.cache.version(), ResourceVersion(10));
}

/// IN12: what a list does not have was gone by then, whatever a line repeats of it.
#[tokio::test(start_paused = true)]
async fn in12_who_went_before_the_list_does_not_come_back() {
    let events = vec![modified("a/y@5"), deleted("a/y@6"), added("a/y@8")];
    let mut world = start(
        Start::List,
        vec![
            Answer::List(&["a/x@3"], 7, None),
            Answer::Watch(events, Tail::Hangs),
        ],
    );
    world.asked().await;
    assert_eq!(world.told(), ["+a/x@3", "+a/y@8"]);
}

/// TR9: events of different objects may change places.
#[tokio::test(start_paused = true)]
async fn tr9_order_is_needed_for_each_object_only() {
    let events = vec![
        added("a/y@9"),
        added("a/x@8"),
        deleted("a/y@12"),
        modified("a/x@11"),
    ];
    let mut world = start(
        Start::List,
        vec![Answer::List(&[], 7, None), Answer::Watch(events, Tail::Hangs)],
    );
    world.asked().await;
    assert_eq!(world.told(), ["+a/y@9", "+a/x@8", "-a/y@12", "~8>a/x@11"]);
    assert_eq!(world.objects(), ["a/x@11"]);
    assert_eq!(world.cache.version(), ResourceVersion(12));
}

/// TR3, IN14: an event that never comes is made good by the next list, where one is asked for.
#[tokio::test(start_paused = true)]
async fn tr3_what_a_line_swallows_is_found_by_the_next_list() {
    let answers = vec![
        Answer::List(&["a/x@3", "a/y@4"], 7, None),
        Answer::Watch(vec![bookmark(20)], Tail::Hangs),
        Answer::List(&["a/x@9", "a/z@12"], 21, None),
        Answer::Watch(Vec::new(), Tail::Hangs),
    ];
    let scope = Scope {
        start: Start::List,
        relist: Some(Duration::from_secs(60)),
        ..Scope::default()
    };
    let mut world = start_with(scope, answers);
    assert_eq!(
        world.asked().await,
        ["list 0 limit 500", "watch 7", "list 20", "watch 21"]
    );
    assert_eq!(
        world.told(),
        ["+a/x@3", "+a/y@4", "-a/y@4", "~3>a/x@9", "+a/z@12"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streaming_lists_is_listed() {
    let mut world = start(
        Start::Stream,
        vec![
            fail(Status::bad_request("sendInitialEvents is forbidden")),
            Answer::List(&["a/x@3"], 7, None),
            Answer::Watch(Vec::new(), Tail::Hangs),
        ],
    );
    assert_eq!(world.asked().await, ["stream 0", "list 0 limit 500", "watch 7"]);
    assert_eq!(world.told(), ["+a/x@3"]);
}

/// IN2: a watch that ends is taken up again where it ended, bookmarks included, without a list.
#[tokio::test(start_paused = true)]
async fn in2_a_closed_watch_goes_on_without_a_list() {
    let mut world = start(
        Start::List,
        vec![
            Answer::List(&["a/x@3"], 7, None),
            Answer::Watch(vec![modified("a/x@8")], Tail::Ends),
            Answer::Watch(vec![bookmark(20)], Tail::Ends),
            Answer::Watch(vec![modified("a/x@21")], Tail::Hangs),
        ],
    );
    assert_eq!(
        world.asked().await,
        ["list 0 limit 500", "watch 7", "watch 8", "watch 20"]
    );
    assert_eq!(world.told(), ["+a/x@3", "~3>a/x@8", "~8>a/x@21"]);
}

/// IN2, IN5: what is gone is listed anew; handlers hear only of what differs.
#[tokio::test(start_paused = true)]
async fn in2_an_expired_watch_is_one_relist() {
    let mut world = start(
        Start::List,
        vec![
            Answer::List(&["a/x@3", "a/y@4"], 7, None),
            Answer::Watch(vec![Event::Error(Box::new(expired()))], Tail::Ends),
            Answer::List(&["a/x@3", "a/z@9"], 12, None),
            Answer::Watch(Vec::new(), Tail::Hangs),
        ],
    );
    assert_eq!(
        world.asked().await,
        ["list 0 limit 500", "watch 7", "list 7", "watch 12"]
    );
    assert_eq!(world.told(), ["+a/x@3", "+a/y@4", "-a/y@4", "+a/z@9"]);
}

/// IN2: what came before the error counts, and the next list goes on from there.
#[tokio::test(start_paused = true)]
async fn in2_what_came_before_an_error_is_told() {
    let events = vec![modified("a/x@8"), Event::Error(Box::new(expired()))];
    let mut world = start(
        Start::List,
        vec![
            Answer::List(&["a/x@3"], 7, None),
            Answer::Watch(events, Tail::Ends),
            Answer::List(&["a/x@9"], 12, None),
            Answer::Watch(Vec::new(), Tail::Hangs),
        ],
    );
    assert_eq!(world.asked().await[2..], ["list 8", "watch 12"]);
    assert_eq!(world.told(), ["+a/x@3", "~3>a/x@8", "~8>a/x@9"]);
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_no_server_knows_is_asked_for_no_more() {
    let large = Status::too_large_resource_version(ResourceVersion(7), ResourceVersion(2));
    let mut world = start(
        Start::List,
        vec![
            Answer::List(&["a/x@3"], 7, None),
            Answer::Watch(vec![Event::Error(Box::new(expired()))], Tail::Ends),
            fail(large),
            Answer::List(&["a/x@3"], 12, None),
            Answer::Watch(Vec::new(), Tail::Hangs),
        ],
    );
    assert_eq!(world.asked().await[2..], ["list 7", "list newest", "watch 12"]);
}

#[tokio::test(start_paused = true)]
async fn a_first_list_comes_in_pages() {
    let mut world = start(
        Start::List,
        vec![
            Answer::List(&["a/x@3"], 7, Some("t1")),
            Answer::List(&["a/y@4"], 7, Some("t2")),
            Answer::List(&["a/z@5"], 7, None),
            Answer::Watch(Vec::new(), Tail::Hangs),
        ],
    );
    let asked = world.asked().await;
    assert_eq!(
        asked[1..],
        [
            "list newest limit 500 from t1",
            "list newest limit 500 from t2",
            "watch 7"
        ]
    );
    assert_eq!(world.objects(), ["a/x@3", "a/y@4", "a/z@5"]);
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_gone_makes_one_whole_list() {
    let mut world = start(
        Start::List,
        vec![
            Answer::List(&["a/x@3"], 7, Some("t1")),
            fail(expired()),
            Answer::List(&["a/x@3", "a/y@9"], 9, None),
            Answer::Watch(Vec::new(), Tail::Hangs),
        ],
    );
    assert_eq!(world.asked().await[2..], ["list 0", "watch 9"]);
    assert_eq!(world.objects(), ["a/x@3", "a/y@9"]);
}

/// IN12: what the reflector asks after a watch from revision 7 failed so, and whether it waited before.
#[track_caller]
fn check_failure(answer: Answer, expected: &str, waits: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let (next, waited) = runtime.block_on(async {
        let start_of_time = tokio::time::Instant::now();
        let answers = vec![Answer::List(&["a/x@3"], 7, None), answer, fail(expired())];
        let mut world = start(Start::List, answers);
        let asked = world.asked().await;
        (
            asked[2].clone(),
            start_of_time.elapsed() >= Duration::from_millis(800),
        )
    });
    assert_eq!((next.as_str(), waited), (expected, waits));
}

#[test]
fn in12_every_failure_has_its_answer() {
    let error = |status| Answer::Watch(vec![Event::Error(Box::new(status))], Tail::Ends);
    check_failure(fail(Status::unavailable("connection refused")), "watch 7", true);
    check_failure(fail(Status::too_many_requests(1)), "watch 7", true);
    check_failure(fail(expired()), "list 7", false);
    check_failure(fail(Status::internal("broken")), "list 7", true);
    check_failure(error(Status::internal("broken")), "list 7", true);
    check_failure(error(expired()), "list 7", false);
    check_failure(Answer::Watch(Vec::new(), Tail::Ends), "list 7", true);
    check_failure(Answer::Watch(vec![bookmark(9)], Tail::Ends), "watch 9", false);
}

/// IN12: a stream that stalls is given up, and nothing is told twice when the next one repeats itself.
#[tokio::test(start_paused = true)]
async fn in12_a_stalled_watch_is_replaced() {
    let mut world = start(
        Start::List,
        vec![
            Answer::List(&["a/x@3"], 7, None),
            Answer::Watch(vec![modified("a/x@8")], Tail::Hangs),
            Answer::Watch(
                vec![modified("a/x@8"), deleted("a/gone@8"), modified("a/x@9")],
                Tail::Hangs,
            ),
        ],
    );
    assert_eq!(world.asked().await[2], "watch 8");
    assert_eq!(world.told(), ["+a/x@3", "~3>a/x@8", "~8>a/x@9"]);
}

/// IN12: a list that fails is tried again and again, later each time.
#[tokio::test(start_paused = true)]
async fn in12_a_server_that_is_down_is_asked_ever_more_rarely() {
    let down = || fail(Status::unavailable("connection refused"));
    let began = tokio::time::Instant::now();
    let mut answers: Vec<_> = (0..5).map(|_| down()).collect();
    answers.push(Answer::List(&[], 7, None));
    let mut world = start(Start::List, answers);
    world.asked().await;
    let least = Duration::from_millis(800 + 1600 + 3200 + 6400 + 12_800);
    assert!(began.elapsed() >= least && began.elapsed() <= least * 2 + Duration::from_secs(1));
    assert!(world.cache.is_synced());
}

/// IN8, IN15: one mirror for each resource, however many read it.
#[tokio::test(start_paused = true)]
async fn in8_every_reader_of_a_resource_shares_one_mirror() {
    let script = Script {
        answers: Arc::new(Mutex::new(VecDeque::from([Answer::Watch(
            vec![added("a/x@3"), initial_end(7)],
            Tail::Hangs,
        )]))),
        asked: Arc::default(),
        told: Arc::default(),
    };
    let client = Client::new(Arc::new(script.clone()), Arc::new(User::component("test")));
    let pods = Gvr::new("", "v1", "pods");
    let reflected = crate::Factory::new(client, Arc::new(SystemClock::new()));
    let asked_for = reflected.cache_of(&pods).unwrap();
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let (running, token) = (reflected.clone(), stop.clone());
    tasks.spawn(async move { running.run(token).await });
    let one = reflected.cache(&pods.group_resource()).unwrap();
    let two = reflected.cache(&pods.group_resource()).unwrap();
    one.synced().await;
    assert!(Arc::ptr_eq(&one, &two) && Arc::ptr_eq(&one, &asked_for));
    assert!(reflected.cache(&GroupResource::new("", "nodes")).is_none());
    assert_eq!(*script.asked.lock(), ["stream 0"]);
    stop.cancel();
    tasks.join_next().await.unwrap().unwrap().unwrap();
}
