//! The requirements on list-watch, queue and loop over HTTPS: what `tests/cluster` and the unit tests show in process holds
//! for a remote client, too. The clock is real here, so every wait is for a condition.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use parking_lot::Mutex;
use setpoint_api::{Key, Status};
use setpoint_client::Object;
use setpoint_runtime::factory::HandlerOptions;
use setpoint_runtime::informer::Event;
use setpoint_runtime::reconcile::{Error, Next, Reconcile};
use setpoint_runtime::reflector::ReflectorOptions;
use setpoint_runtime::{Client, Lister, Manager, Predicate, for_, retry_on_conflict};
use setpoint_testkit::{RunningComponent, config_map};
use tokio::sync::{Barrier, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::remote::{RemoteCluster, until};
use crate::{RunningFactory, clock, in_time, names, until_delivered};

/// IN1, IN2, IN8, IN15: one request, which lists and then watches, serves all readers of a resource with the same object.
#[tokio::test]
async fn in15_one_watch_over_https_serves_all_informers() {
    let remote = RemoteCluster::open().await;
    remote.create("x").await;
    let running = RunningFactory::over(remote.client.clone());
    let (first, second) = (
        running.factory.informer_for::<ConfigMap>(),
        running.factory.informer_for::<ConfigMap>(),
    );
    assert!(Arc::ptr_eq(&first, &second));
    in_time(running.factory.synced()).await;
    let key = Key::new("default", "x");
    let (one, other) = (
        first.cache().find(&key).unwrap(),
        second.cache().find(&key).unwrap(),
    );
    assert!(Arc::ptr_eq(&one, &other));
    assert_eq!(remote.link.reads(), ["remote watch configmaps"]);
}

/// TR1, TR8, IN6, IN19: each write is delivered once and in order, and is in the cache then.
#[tokio::test]
async fn in19_each_write_over_https_is_delivered_once_in_order_and_is_cached() {
    let remote = RemoteCluster::open().await;
    let running = RunningFactory::over(remote.client.clone());
    let maps = running.factory.informer_for::<ConfigMap>();
    in_time(running.factory.synced()).await;
    let (sender, mut versions) = mpsc::channel(100);
    let cache = maps.cache().clone();
    let handler = move |event: Event<'_>| {
        if let Event::Changed(change) = event {
            let version = change.object().resource_version();
            let kept = cache.find(change.key()).unwrap().resource_version();
            assert!(kept >= version);
            sender.try_send(version).unwrap();
        }
    };
    let _registration = maps.add_handler(HandlerOptions::default(), handler).unwrap();
    remote.create("x").await;
    let mut expected = Vec::new();
    for value in 1..=30 {
        expected.push(remote.update("x", &value.to_string()).await);
    }
    let mut seen = vec![in_time(versions.recv()).await.unwrap()];
    while seen.len() <= expected.len() {
        seen.push(in_time(versions.recv()).await.unwrap());
    }
    assert_eq!(seen[1..], expected);
}

/// IN5: a relist of an unchanged state delivers nothing.
#[tokio::test]
async fn in5_a_relist_over_https_of_the_same_state_delivers_nothing() {
    let remote = RemoteCluster::open().await;
    remote.create("x").await;
    let running = RunningFactory::over(remote.client.clone());
    let scope = ReflectorOptions {
        namespace: "default".to_owned(),
        relist: Some(Duration::from_millis(20)),
        ..ReflectorOptions::default()
    };
    let maps = running.factory.informer(ConfigMap::resource(), scope);
    let (mut delivered, _registration) = names(&maps);
    until_delivered(&mut delivered, "x").await;
    let (link, before) = (&remote.link, remote.link.reads().len());
    until(|| link.reads().len() > before + 3).await;
    assert!(delivered.try_recv().is_err());
}

/// IN7, IN10, WQ5: reading makes no request, and a namespace is listed without the others.
#[tokio::test]
async fn in10_reading_what_came_over_https_makes_no_request() {
    let remote = RemoteCluster::open().await;
    let mut other = Namespace::default();
    other.metadata.name = Some("other".to_owned());
    let local = remote.cluster.client("test");
    local.all().create(&other).await.unwrap();
    remote.create("x").await;
    let mut map = config_map("y", "v", "1");
    map.metadata.namespace = Some("other".to_owned());
    local.namespaced("other").create(&map).await.unwrap();
    let running = RunningFactory::over(remote.client.clone());
    let maps: Lister<ConfigMap> = running.factory.lister();
    in_time(running.factory.synced()).await;
    remote.link.clear();
    let key = Key::new("other", "y");
    for _ in 0..10_000 {
        assert!(maps.find(&key).is_some());
    }
    let found = maps.in_namespace("other");
    assert!(found.iter().all(|map| map.key().namespace() == "other") && !found.is_empty());
    assert!(remote.link.reads().is_empty());
}

/// TR2, TR5, IN13, IN14: every object is delivered again at each handler's own period, without a change or a request.
#[tokio::test]
async fn in13_a_resync_over_https_sends_no_request() {
    let remote = RemoteCluster::open().await;
    remote.create("x").await;
    let running = RunningFactory::over(remote.client.clone());
    let maps = running.factory.informer_for::<ConfigMap>();
    in_time(running.factory.synced()).await;
    remote.link.clear();
    let (sender, mut again) = mpsc::channel(100);
    let options = HandlerOptions {
        resync: Some(Duration::from_secs(1)),
        ..HandlerOptions::default()
    };
    let handler = move |event: Event<'_>| {
        if let Event::Present(map) = event
            && map.key().name() == "x"
        {
            sender.try_send(()).ok();
        }
    };
    let _registration = maps.add_handler(options, handler).unwrap();
    for _ in 0..3 {
        in_time(again.recv()).await.unwrap();
    }
    assert!(remote.link.reads().is_empty());
}

/// IN16: handlers are added and removed at any time, and a removed one gets nothing.
#[tokio::test]
async fn in16_handlers_over_https_are_added_and_removed() {
    let remote = RemoteCluster::open().await;
    let running = RunningFactory::over(remote.client.clone());
    let maps = running.factory.informer_for::<ConfigMap>();
    let (mut first, first_registration) = names(&maps);
    remote.create("a").await;
    until_delivered(&mut first, "a").await;
    let (mut second, _second_registration) = names(&maps);
    until_delivered(&mut second, "a").await;
    drop(first_registration);
    remote.create("b").await;
    until_delivered(&mut second, "b").await;
    in_time(async { while first.recv().await.is_some() {} }).await;
}

/// The outcome of a reconciler's first, second, ... call.
type Act = Box<dyn Fn(usize) -> Result<Next, Error> + Send + Sync>;

/// Sends the keys it gets to a channel, and returns scripted outcomes.
struct ScriptedReconciler {
    keys_seen: mpsc::Sender<String>,
    calls: Mutex<usize>,
    act: Act,
}

impl ScriptedReconciler {
    fn new(
        act: impl Fn(usize) -> Result<Next, Error> + Send + Sync + 'static,
    ) -> (Self, mpsc::Receiver<String>) {
        let (keys_seen, keys) = mpsc::channel(100);
        let (calls, act) = (Mutex::new(0), Box::new(act));
        (
            Self {
                keys_seen,
                calls,
                act,
            },
            keys,
        )
    }
}

impl Reconcile for ScriptedReconciler {
    async fn reconcile(&self, key: &Key, _: &Client) -> Result<Next, Error> {
        let call = {
            let mut calls = self.calls.lock();
            *calls += 1;
            *calls
        };
        self.keys_seen
            .try_send(key.to_string())
            .expect("the test reads the channel");
        (self.act)(call)
    }
}

/// CL2, TR1, WQ2: an edit enqueues its key by the open watch; a filtered change enqueues nothing.
#[tokio::test]
async fn cl2_an_edit_enqueues_its_key_over_https_without_a_request() {
    let remote = RemoteCluster::open().await;
    let (acting, mut keys) = ScriptedReconciler::new(|_| Ok(Next::Done));
    let mut manager = Manager::remote(remote.client.clone(), clock());
    let matters = Predicate::new(|change| change.key().name().starts_with("web"));
    manager.add_controller(
        for_::<ConfigMap>()
            .named("idle")
            .when(matters)
            .reconciles_with(acting),
    );
    let _running = RunningComponent::of(manager);
    remote.create("web-1").await;
    assert_eq!(in_time(keys.recv()).await.as_deref(), Some("default/web-1"));
    remote.link.clear();
    remote.create("other").await;
    remote.update("web-1", "2").await;
    assert_eq!(in_time(keys.recv()).await.as_deref(), Some("default/web-1"));
    assert!(remote.link.reads().is_empty(), "{:?}", remote.link.reads());
}

/// CL3, TR2, WQ6, WQ7, OC8: a failed key, a conflict and a requeue are reconciled again.
#[tokio::test]
async fn wq6_a_failed_key_over_https_is_retried() {
    let remote = RemoteCluster::open().await;
    let resource = ConfigMap::resource().group_resource();
    let (acting, mut keys) = ScriptedReconciler::new(move |call| match call {
        1 => Err(Error::failed("elsewhere is nobody at home")),
        2 => Err(Status::modified(&resource, "x").into()),
        3 => Ok(Next::After(Duration::from_millis(20))),
        _ => Ok(Next::Done),
    });
    let mut manager = Manager::remote(remote.client.clone(), clock());
    let only_x = Predicate::new(|change| change.key().name() == "x");
    manager.add_controller(
        for_::<ConfigMap>()
            .named("stubborn")
            .when(only_x)
            .reconciles_with(acting),
    );
    let metrics = manager.context().metrics.clone();
    let _running = RunningComponent::of(manager);
    remote.create("x").await;
    for _ in 0..4 {
        assert_eq!(in_time(keys.recv()).await.as_deref(), Some("default/x"));
    }
    let results = [("error", 1), ("conflict", 1), ("success", 2)].map(|(result, count)| {
        format!("setpoint_controller_reconciles_total{{controller=\"stubborn\",result=\"{result}\"}} {count}")
    });
    until(|| {
        let text = metrics.to_text();
        results.iter().all(|line| text.contains(line))
    })
    .await;
}

/// Returns only when so many calls run concurrently.
struct Together {
    barrier: Barrier,
    active: Mutex<HashSet<Key>>,
    done: Arc<Mutex<usize>>,
}

impl Reconcile for Together {
    async fn reconcile(&self, key: &Key, _: &Client) -> Result<Next, Error> {
        assert!(self.active.lock().insert(key.clone()), "two have {key}");
        self.barrier.wait().await;
        self.active.lock().remove(key);
        *self.done.lock() += 1;
        Ok(Next::Done)
    }
}

/// TR6, WQ3, WQ4, WQ8: as many keys are in process as there are workers, none by two, and a stop waits for them.
#[tokio::test]
async fn wq4_workers_over_https_share_the_keys() {
    let remote = RemoteCluster::open().await;
    let done: Arc<Mutex<usize>> = Arc::default();
    let together = Together {
        barrier: Barrier::new(4),
        active: Mutex::default(),
        done: done.clone(),
    };
    let mut manager = Manager::remote(remote.client.clone(), clock());
    let ours = Predicate::new(|change| change.key().namespace() == "default");
    manager.add_controller(
        for_::<ConfigMap>()
            .named("pool")
            .workers(4)
            .when(ours)
            .reconciles_with(together),
    );
    let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
    running.spawn(manager.run(stop.clone()));
    for number in 0..12 {
        remote.create(&format!("map-{number}")).await;
    }
    until(|| *done.lock() == 12).await;
    stop.cancel();
    in_time(running.join_next()).await.unwrap().unwrap().unwrap();
}

/// OC5, OC8: writers with a conflict read again and retry; no update is lost.
#[tokio::test]
async fn oc5_ten_concurrent_counters_over_https_lose_no_update() {
    let remote = RemoteCluster::open().await;
    remote.create("count").await;
    let mut counting = JoinSet::new();
    for _ in 0..10 {
        let maps = remote.client.namespaced::<ConfigMap>("default");
        counting.spawn(async move {
            let counted = retry_on_conflict(1000, async || {
                let mut map = maps.get("count").await?.to_owned()?;
                let count: u32 = map.data.as_ref().unwrap()["v"].parse().unwrap();
                map.data
                    .get_or_insert_default()
                    .insert("v".to_owned(), (count + 1).to_string());
                maps.update(&map).await
            });
            counted.await.unwrap();
        });
    }
    in_time(async {
        while let Some(counted) = counting.join_next().await {
            counted.unwrap();
        }
    })
    .await;
    let count: ConfigMap = remote.cluster.find("count").unwrap();
    assert_eq!(count.data.unwrap()["v"], "10");
}

/// TO5: a change of a watched object enqueues the keys that the map function returns.
#[tokio::test]
async fn to5_a_watched_object_over_https_enqueues_the_mapped_keys() {
    let remote = RemoteCluster::open().await;
    let (acting, mut keys) = ScriptedReconciler::new(|_| Ok(Next::Done));
    let mut manager = Manager::remote(remote.client.clone(), clock());
    let never = Predicate::new(|_| false);
    manager.add_controller(
        for_::<ConfigMap>()
            .named("mapped")
            .when(never)
            .watches::<Secret>(|change| vec![Key::new("default", &format!("of-{}", change.key().name()))])
            .reconciles_with(acting),
    );
    let _running = RunningComponent::of(manager);
    let mut secret = Secret::default();
    secret.metadata.name = Some("x".to_owned());
    remote
        .cluster
        .client("test")
        .namespaced("default")
        .create(&secret)
        .await
        .unwrap();
    in_time(async { while keys.recv().await.unwrap() != "default/of-x" {} }).await;
}
