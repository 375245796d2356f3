//! The loop from a change in a cache to a reconcile and back, on paused time.

mod reading;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use setpoint_api::object::Owner;
use setpoint_api::{
    Body, Header, Reply, Request, ResourceVersion, Response, Serve, Status, Stored, SystemClock, User,
};
use setpoint_cache::Caches;
use setpoint_client::Client;
use tokio::sync::Notify;

use super::*;
use crate::lister::Lister;
use crate::predicate::Predicate;
use crate::queue::Limits;
use crate::reconcile::Next;

/// Caches without a server; the test feeds them.
struct Local(BTreeMap<GroupResource, Arc<Cache>>);

impl Caches for Local {
    fn cache(&self, resource: &GroupResource) -> Option<Arc<Cache>> {
        self.0.get(resource).cloned()
    }
}

/// What every test starts from: a filled cache of pods and one of replica sets, and a server that answers by a script.
struct World {
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

impl World {
    fn new() -> Self {
        Self::with_server(|_: Request| -> Reply<'static> {
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
        header.owners = Box::new([Owner {
            uid: format!("uid-{owner}").into(),
            kind: "ReplicaSet".into(),
            name: owner.into(),
            api_version: "apps/v1".into(),
            controller: true,
            blocks_deletion: true,
        }]);
    }
    Arc::new(Stored::new(header, Bytes::from_static(b"{}"), 1))
}

fn add(cache: &Cache, key: &str, version: u64, owner: &str) {
    let change = Change::Added(object(key, version, owner));
    cache.apply(vec![change], ResourceVersion(version));
}

/// Writes down which keys it is given, and answers by a script.
#[derive(Clone)]
struct Notes {
    seen: Arc<Mutex<Vec<String>>>,
    told: Arc<Notify>,
    answer: Arc<dyn Fn(usize) -> Result<Next, Error> + Send + Sync>,
}

impl Notes {
    fn new() -> Self {
        Self::answering(|_| Ok(Next::Done))
    }

    /// The answer to the n-th call, from zero.
    fn answering(answer: impl Fn(usize) -> Result<Next, Error> + Send + Sync + 'static) -> Self {
        Self {
            seen: Arc::default(),
            told: Arc::default(),
            answer: Arc::new(answer),
        }
    }

    /// Resolves when so many calls have been made.
    async fn until(&self, calls: usize) -> Vec<String> {
        loop {
            let told = self.told.notified();
            let seen = self.seen.lock().clone();
            if seen.len() >= calls {
                return seen;
            }
            told.await;
        }
    }
}

impl Reconcile for Notes {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let number = {
            let mut seen = self.seen.lock();
            seen.push(key.to_string());
            seen.len() - 1
        };
        self.told.notify_waiters();
        (self.answer)(number)
    }
}

/// TR1, WQ5: what is there at the start and each change wakes its key.
#[tokio::test(start_paused = true)]
async fn tr1_a_change_wakes_its_key() {
    let mut world = World::new();
    add(&world.sets, "a/old", 2, "");
    let notes = Notes::new();
    world.start(Controller::new("test", notes.clone()).reconciles::<ReplicaSet>());
    assert_eq!(notes.until(1).await, ["a/old"]);
    add(&world.sets, "a/new", 3, "");
    assert_eq!(notes.until(2).await, ["a/old", "a/new"]);
    assert!(world.stop().await[0].is_ok());
}

/// RS3: a child wakes its owner and no other; WQ2: a change that concerns nobody wakes nobody.
#[tokio::test(start_paused = true)]
async fn a_child_wakes_its_controller_and_nobody_else() {
    let mut world = World::new();
    let notes = Notes::new();
    world.start(Controller::new("test", notes.clone()).owns::<ReplicaSet, Pod>());
    add(&world.pods, "a/orphan", 2, "");
    add(&world.pods, "a/web-1", 3, "web");
    assert_eq!(notes.until(1).await, ["a/web"]);
    let (old, new) = (object("a/web-1", 3, "web"), object("a/web-1", 4, "other"));
    world
        .pods
        .apply(vec![Change::Modified { old, new }], ResourceVersion(4));
    assert_eq!(notes.until(3).await[1..], ["a/web", "a/other"]);
}

/// WQ6: an error comes back later and later; success ends it.
#[tokio::test(start_paused = true)]
async fn wq6_a_failed_key_is_tried_again() {
    let mut world = World::new();
    add(&world.sets, "a/x", 2, "");
    let notes = Notes::answering(|number| match number {
        0..3 => Err(Error::failed("not yet")),
        _ => Ok(Next::Done),
    });
    let start = tokio::time::Instant::now();
    world.start(Controller::new("test", notes.clone()).reconciles::<ReplicaSet>());
    notes.until(4).await;
    assert_eq!(start.elapsed().as_millis(), 5 + 10 + 20);
    let text = world.context.metrics.to_text();
    world.stop().await;
    assert!(
        text.contains("setpoint_controller_reconciles_total{controller=\"test\",result=\"error\"} 3"),
        "{text}"
    );
    assert!(
        text.contains("workqueue_retries_total{name=\"test\"} 3"),
        "{text}"
    );
}

/// WQ7, TR2: looking again later is no failure.
#[tokio::test(start_paused = true)]
async fn wq7_a_key_comes_back_when_it_asks_to() {
    let mut world = World::new();
    add(&world.sets, "a/x", 2, "");
    let notes = Notes::answering(|_| Ok(Next::After(Duration::from_secs(60))));
    let start = tokio::time::Instant::now();
    world.start(Controller::new("test", notes.clone()).reconciles::<ReplicaSet>());
    notes.until(5).await;
    assert_eq!(start.elapsed().as_secs(), 240);
}

/// OC8: a conflict is counted apart and tried again.
#[tokio::test(start_paused = true)]
async fn oc8_a_lost_race_is_run_again() {
    let mut world = World::new();
    add(&world.sets, "a/x", 2, "");
    let notes = Notes::answering(|number| match number {
        0 => Err(Status::modified(&sets(), "x").into()),
        _ => Ok(Next::Done),
    });
    world.start(Controller::new("test", notes.clone()).reconciles::<ReplicaSet>());
    notes.until(2).await;
    assert!(world.context.metrics.to_text().contains("result=\"conflict\"} 1"));
}

#[tokio::test(start_paused = true)]
async fn a_terminal_error_is_not_tried_again_but_a_change_is_seen() {
    let mut world = World::new();
    add(&world.sets, "a/x", 2, "");
    let notes = Notes::answering(|_| Err(Error::terminal("the spec makes no sense")));
    world.start(Controller::new("test", notes.clone()).reconciles::<ReplicaSet>());
    notes.until(1).await;
    tokio::time::advance(Duration::from_secs(3600)).await;
    add(&world.sets, "a/y", 3, "");
    assert_eq!(notes.until(2).await, ["a/x", "a/y"]);
}

/// A panic ends one reconcile, not the controller, and its key is tried again.
#[tokio::test(start_paused = true)]
async fn a_panic_is_one_reconciles_own() {
    let mut world = World::new();
    add(&world.sets, "a/x", 2, "");
    let notes = Notes::answering(|number| match number {
        0 => panic!("out of words"),
        _ => Ok(Next::Done),
    });
    world.start(
        Controller::new("test", notes.clone())
            .reconciles::<ReplicaSet>()
            .workers(1),
    );
    assert_eq!(notes.until(2).await, ["a/x", "a/x"]);
    assert!(world.context.metrics.to_text().contains("result=\"panic\"} 1"));
    assert!(world.stop().await[0].is_ok());
}

/// TR5, IN13: with nothing happening at all, everything is looked at again.
#[tokio::test(start_paused = true)]
async fn tr5_a_resync_wakes_everything() {
    let mut world = World::new();
    add(&world.sets, "a/x", 2, "");
    add(&world.sets, "a/y", 3, "");
    let notes = Notes::new();
    let start = tokio::time::Instant::now();
    let controller = Controller::new("test", notes.clone()).reconciles::<ReplicaSet>();
    world.start(controller.resync_every(Duration::from_secs(300)).workers(1));
    assert_eq!(notes.until(6).await, ["a/x", "a/y", "a/x", "a/y", "a/x", "a/y"]);
    assert_eq!(start.elapsed().as_secs(), 600);
}

/// TR5: a controller that says nothing of it goes by its process. One that mirrors a server looks at everything again every
/// ten hours, a tenth more or less, unless it is told otherwise.
#[tokio::test(start_paused = true)]
async fn tr5_a_process_of_its_own_looks_at_everything_again_every_ten_hours() {
    let mut manager = crate::Manager::unconnected();
    let mut world = World::new();
    assert_eq!(world.context.resync, None);
    world.context.resync = manager.context().resync;
    add(&world.sets, "a/x", 2, "");
    let (notes, start) = (Notes::new(), tokio::time::Instant::now());
    world.start(Controller::new("test", notes.clone()).reconciles::<ReplicaSet>());
    notes.until(2).await;
    let hours = start.elapsed().as_secs_f64() / 3600.0;
    assert!((9.0..=11.0).contains(&hours), "{hours}");
    manager.resync_every(None);
    assert_eq!(manager.context().resync, None);
}

/// TR4: an informer that missed changes wakes all, so the owner of what went unseen is woken, too.
#[tokio::test(start_paused = true)]
async fn tr4_after_a_gap_everything_is_woken() {
    let mut world = World::new();
    add(&world.sets, "a/web", 2, "");
    add(&world.pods, "a/web-1", 3, "web");
    let notes = Notes::new();
    let controller = Controller::new("test", notes.clone()).reconciles::<ReplicaSet>();
    world.start(controller.owns::<ReplicaSet, Pod>());
    notes.until(1).await;
    // The deletion is forgotten before the informer has a chance to read it.
    let (old, last) = (object("a/web-1", 3, "web"), object("a/web-1", 4, "web"));
    world
        .pods
        .apply(vec![Change::Deleted { old, last }], ResourceVersion(4));
    world.pods.trim(ResourceVersion(4));
    assert_eq!(notes.until(2).await, ["a/web", "a/web"]);
}

/// WQ3, WQ8: so many at a time; a stop lets them finish and starts no more.
#[tokio::test(start_paused = true)]
async fn wq8_a_stop_lets_running_reconciles_finish() {
    struct Slow(Arc<AtomicUsize>, Arc<AtomicUsize>, Arc<dyn setpoint_api::Clock>);
    impl Reconcile for Slow {
        async fn reconcile(&self, _: &Key) -> Result<Next, Error> {
            self.0.fetch_add(1, Ordering::SeqCst);
            self.2.sleep(Duration::from_secs(10)).await;
            self.1.fetch_add(1, Ordering::SeqCst);
            Ok(Next::Done)
        }
    }
    let mut world = World::new();
    (0..8).for_each(|i| add(&world.sets, &format!("a/{i}"), 2 + i, ""));
    let (started, finished) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let slow = Slow(started.clone(), finished.clone(), world.context.clock.clone());
    world.start(
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
        world
            .context
            .metrics
            .to_text()
            .contains("active_workers{controller=\"test\"} 3")
    );
    assert!(world.stop().await[0].is_ok());
    assert_eq!(
        (started.load(Ordering::SeqCst), finished.load(Ordering::SeqCst)),
        (6, 6)
    );
}

#[tokio::test(start_paused = true)]
async fn a_controller_of_something_that_is_not_served_fails() {
    let mut world = World::new();
    let controller =
        Controller::new("test", Notes::new()).watches(GroupResource::new("x.io", "things"), itself);
    world.start(controller);
    let ended = world.stop().await;
    assert_eq!(
        ended[0].as_ref().unwrap_err().to_string(),
        "resource things.x.io is not served"
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_reconciled_before_the_caches_are_filled() {
    let mut world = World::new();
    let nodes = GroupResource::new("", "nodes");
    let cache = Arc::new(Cache::new(nodes.clone()));
    let caches = BTreeMap::from([(sets(), world.sets.clone()), (nodes.clone(), cache.clone())]);
    world.context.caches = Arc::new(Local(caches));
    add(&world.sets, "a/x", 2, "");
    let notes = Notes::new();
    world.start(
        Controller::new("test", notes.clone())
            .reconciles::<ReplicaSet>()
            .reads(nodes),
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(notes.seen.lock().is_empty());
    cache.replace(Vec::new(), ResourceVersion(2));
    assert_eq!(notes.until(1).await, ["a/x"]);
}

/// Creates a pod whenever the cache shows none.
struct Creator {
    pods: Lister<Pod>,
    client: Client,
    runs: Arc<AtomicUsize>,
}

impl Reconcile for Creator {
    async fn reconcile(&self, _: &Key) -> Result<Next, Error> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        if self.pods.list().is_empty() {
            self.client.namespaced::<Pod>("a").create(&Pod::default()).await?;
        }
        Ok(Next::Done)
    }
}

/// RS7: with the watch of pods frozen a hundred wake-ups make no second pod.
#[tokio::test(start_paused = true)]
async fn rs7_a_key_is_held_until_its_own_writes_are_seen() {
    let created = Arc::new(AtomicUsize::new(0));
    let count = created.clone();
    let mut world = World::with_server(move |_: Request| -> Reply<'static> {
        count.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(Response::of(Body::Object(object("a/pod", 10, "")))) })
    });
    let runs = Arc::new(AtomicUsize::new(0));
    let creator = Creator {
        pods: world.context.lister().unwrap(),
        client: world.context.client.clone(),
        runs: runs.clone(),
    };
    let controller = Controller::new("test", creator).reconciles::<ReplicaSet>();
    world.start(controller.reads(pods()).limits(Limits::PER_ITEM));
    add(&world.sets, "a/x", 2, "");
    for version in 3..103 {
        let (old, new) = (object("a/x", version - 1, ""), object("a/x", version, ""));
        world
            .sets
            .apply(vec![Change::Modified { old, new }], ResourceVersion(version));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(
        (created.load(Ordering::SeqCst), runs.load(Ordering::SeqCst)),
        (1, 1)
    );
    add(&world.pods, "a/pod", 10, "");
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(
        (created.load(Ordering::SeqCst), runs.load(Ordering::SeqCst)),
        (1, 2)
    );
    assert!(
        world
            .context
            .metrics
            .to_text()
            .contains("held_total{controller=\"test\"} 1")
    );
}

/// TR6: so many slow reconciles take as many rounds as there are fewer workers than keys.
#[tokio::test(start_paused = true)]
async fn tr6_more_workers_finish_sooner() {
    struct Slow(Notes, Arc<dyn setpoint_api::Clock>);
    impl Reconcile for Slow {
        async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
            self.1.sleep(Duration::from_secs(1)).await;
            self.0.reconcile(key).await
        }
    }
    for (workers, seconds) in [(1, 20), (5, 4), (20, 1)] {
        let mut world = World::new();
        (0..20).for_each(|i| add(&world.sets, &format!("a/{i}"), 2 + i, ""));
        let (notes, start) = (Notes::new(), tokio::time::Instant::now());
        let slow = Slow(notes.clone(), world.context.clock.clone());
        let controller = Controller::new("test", slow).reconciles::<ReplicaSet>();
        world.start(controller.workers(workers));
        notes.until(20).await;
        assert_eq!(start.elapsed().as_secs(), seconds, "{workers} workers");
    }
}

/// Keys may come from anywhere.
#[tokio::test(start_paused = true)]
async fn a_key_from_a_channel_is_reconciled() {
    let mut world = World::new();
    let (notes, (sender, keys)) = (Notes::new(), mpsc::channel(1));
    let controller = Controller::new("test", notes.clone()).reconciles::<ReplicaSet>();
    world.start(controller.woken_by(keys));
    sender.send(Key::new("a", "hook")).await.unwrap();
    assert_eq!(notes.until(1).await, ["a/hook"]);
    drop(sender);
    add(&world.sets, "a/x", 2, "");
    assert_eq!(notes.until(2).await, ["a/hook", "a/x"]);
    assert!(world.stop().await[0].is_ok());
}
