//! The loop from a change in a cache to a reconcile and back, on paused time.

mod read_your_writes;
mod reading;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use setpoint_api::object::OwnerReference;
use setpoint_api::{
    Body, Header, Request, ResourceVersion, Response, Serve, ServeFuture, Status, Stored, SystemClock, User,
};
use setpoint_cache::Caches;
use setpoint_client::Client;
use tokio::sync::Notify;

use super::*;
use crate::lister::Lister;
use crate::predicate::Predicate;
use crate::reconcile::Next;

/// Caches without a server; the test writes them.
struct Local(BTreeMap<GroupResource, Arc<Cache>>);

impl Caches for Local {
    fn cache(&self, resource: &GroupResource) -> Option<Arc<Cache>> {
        self.0.get(resource).cloned()
    }
}

/// The fixture of every test: a synced cache of pods and one of replica sets, and a scripted server.
struct Fixture {
    pods: Arc<Cache>,
    sets: Arc<Cache>,
    context: Context,
    stop: CancellationToken,
    controllers: JoinSet<Result<(), Error>>,
}

fn pods() -> GroupResource {
    GroupResource::new("", "pods")
}

fn sets() -> GroupResource {
    GroupResource::new("apps", "replicasets")
}

impl Fixture {
    fn new() -> Self {
        Self::with_server(|_: Request| -> ServeFuture<'static> {
            Box::pin(async { Err(Status::unavailable("no server")) })
        })
    }

    fn with_server(serve: impl Serve + 'static) -> Self {
        let cache = |resource| {
            let cache = Arc::new(Cache::new(resource));
            cache.replace(Vec::new(), ResourceVersion(1));
            cache
        };
        let (pod_cache, set_cache) = (cache(pods()), cache(sets()));
        let caches = BTreeMap::from([(pods(), pod_cache.clone()), (sets(), set_cache.clone())]);
        let client = Client::new(Arc::new(serve), Arc::new(User::component("test")));
        let (context, _) = Context::new(Arc::new(Local(caches)), client, Arc::new(SystemClock::new()));
        Self {
            pods: pod_cache,
            sets: set_cache,
            context,
            stop: CancellationToken::new(),
            controllers: JoinSet::new(),
        }
    }

    fn start(&mut self, controller: Controller) {
        let (context, stop) = (self.context.clone(), self.stop.clone());
        self.controllers
            .spawn(async move { controller.run(&context, stop).await });
    }

    async fn stop(mut self) -> Vec<Result<(), Error>> {
        self.stop.cancel();
        let mut ended = Vec::new();
        while let Some(end) = self.controllers.join_next().await {
            ended.push(end.unwrap());
        }
        ended
    }
}

fn object(key: &str, version: u64, owner: &str) -> Arc<Stored> {
    let mut header = Header::new(key.parse().unwrap());
    header.resource_version = ResourceVersion(version);
    if !owner.is_empty() {
        header.owner_references = Box::new([OwnerReference {
            uid: format!("uid-{owner}").into(),
            kind: "ReplicaSet".into(),
            name: owner.into(),
            api_version: "apps/v1".into(),
            controller: true,
            block_owner_deletion: true,
        }]);
    }
    Arc::new(Stored::new(header, Bytes::from_static(b"{}"), 1))
}

fn add(cache: &Cache, key: &str, version: u64, owner: &str) {
    let change = Change::Added(object(key, version, owner));
    cache.apply(vec![change], ResourceVersion(version));
}

/// Records the keys it gets, and returns scripted outcomes.
#[derive(Clone)]
struct RecordingReconciler {
    seen: Arc<Mutex<Vec<String>>>,
    notify: Arc<Notify>,
    outcome: Arc<dyn Fn(usize) -> Result<Next, Error> + Send + Sync>,
}

impl RecordingReconciler {
    fn new() -> Self {
        Self::with_outcome(|_| Ok(Next::Done))
    }

    /// The outcome of the n-th call, from zero.
    fn with_outcome(outcome: impl Fn(usize) -> Result<Next, Error> + Send + Sync + 'static) -> Self {
        Self {
            seen: Arc::default(),
            notify: Arc::default(),
            outcome: Arc::new(outcome),
        }
    }

    /// Resolves after this number of calls.
    async fn until(&self, calls: usize) -> Vec<String> {
        loop {
            let notified = self.notify.notified();
            let seen = self.seen.lock().clone();
            if seen.len() >= calls {
                return seen;
            }
            notified.await;
        }
    }
}

impl Reconcile for RecordingReconciler {
    async fn reconcile(&self, key: &Key, _: &Client) -> Result<Next, Error> {
        let number = {
            let mut seen = self.seen.lock();
            seen.push(key.to_string());
            seen.len() - 1
        };
        self.notify.notify_waiters();
        (self.outcome)(number)
    }
}

/// TR1, WQ5: each object of the initial list and each change enqueues its key.
#[tokio::test(start_paused = true)]
async fn tr1_a_change_enqueues_its_key() {
    let mut fixture = Fixture::new();
    add(&fixture.sets, "a/old", 2, "");
    let reconciler = RecordingReconciler::new();
    fixture.start(Controller::new("test", reconciler.clone()).reconciles::<ReplicaSet>());
    assert_eq!(reconciler.until(1).await, ["a/old"]);
    add(&fixture.sets, "a/new", 3, "");
    assert_eq!(reconciler.until(2).await, ["a/old", "a/new"]);
    assert!(fixture.stop().await[0].is_ok());
}

/// RS3: a child enqueues its owner and no other; WQ2: a change without an owner enqueues nothing.
#[tokio::test(start_paused = true)]
async fn a_child_enqueues_its_controller_only() {
    let mut fixture = Fixture::new();
    let reconciler = RecordingReconciler::new();
    fixture.start(Controller::new("test", reconciler.clone()).owns::<ReplicaSet, Pod>());
    add(&fixture.pods, "a/orphan", 2, "");
    add(&fixture.pods, "a/web-1", 3, "web");
    assert_eq!(reconciler.until(1).await, ["a/web"]);
    let (old, new) = (object("a/web-1", 3, "web"), object("a/web-1", 4, "other"));
    fixture
        .pods
        .apply(vec![Change::Modified { old, new }], ResourceVersion(4));
    assert_eq!(reconciler.until(3).await[1..], ["a/web", "a/other"]);
}

/// WQ6: an error is retried with a longer delay each time; success resets it.
#[tokio::test(start_paused = true)]
async fn wq6_a_failed_key_is_retried() {
    let mut fixture = Fixture::new();
    add(&fixture.sets, "a/x", 2, "");
    let reconciler = RecordingReconciler::with_outcome(|number| match number {
        0..3 => Err(Error::failed("not yet")),
        _ => Ok(Next::Done),
    });
    let start = tokio::time::Instant::now();
    fixture.start(Controller::new("test", reconciler.clone()).reconciles::<ReplicaSet>());
    reconciler.until(4).await;
    assert_eq!(start.elapsed().as_millis(), 5 + 10 + 20);
    let text = fixture.context.metrics.to_text();
    fixture.stop().await;
    assert!(
        text.contains("setpoint_controller_reconciles_total{controller=\"test\",result=\"error\"} 3"),
        "{text}"
    );
    assert!(
        text.contains("workqueue_retries_total{name=\"test\"} 3"),
        "{text}"
    );
}

/// WQ7, TR2: a requeue after a delay is no failure.
#[tokio::test(start_paused = true)]
async fn wq7_a_key_is_requeued_after_the_returned_delay() {
    let mut fixture = Fixture::new();
    add(&fixture.sets, "a/x", 2, "");
    let reconciler = RecordingReconciler::with_outcome(|_| Ok(Next::After(Duration::from_secs(60))));
    let start = tokio::time::Instant::now();
    fixture.start(Controller::new("test", reconciler.clone()).reconciles::<ReplicaSet>());
    reconciler.until(5).await;
    assert_eq!(start.elapsed().as_secs(), 240);
}

/// OC8: a conflict is counted separately and retried.
#[tokio::test(start_paused = true)]
async fn oc8_a_conflict_is_retried() {
    let mut fixture = Fixture::new();
    add(&fixture.sets, "a/x", 2, "");
    let reconciler = RecordingReconciler::with_outcome(|number| match number {
        0 => Err(Status::modified(&sets(), "x").into()),
        _ => Ok(Next::Done),
    });
    fixture.start(Controller::new("test", reconciler.clone()).reconciles::<ReplicaSet>());
    reconciler.until(2).await;
    assert!(
        fixture
            .context
            .metrics
            .to_text()
            .contains("result=\"conflict\"} 1")
    );
}

#[tokio::test(start_paused = true)]
async fn a_terminal_error_is_not_retried_before_the_next_change() {
    let mut fixture = Fixture::new();
    add(&fixture.sets, "a/x", 2, "");
    let reconciler = RecordingReconciler::with_outcome(|_| Err(Error::terminal("the spec makes no sense")));
    fixture.start(Controller::new("test", reconciler.clone()).reconciles::<ReplicaSet>());
    reconciler.until(1).await;
    tokio::time::advance(Duration::from_secs(3600)).await;
    add(&fixture.sets, "a/y", 3, "");
    assert_eq!(reconciler.until(2).await, ["a/x", "a/y"]);
}

/// A panic ends one reconcile, not the controller, and its key is retried.
#[tokio::test(start_paused = true)]
async fn a_panic_is_one_reconciles_own() {
    let mut fixture = Fixture::new();
    add(&fixture.sets, "a/x", 2, "");
    let reconciler = RecordingReconciler::with_outcome(|number| match number {
        0 => panic!("out of words"),
        _ => Ok(Next::Done),
    });
    fixture.start(
        Controller::new("test", reconciler.clone())
            .reconciles::<ReplicaSet>()
            .workers(1),
    );
    assert_eq!(reconciler.until(2).await, ["a/x", "a/x"]);
    assert!(fixture.context.metrics.to_text().contains("result=\"panic\"} 1"));
    assert!(fixture.stop().await[0].is_ok());
}

/// TR5, IN13: without any change, everything is reconciled again.
#[tokio::test(start_paused = true)]
async fn tr5_a_resync_enqueues_everything() {
    let mut fixture = Fixture::new();
    add(&fixture.sets, "a/x", 2, "");
    add(&fixture.sets, "a/y", 3, "");
    let reconciler = RecordingReconciler::new();
    let start = tokio::time::Instant::now();
    let controller = Controller::new("test", reconciler.clone()).reconciles::<ReplicaSet>();
    fixture.start(controller.resync_every(Duration::from_secs(300)).workers(1));
    assert_eq!(
        reconciler.until(6).await,
        ["a/x", "a/y", "a/x", "a/y", "a/x", "a/y"]
    );
    assert_eq!(start.elapsed().as_secs(), 600);
}

/// TR5: a controller without a resync period uses that of its manager. With informers of its own that is
/// ten hours, a tenth more or less, unless it is set.
#[tokio::test(start_paused = true)]
async fn tr5_a_separate_process_resyncs_every_ten_hours() {
    let mut manager = crate::Manager::unconnected();
    let mut fixture = Fixture::new();
    assert_eq!(fixture.context.resync, None);
    fixture.context.resync = manager.context().resync;
    add(&fixture.sets, "a/x", 2, "");
    let (reconciler, start) = (RecordingReconciler::new(), tokio::time::Instant::now());
    fixture.start(Controller::new("test", reconciler.clone()).reconciles::<ReplicaSet>());
    reconciler.until(2).await;
    let hours = start.elapsed().as_secs_f64() / 3600.0;
    assert!((9.0..=11.0).contains(&hours), "{hours}");
    manager.resync_every(None);
    assert_eq!(manager.context().resync, None);
}

/// TR4: an informer that missed changes enqueues all keys, so the owner of an unobserved deletion is enqueued, too.
#[tokio::test(start_paused = true)]
async fn tr4_after_a_gap_everything_is_enqueued() {
    let mut fixture = Fixture::new();
    add(&fixture.sets, "a/web", 2, "");
    add(&fixture.pods, "a/web-1", 3, "web");
    let reconciler = RecordingReconciler::new();
    let controller = Controller::new("test", reconciler.clone()).reconciles::<ReplicaSet>();
    fixture.start(controller.owns::<ReplicaSet, Pod>());
    reconciler.until(1).await;
    // The deletion is dropped from the window before the informer can read it.
    let (old, last) = (object("a/web-1", 3, "web"), object("a/web-1", 4, "web"));
    fixture
        .pods
        .apply(vec![Change::Deleted { old, last }], ResourceVersion(4));
    fixture.pods.trim(ResourceVersion(4));
    assert_eq!(reconciler.until(2).await, ["a/web", "a/web"]);
}

/// WQ3, WQ8: at most as many reconciles as workers; a stop lets them finish and starts no more.
#[tokio::test(start_paused = true)]
async fn wq8_a_stop_lets_running_reconciles_finish() {
    struct Slow(Arc<AtomicUsize>, Arc<AtomicUsize>, Arc<dyn setpoint_api::Clock>);
    impl Reconcile for Slow {
        async fn reconcile(&self, _: &Key, _: &Client) -> Result<Next, Error> {
            self.0.fetch_add(1, Ordering::SeqCst);
            self.2.sleep(Duration::from_secs(10)).await;
            self.1.fetch_add(1, Ordering::SeqCst);
            Ok(Next::Done)
        }
    }
    let mut fixture = Fixture::new();
    (0..8).for_each(|i| add(&fixture.sets, &format!("a/{i}"), 2 + i, ""));
    let (started, finished) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let slow = Slow(started.clone(), finished.clone(), fixture.context.clock.clone());
    fixture.start(
        Controller::new("test", slow)
            .reconciles::<ReplicaSet>()
            .workers(3),
    );
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(
        (started.load(Ordering::SeqCst), finished.load(Ordering::SeqCst)),
        (6, 3)
    );
    assert!(
        fixture
            .context
            .metrics
            .to_text()
            .contains("active_workers{controller=\"test\"} 3")
    );
    assert!(fixture.stop().await[0].is_ok());
    assert_eq!(
        (started.load(Ordering::SeqCst), finished.load(Ordering::SeqCst)),
        (6, 6)
    );
}

#[tokio::test(start_paused = true)]
async fn a_controller_of_an_unserved_resource_fails() {
    let mut fixture = Fixture::new();
    let controller = Controller::new("test", RecordingReconciler::new())
        .watches(GroupResource::new("x.io", "things"), object_key);
    fixture.start(controller);
    let ended = fixture.stop().await;
    assert_eq!(
        ended[0].as_ref().unwrap_err().to_string(),
        "resource things.x.io is not served"
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_reconciled_before_the_caches_have_synced() {
    let mut fixture = Fixture::new();
    let nodes = GroupResource::new("", "nodes");
    let cache = Arc::new(Cache::new(nodes.clone()));
    let caches = BTreeMap::from([(sets(), fixture.sets.clone()), (nodes.clone(), cache.clone())]);
    fixture.context.caches = Arc::new(Local(caches));
    add(&fixture.sets, "a/x", 2, "");
    let reconciler = RecordingReconciler::new();
    fixture.start(
        Controller::new("test", reconciler.clone())
            .reconciles::<ReplicaSet>()
            .reads(nodes),
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(reconciler.seen.lock().is_empty());
    cache.replace(Vec::new(), ResourceVersion(2));
    assert_eq!(reconciler.until(1).await, ["a/x"]);
}

/// TR6: slow reconciles take as many rounds as there are keys per worker.
#[tokio::test(start_paused = true)]
async fn tr6_more_workers_finish_sooner() {
    struct Slow(RecordingReconciler, Arc<dyn setpoint_api::Clock>);
    impl Reconcile for Slow {
        async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
            self.1.sleep(Duration::from_secs(1)).await;
            self.0.reconcile(key, client).await
        }
    }
    for (workers, seconds) in [(1, 20), (5, 4), (20, 1)] {
        let mut fixture = Fixture::new();
        (0..20).for_each(|i| add(&fixture.sets, &format!("a/{i}"), 2 + i, ""));
        let (reconciler, start) = (RecordingReconciler::new(), tokio::time::Instant::now());
        let slow = Slow(reconciler.clone(), fixture.context.clock.clone());
        let controller = Controller::new("test", slow).reconciles::<ReplicaSet>();
        fixture.start(controller.workers(workers));
        reconciler.until(20).await;
        assert_eq!(start.elapsed().as_secs(), seconds, "{workers} workers");
    }
}

/// Keys may come from a channel.
#[tokio::test(start_paused = true)]
async fn a_key_from_a_channel_is_reconciled() {
    let mut fixture = Fixture::new();
    let (reconciler, (sender, keys)) = (RecordingReconciler::new(), mpsc::channel(1));
    let controller = Controller::new("test", reconciler.clone()).reconciles::<ReplicaSet>();
    fixture.start(controller.watches_channel(keys));
    sender.send(Key::new("a", "hook")).await.unwrap();
    assert_eq!(reconciler.until(1).await, ["a/hook"]);
    drop(sender);
    add(&fixture.sets, "a/x", 2, "");
    assert_eq!(reconciler.until(2).await, ["a/hook", "a/x"]);
    assert!(fixture.stop().await[0].is_ok());
}
