//! Shared informers.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Change, Stored};
use setpoint_cache::Limits;
use setpoint_client::{Handle, Object};
use setpoint_runtime::factory::{Factory, Stopped, Wishes};
use setpoint_runtime::informer::Notice;
use setpoint_runtime::reflector::Scope;
use setpoint_runtime::{Caches, reconcile::Error};
use setpoint_testkit::{Cluster, config_map};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

struct World {
    cluster: Cluster,
    factory: Factory,
    stop: CancellationToken,
    running: JoinSet<Result<(), Error>>,
}

impl World {
    async fn start() -> Self {
        Self::with_limits(Limits::default()).await
    }

    async fn with_limits(limits: Limits) -> Self {
        let cluster = Cluster::start().await;
        let clock = Arc::new(cluster.clock.clone());
        let factory = Factory::new(cluster.client("informer"), clock).with_limits(limits);
        let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
        let (own, token) = (factory.clone(), stop.clone());
        running.spawn(async move { own.run(token).await });
        Self {
            cluster,
            factory,
            stop,
            running,
        }
    }

    fn maps(&self) -> Handle<ConfigMap> {
        self.cluster.client("test").namespaced("default")
    }

    async fn create(&self, name: &str) {
        self.maps().create(&config_map(name, "v", "")).await.unwrap();
    }

    /// Sets the one entry of a map.
    async fn edit(&self, name: &str, value: &str) {
        let mut map = self.maps().get(name).await.unwrap().to_owned().unwrap();
        map.data.get_or_insert_default().insert("v".into(), value.into());
        self.maps().update(&map).await.unwrap();
    }

    async fn delete(&self, name: &str) {
        self.maps().delete(name, DeleteOptions::default()).await.unwrap();
    }
}

/// Writes down what it is told: `=x` present, `+x`, `~x`, `-x`, `?` a gap.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn handler(&self) -> impl FnMut(Notice<'_>) + Send + 'static {
        let entries = self.0.clone();
        move |notice| {
            let entry = match notice {
                Notice::Present(object) => format!("={}", object.key().name()),
                Notice::Changed(Change::Added(new)) => format!("+{}", new.key().name()),
                Notice::Changed(Change::Modified { new, .. }) => format!("~{}", new.key().name()),
                Notice::Changed(Change::Deleted { last, .. }) => format!("-{}", last.key().name()),
                Notice::Gap => "?".to_owned(),
            };
            entries.lock().push(entry);
        }
    }

    /// What was written since the last look.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// IN8, IN15: two who ask for the same have the same; the server sees one watch.
#[tokio::test]
async fn in15_whoever_asks_for_the_same_gets_the_same_informer() {
    let world = World::start().await;
    let (one, two) = (world.factory.of::<ConfigMap>(), world.factory.of::<ConfigMap>());
    let selected = Scope {
        labels: "app=web".parse().unwrap(),
        ..Scope::default()
    };
    let other = world.factory.informer(ConfigMap::resource(), selected);
    world.create("x").await;
    world.factory.synced().await;
    world.cluster.settle().await;
    assert!(Arc::ptr_eq(&one, &two) && !Arc::ptr_eq(&one, &other));
    let key = "default/x".parse().unwrap();
    let (first, second) = (one.cache().find(&key).unwrap(), two.cache().find(&key).unwrap());
    assert!(Arc::ptr_eq(&first, &second));
    assert!(other.has_synced() && other.cache().find(&key).is_none());
    let maps = ConfigMap::resource().group_resource();
    assert!(Arc::ptr_eq(&world.factory.cache(&maps).unwrap(), one.cache()));
}

/// IN16: before the start, after it, and removed again.
#[tokio::test]
async fn in16_handlers_come_and_go_at_any_time() {
    let world = World::start().await;
    let informer = world.factory.of::<ConfigMap>();
    let (early, late) = (Diary::default(), Diary::default());
    let first = informer.add_handler(Wishes::default(), early.handler()).unwrap();
    first.synced().await;
    early.take();
    world.create("x").await;
    world.cluster.settle().await;
    let second = informer.add_handler(Wishes::default(), late.handler()).unwrap();
    second.synced().await;
    assert!(second.has_synced());
    assert!(late.take().contains(&"=x".to_owned()));
    world.edit("x", "1").await;
    world.cluster.settle().await;
    assert_eq!(
        (early.take().join(" "), late.take().join(" ")),
        ("+x ~x".into(), "~x".into())
    );
    first.remove().await;
    world.delete("x").await;
    world.cluster.settle().await;
    assert_eq!((early.take().len(), late.take().join(" ")), (0, "-x".into()));
}

/// IN13, IN16: each has its own period, and no request is made.
#[tokio::test]
async fn in13_each_handler_is_told_again_at_its_own_period() {
    let world = World::start().await;
    world.create("x").await;
    let only: setpoint_runtime::informer::Filter = Arc::new(|object: &Stored| object.key().name() == "x");
    let informer = world.factory.of::<ConfigMap>();
    let wishes = |seconds: Option<u64>| Wishes {
        resync: seconds.map(Duration::from_secs),
        only: Some(only.clone()),
        ..Wishes::default()
    };
    let (often, never) = (Diary::default(), Diary::default());
    let first = informer.add_handler(wishes(Some(30)), often.handler()).unwrap();
    let second = informer.add_handler(wishes(None), never.handler()).unwrap();
    first.synced().await;
    second.synced().await;
    assert_eq!(
        (often.take(), never.take()),
        (vec!["=x".to_owned()], vec!["=x".to_owned()])
    );
    world.cluster.advance(Duration::from_secs(95)).await;
    assert_eq!(
        (often.take().join(" "), never.take().len()),
        ("=x =x =x".to_owned(), 0)
    );
}

/// IN16: what begins to match is added for the handler, what ceases to is deleted.
#[tokio::test]
async fn a_filtered_handler_sees_objects_come_and_go_by_its_filter() {
    let world = World::start().await;
    let wants: setpoint_runtime::informer::Filter =
        Arc::new(|object: &Stored| String::from_utf8_lossy(object.json()).contains("\"v\":\"yes\""));
    let diary = Diary::default();
    let wishes = Wishes {
        only: Some(wants),
        ..Wishes::default()
    };
    let registration = world
        .factory
        .of::<ConfigMap>()
        .add_handler(wishes, diary.handler());
    registration.as_ref().unwrap().synced().await;
    world.create("x").await;
    for value in ["no", "yes", "yes", "no", "yes"] {
        world.edit("x", value).await;
    }
    world.delete("x").await;
    world.cluster.settle().await;
    assert_eq!(diary.take().join(" "), "+x -x +x -x");
}

#[tokio::test]
async fn a_transformed_cache_keeps_only_what_was_left() {
    let world = World::start().await;
    let strip: setpoint_runtime::delta::Transform = Arc::new(|object: Arc<Stored>| {
        let slim = Stored::new(object.header().clone(), bytes::Bytes::from_static(b"{}"), 1);
        Arc::new(slim)
    });
    let informer = world
        .factory
        .transformed(ConfigMap::resource(), Scope::default(), strip);
    let lengths: Arc<Mutex<Vec<usize>>> = Arc::default();
    let told = lengths.clone();
    let _place = informer.add_handler(Wishes::default(), move |notice| match notice {
        Notice::Present(object) => told.lock().push(object.json().len()),
        Notice::Changed(change) => told.lock().push(change.object().json().len()),
        Notice::Gap => {}
    });
    world.create("x").await;
    world.factory.synced().await;
    world.edit("x", "1").await;
    world.cluster.settle().await;
    let kept = informer.cache().snapshot();
    assert!(!kept.is_empty() && kept.iter().all(|object| object.json().len() == 2));
    lengths.lock().clear();
    world.delete("x").await;
    world.cluster.settle().await;
    assert_eq!(*lengths.lock(), [2], "the last state is stripped, too");
}

/// The rule for a handler that is too slow: it falls out of the bounded window and starts over.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_handler_that_is_too_slow_starts_over_with_what_is_there() {
    let limits = Limits {
        changes: 4,
        ..Limits::default()
    };
    let world = World::with_limits(limits).await;
    world.create("x").await;
    let (slow, quick) = (Diary::default(), Diary::default());
    let informer = world.factory.of::<ConfigMap>();
    let mut tell = slow.handler();
    let (resume, held) = std::sync::mpsc::sync_channel::<()>(0);
    let mut calls = 0;
    // The first call blocks its thread until the test lets it go; others go on meanwhile.
    let blocking = move |notice: Notice<'_>| {
        calls += 1;
        if calls == 1 {
            tokio::task::block_in_place(|| held.recv().unwrap());
        }
        tell(notice);
    };
    let quick_place = informer.add_handler(Wishes::default(), quick.handler()).unwrap();
    let slow_place = informer.add_handler(Wishes::default(), blocking).unwrap();
    quick_place.synced().await;
    for number in 0..10 {
        world.edit("x", &number.to_string()).await;
        let maps = informer.cache().clone();
        let version = world.maps().get("x").await.unwrap().resource_version();
        maps.reached(version).await;
        tokio::task::yield_now().await;
    }
    resume.send(()).unwrap();
    slow_place.synced().await;
    world
        .cluster
        .until("a gap", |_| slow.0.lock().iter().any(|entry| entry == "?"))
        .await;
    world.cluster.settle().await;
    let told = slow.take();
    let gap = told.iter().position(|entry| entry == "?").unwrap();
    assert!(told[gap..].contains(&"=x".to_owned()), "{told:?}");
    assert_eq!(quick.take().iter().filter(|entry| *entry == "~x").count(), 10);
}

/// Quick handlers are told in one go: each of everything, in order, whoever comes, goes or panics beside it.
#[tokio::test]
async fn quick_handlers_are_told_together_and_go_one_by_one() {
    let world = World::start().await;
    let informer = world.factory.of::<ConfigMap>();
    let quick = Wishes {
        is_quick: true,
        ..Wishes::default()
    };
    let diaries: [Diary; 3] = Default::default();
    let mut places = Vec::new();
    for diary in &diaries {
        places.push(informer.add_handler(quick.clone(), diary.handler()).unwrap());
    }
    let panicking = informer.add_handler(quick.clone(), |_| panic!("a handler that dislikes everything"));
    for place in &places {
        place.synced().await;
    }
    diaries.iter().for_each(|diary| drop(diary.take()));
    let mut expected = Vec::new();
    for (round, place) in places.into_iter().enumerate() {
        let name = format!("x{round}");
        world.create(&name).await;
        world.edit(&name, "1").await;
        world.cluster.settle().await;
        expected.extend([format!("+{name}"), format!("~{name}")]);
        for diary in &diaries[round..] {
            assert_eq!(*diary.0.lock(), expected, "round {round}");
        }
        // The first of them polls the others; then the next does.
        place.remove().await;
    }
    for (round, diary) in diaries.iter().enumerate() {
        assert_eq!(
            diary.take(),
            expected[..2 * (round + 1)],
            "nobody hears of what comes after its end"
        );
    }
    drop(panicking);
}

/// A handler that panics loses what it was told of, and nothing else.
#[tokio::test]
async fn a_handler_that_panics_is_called_again() {
    let world = World::start().await;
    let diary = Diary::default();
    let mut tell = diary.handler();
    let handler = move |notice: Notice<'_>| {
        if let Notice::Changed(Change::Added(_)) = notice {
            panic!("a handler that dislikes additions");
        }
        tell(notice);
    };
    let registration = world
        .factory
        .of::<ConfigMap>()
        .add_handler(Wishes::default(), handler);
    registration.as_ref().unwrap().synced().await;
    diary.take();
    world.create("x").await;
    world.edit("x", "1").await;
    world.cluster.settle().await;
    assert_eq!(diary.take(), ["~x"]);
}

#[tokio::test]
async fn a_factory_that_has_stopped_takes_no_handlers() {
    let mut world = World::start().await;
    let informer = world.factory.of::<ConfigMap>();
    world.stop.cancel();
    world.running.join_next().await.unwrap().unwrap().unwrap();
    let refused = informer.add_handler(Wishes::default(), |_| {});
    assert_eq!(refused.map(drop), Err(Stopped));
}
