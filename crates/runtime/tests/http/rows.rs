//! The rows of list-watch, queue and loop over HTTPS: what `tests/cluster` and the crates' own tests show in process holds
//! for one who has nothing but an address, too. Time passes by itself here, so nothing is waited for but the thing.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use parking_lot::Mutex;
use setpoint_api::{Key, Status};
use setpoint_client::Object;
use setpoint_runtime::factory::Wishes;
use setpoint_runtime::informer::Notice;
use setpoint_runtime::reconcile::{Error, Next, Reconcile};
use setpoint_runtime::reflector::Scope;
use setpoint_runtime::{Lister, Manager, Predicate, for_, retry_on_conflict};
use setpoint_testkit::{RunningPart, config_map};
use tokio::sync::{Barrier, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::far::{Far, until};
use crate::{Running, clock, in_time, names, until_told};

/// IN1, IN2, IN8, IN15: one request, which lists and then watches, serves all who ask for the same, with the same object.
#[tokio::test]
async fn in15_one_watch_over_https_serves_all_who_ask() {
    let far = Far::open().await;
    far.create("x").await;
    let running = Running::over(far.client.clone());
    let (first, second) = (
        running.factory.of::<ConfigMap>(),
        running.factory.of::<ConfigMap>(),
    );
    assert!(Arc::ptr_eq(&first, &second));
    in_time(running.factory.synced()).await;
    let key = Key::new("default", "x");
    let (one, other) = (
        first.cache().find(&key).unwrap(),
        second.cache().find(&key).unwrap(),
    );
    assert!(Arc::ptr_eq(&one, &other));
    assert_eq!(far.link.reads(), ["far watch configmaps"]);
}

/// TR1, TR8, IN6, IN19: each write is told once and in order, and whoever is told finds it.
#[tokio::test]
async fn in19_each_write_over_https_is_told_once_in_order_and_is_there() {
    let far = Far::open().await;
    let running = Running::over(far.client.clone());
    let maps = running.factory.of::<ConfigMap>();
    in_time(running.factory.synced()).await;
    let (told, mut versions) = mpsc::channel(100);
    let cache = maps.cache().clone();
    let handler = move |notice: Notice<'_>| {
        if let Notice::Changed(change) = notice {
            let version = change.object().resource_version();
            let kept = cache.find(change.key()).unwrap().resource_version();
            assert!(kept >= version);
            told.try_send(version).unwrap();
        }
    };
    let _place = maps.add_handler(Wishes::default(), handler).unwrap();
    far.create("x").await;
    let mut expected = Vec::new();
    for value in 1..=30 {
        expected.push(far.update("x", &value.to_string()).await);
    }
    let mut seen = vec![in_time(versions.recv()).await.unwrap()];
    while seen.len() <= expected.len() {
        seen.push(in_time(versions.recv()).await.unwrap());
    }
    assert_eq!(seen[1..], expected);
}

/// IN5: a world that has not changed is listed anew, and nobody is told anything.
#[tokio::test]
async fn in5_a_relist_over_https_of_the_same_world_tells_nothing() {
    let far = Far::open().await;
    far.create("x").await;
    let running = Running::over(far.client.clone());
    let scope = Scope {
        namespace: "default".to_owned(),
        relist: Some(Duration::from_millis(20)),
        ..Scope::default()
    };
    let maps = running.factory.informer(ConfigMap::resource(), scope);
    let (mut told, _place) = names(&maps);
    until_told(&mut told, "x").await;
    let (link, before) = (&far.link, far.link.reads().len());
    until(|| link.reads().len() > before + 3).await;
    assert!(told.try_recv().is_err());
}

/// IN7, IN10, WQ5: reading makes no request, and a namespace is read without its neighbours.
#[tokio::test]
async fn in10_reading_what_came_over_https_makes_no_request() {
    let far = Far::open().await;
    let mut other = Namespace::default();
    other.metadata.name = Some("other".to_owned());
    let local = far.cluster.client("test");
    local.all().create(&other).await.unwrap();
    far.create("x").await;
    let mut map = config_map("y", "v", "1");
    map.metadata.namespace = Some("other".to_owned());
    local.namespaced("other").create(&map).await.unwrap();
    let running = Running::over(far.client.clone());
    let maps: Lister<ConfigMap> = running.factory.lister();
    in_time(running.factory.synced()).await;
    far.link.clear();
    let key = Key::new("other", "y");
    for _ in 0..10_000 {
        assert!(maps.find(&key).is_some());
    }
    let found = maps.in_namespace("other");
    assert!(found.iter().all(|map| map.key().namespace() == "other") && !found.is_empty());
    assert!(far.link.reads().is_empty());
}

/// TR2, TR5, IN13, IN14: everything is told again at each handler's own period, though nothing happens and nothing is asked.
#[tokio::test]
async fn in13_a_resync_of_what_came_over_https_asks_for_nothing() {
    let far = Far::open().await;
    far.create("x").await;
    let running = Running::over(far.client.clone());
    let maps = running.factory.of::<ConfigMap>();
    in_time(running.factory.synced()).await;
    far.link.clear();
    let (told, mut again) = mpsc::channel(100);
    let wishes = Wishes {
        resync: Some(Duration::from_secs(1)),
        ..Wishes::default()
    };
    let handler = move |notice: Notice<'_>| {
        if let Notice::Present(map) = notice
            && map.key().name() == "x"
        {
            told.try_send(()).ok();
        }
    };
    let _place = maps.add_handler(wishes, handler).unwrap();
    for _ in 0..3 {
        in_time(again.recv()).await.unwrap();
    }
    assert!(far.link.reads().is_empty());
}

/// IN16: handlers come and go at any time, and one that has gone is told nothing.
#[tokio::test]
async fn in16_handlers_of_what_comes_over_https_come_and_go() {
    let far = Far::open().await;
    let running = Running::over(far.client.clone());
    let maps = running.factory.of::<ConfigMap>();
    let (mut first, first_place) = names(&maps);
    far.create("a").await;
    until_told(&mut first, "a").await;
    let (mut second, _second_place) = names(&maps);
    until_told(&mut second, "a").await;
    drop(first_place);
    far.create("b").await;
    until_told(&mut second, "b").await;
    in_time(async { while first.recv().await.is_some() {} }).await;
}

/// What a reconciler does at its first, second, ... call for a key.
type Act = Box<dyn Fn(usize) -> Result<Next, Error> + Send + Sync>;

/// Says which keys it is given, and acts.
struct Acting {
    told: mpsc::Sender<String>,
    calls: Mutex<usize>,
    act: Act,
}

impl Acting {
    fn new(
        act: impl Fn(usize) -> Result<Next, Error> + Send + Sync + 'static,
    ) -> (Self, mpsc::Receiver<String>) {
        let (told, keys) = mpsc::channel(100);
        let (calls, act) = (Mutex::new(0), Box::new(act));
        (Self { told, calls, act }, keys)
    }
}

impl Reconcile for Acting {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let call = {
            let mut calls = self.calls.lock();
            *calls += 1;
            *calls
        };
        self.told
            .try_send(key.to_string())
            .expect("a test reads what it is told");
        (self.act)(call)
    }
}

/// CL2, TR1, WQ2: an edit wakes its key by the watch that is open; what is filtered out wakes nobody.
#[tokio::test]
async fn cl2_an_edit_wakes_its_key_over_https_without_a_request() {
    let far = Far::open().await;
    let (acting, mut keys) = Acting::new(|_| Ok(Next::Done));
    let mut manager = Manager::remote(far.client.clone(), clock());
    let matters = Predicate::new(|change| change.key().name().starts_with("web"));
    manager.control(
        for_::<ConfigMap>()
            .named("idle")
            .when(matters)
            .reconciles_with(acting),
    );
    let _running = RunningPart::of(manager);
    far.create("web-1").await;
    assert_eq!(in_time(keys.recv()).await.as_deref(), Some("default/web-1"));
    far.link.clear();
    far.create("other").await;
    far.update("web-1", "2").await;
    assert_eq!(in_time(keys.recv()).await.as_deref(), Some("default/web-1"));
    assert!(far.link.reads().is_empty(), "{:?}", far.link.reads());
}

/// CL3, TR2, WQ6, WQ7, OC8: a failure and a lost race bring the key back, as does the wish to look again.
#[tokio::test]
async fn wq6_a_key_that_failed_over_https_comes_back() {
    let far = Far::open().await;
    let resource = ConfigMap::resource().group_resource();
    let (acting, mut keys) = Acting::new(move |call| match call {
        1 => Err(Error::failed("elsewhere is nobody at home")),
        2 => Err(Status::modified(&resource, "x").into()),
        3 => Ok(Next::After(Duration::from_millis(20))),
        _ => Ok(Next::Done),
    });
    let mut manager = Manager::remote(far.client.clone(), clock());
    let only_x = Predicate::new(|change| change.key().name() == "x");
    manager.control(
        for_::<ConfigMap>()
            .named("stubborn")
            .when(only_x)
            .reconciles_with(acting),
    );
    let metrics = manager.context().metrics.clone();
    let _running = RunningPart::of(manager);
    far.create("x").await;
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

/// Comes to an end only when so many run at a time.
struct Together {
    barrier: Barrier,
    active: Mutex<HashSet<Key>>,
    done: Arc<Mutex<usize>>,
}

impl Reconcile for Together {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        assert!(self.active.lock().insert(key.clone()), "two have {key}");
        self.barrier.wait().await;
        self.active.lock().remove(key);
        *self.done.lock() += 1;
        Ok(Next::Done)
    }
}

/// TR6, WQ3, WQ4, WQ8: as many keys are worked on as there are workers, none by two, and a stop waits for them.
#[tokio::test]
async fn wq4_workers_over_https_share_the_keys() {
    let far = Far::open().await;
    let done: Arc<Mutex<usize>> = Arc::default();
    let together = Together {
        barrier: Barrier::new(4),
        active: Mutex::default(),
        done: done.clone(),
    };
    let mut manager = Manager::remote(far.client.clone(), clock());
    let ours = Predicate::new(|change| change.key().namespace() == "default");
    manager.control(
        for_::<ConfigMap>()
            .named("pool")
            .workers(4)
            .when(ours)
            .reconciles_with(together),
    );
    let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
    running.spawn(manager.run(stop.clone()));
    for number in 0..12 {
        far.create(&format!("map-{number}")).await;
    }
    until(|| *done.lock() == 12).await;
    stop.cancel();
    in_time(running.join_next()).await.unwrap().unwrap().unwrap();
}

/// OC5, OC8: those who lose a race read anew and try again; nothing is lost.
#[tokio::test]
async fn oc5_ten_who_count_up_over_https_lose_nothing() {
    let far = Far::open().await;
    far.create("count").await;
    let mut counting = JoinSet::new();
    for _ in 0..10 {
        let maps = far.client.namespaced::<ConfigMap>("default");
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
    let count: ConfigMap = far.cluster.find("count").unwrap();
    assert_eq!(count.data.unwrap()["v"], "10");
}

/// TO5: what a controller watches besides wakes the keys that its author says.
#[tokio::test]
async fn to5_what_is_watched_over_https_wakes_what_it_is_mapped_to() {
    let far = Far::open().await;
    let (acting, mut keys) = Acting::new(|_| Ok(Next::Done));
    let mut manager = Manager::remote(far.client.clone(), clock());
    let never = Predicate::new(|_| false);
    manager.control(
        for_::<ConfigMap>()
            .named("mapped")
            .when(never)
            .watches::<Secret>(|change| vec![Key::new("default", &format!("of-{}", change.key().name()))])
            .reconciles_with(acting),
    );
    let _running = RunningPart::of(manager);
    let mut secret = Secret::default();
    secret.metadata.name = Some("x".to_owned());
    far.cluster
        .client("test")
        .namespaced("default")
        .create(&secret)
        .await
        .unwrap();
    in_time(async { while keys.recv().await.unwrap() != "default/of-x" {} }).await;
}
