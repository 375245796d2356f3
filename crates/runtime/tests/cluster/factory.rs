//! Shared informers.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Change, Stored};
use setpoint_cache::Limits;
use setpoint_client::{Api, Object};
use setpoint_runtime::factory::{HandlerOptions, InformerStopped, SharedInformerFactory};
use setpoint_runtime::informer::Event;
use setpoint_runtime::reflector::ReflectorOptions;
use setpoint_runtime::{Caches, reconcile::Error};
use setpoint_testkit::{Cluster, config_map};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

struct Fixture {
    cluster: Cluster,
    factory: SharedInformerFactory,
    stop: CancellationToken,
    running: JoinSet<Result<(), Error>>,
}

impl Fixture {
    async fn start() -> Self {
        Self::with_limits(Limits::default()).await
    }

    async fn with_limits(limits: Limits) -> Self {
        let cluster = Cluster::start().await;
        let clock = Arc::new(cluster.clock.clone());
        let factory = SharedInformerFactory::new(cluster.client("informer"), clock).with_limits(limits);
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

    fn maps(&self) -> Api<ConfigMap> {
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

/// Records events: `=x` present, `+x`, `~x`, `-x`, `?` a gap.
#[derive(Clone, Default)]
struct EventLog(Arc<Mutex<Vec<String>>>);

impl EventLog {
    fn handler(&self) -> impl FnMut(Event<'_>) + Send + 'static {
        let entries = self.0.clone();
        move |event| {
            let entry = match event {
                Event::Present(object) => format!("={}", object.key().name()),
                Event::Changed(Change::Added(new)) => format!("+{}", new.key().name()),
                Event::Changed(Change::Modified { new, .. }) => format!("~{}", new.key().name()),
                Event::Changed(Change::Deleted { last, .. }) => format!("-{}", last.key().name()),
                Event::Gap => "?".to_owned(),
            };
            entries.lock().push(entry);
        }
    }

    /// The events since the last call.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// IN8, IN15: equal requests get the same informer; the server sees one watch.
#[tokio::test]
async fn in15_equal_requests_get_the_same_informer() {
    let fixture = Fixture::start().await;
    let (one, two) = (
        fixture.factory.informer_for::<ConfigMap>(),
        fixture.factory.informer_for::<ConfigMap>(),
    );
    let selected = ReflectorOptions {
        labels: "app=web".parse().unwrap(),
        ..ReflectorOptions::default()
    };
    let other = fixture.factory.informer(ConfigMap::resource(), selected);
    fixture.create("x").await;
    fixture.factory.synced().await;
    fixture.cluster.settle().await;
    assert!(Arc::ptr_eq(&one, &two) && !Arc::ptr_eq(&one, &other));
    let key = "default/x".parse().unwrap();
    let (first, second) = (one.cache().find(&key).unwrap(), two.cache().find(&key).unwrap());
    assert!(Arc::ptr_eq(&first, &second));
    assert!(other.has_synced() && other.cache().find(&key).is_none());
    let maps = ConfigMap::resource().group_resource();
    assert!(Arc::ptr_eq(&fixture.factory.cache(&maps).unwrap(), one.cache()));
}

/// IN16: before the start, after it, and removed again.
#[tokio::test]
async fn in16_handlers_are_added_and_removed_at_any_time() {
    let fixture = Fixture::start().await;
    let informer = fixture.factory.informer_for::<ConfigMap>();
    let (early, late) = (EventLog::default(), EventLog::default());
    let first = informer
        .add_handler(HandlerOptions::default(), early.handler())
        .unwrap();
    first.synced().await;
    early.take();
    fixture.create("x").await;
    fixture.cluster.settle().await;
    let second = informer
        .add_handler(HandlerOptions::default(), late.handler())
        .unwrap();
    second.synced().await;
    assert!(second.has_synced());
    assert!(late.take().contains(&"=x".to_owned()));
    fixture.edit("x", "1").await;
    fixture.cluster.settle().await;
    assert_eq!(
        (early.take().join(" "), late.take().join(" ")),
        ("+x ~x".into(), "~x".into())
    );
    first.remove().await;
    fixture.delete("x").await;
    fixture.cluster.settle().await;
    assert_eq!((early.take().len(), late.take().join(" ")), (0, "-x".into()));
}

/// IN13, IN16: each has its own period, and no request is made.
#[tokio::test]
async fn in13_each_handler_is_resynced_at_its_own_period() {
    let fixture = Fixture::start().await;
    fixture.create("x").await;
    let only: setpoint_runtime::informer::Filter = Arc::new(|object: &Stored| object.key().name() == "x");
    let informer = fixture.factory.informer_for::<ConfigMap>();
    let options = |seconds: Option<u64>| HandlerOptions {
        resync: seconds.map(Duration::from_secs),
        filter: Some(only.clone()),
        ..HandlerOptions::default()
    };
    let (often, never) = (EventLog::default(), EventLog::default());
    let first = informer.add_handler(options(Some(30)), often.handler()).unwrap();
    let second = informer.add_handler(options(None), never.handler()).unwrap();
    first.synced().await;
    second.synced().await;
    assert_eq!(
        (often.take(), never.take()),
        (vec!["=x".to_owned()], vec!["=x".to_owned()])
    );
    fixture.cluster.advance(Duration::from_secs(95)).await;
    assert_eq!(
        (often.take().join(" "), never.take().len()),
        ("=x =x =x".to_owned(), 0)
    );
}

/// IN16: an object that starts to match is added for the handler, one that no longer matches is deleted.
#[tokio::test]
async fn a_filtered_handler_sees_objects_come_and_go_by_its_filter() {
    let fixture = Fixture::start().await;
    let wants: setpoint_runtime::informer::Filter =
        Arc::new(|object: &Stored| String::from_utf8_lossy(object.json()).contains("\"v\":\"yes\""));
    let log = EventLog::default();
    let options = HandlerOptions {
        filter: Some(wants),
        ..HandlerOptions::default()
    };
    let registration = fixture
        .factory
        .informer_for::<ConfigMap>()
        .add_handler(options, log.handler());
    registration.as_ref().unwrap().synced().await;
    fixture.create("x").await;
    for value in ["no", "yes", "yes", "no", "yes"] {
        fixture.edit("x", value).await;
    }
    fixture.delete("x").await;
    fixture.cluster.settle().await;
    assert_eq!(log.take().join(" "), "+x -x +x -x");
}

#[tokio::test]
async fn a_transform_decides_what_is_cached() {
    let fixture = Fixture::start().await;
    let strip: setpoint_runtime::delta::Transform = Arc::new(|object: Arc<Stored>| {
        let slim = Stored::new(object.header().clone(), bytes::Bytes::from_static(b"{}"), 1);
        Arc::new(slim)
    });
    let informer =
        fixture
            .factory
            .informer_with_transform(ConfigMap::resource(), ReflectorOptions::default(), strip);
    let lengths: Arc<Mutex<Vec<usize>>> = Arc::default();
    let seen = lengths.clone();
    let _registration = informer.add_handler(HandlerOptions::default(), move |event| match event {
        Event::Present(object) => seen.lock().push(object.json().len()),
        Event::Changed(change) => seen.lock().push(change.object().json().len()),
        Event::Gap => {}
    });
    fixture.create("x").await;
    fixture.factory.synced().await;
    fixture.edit("x", "1").await;
    fixture.cluster.settle().await;
    let kept = informer.cache().snapshot();
    assert!(!kept.is_empty() && kept.iter().all(|object| object.json().len() == 2));
    lengths.lock().clear();
    fixture.delete("x").await;
    fixture.cluster.settle().await;
    assert_eq!(*lengths.lock(), [2], "the last state is stripped, too");
}

/// A handler that is too slow falls out of the bounded window and starts over.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_handler_that_is_too_slow_starts_over_with_the_current_objects() {
    let limits = Limits {
        changes: 4,
        ..Limits::default()
    };
    let fixture = Fixture::with_limits(limits).await;
    fixture.create("x").await;
    let (slow, quick) = (EventLog::default(), EventLog::default());
    let informer = fixture.factory.informer_for::<ConfigMap>();
    let mut handle = slow.handler();
    let (resume, held) = std::sync::mpsc::sync_channel::<()>(0);
    let mut calls = 0;
    // The first call blocks its thread until the test resumes it; other handlers continue meanwhile.
    let blocking = move |event: Event<'_>| {
        calls += 1;
        if calls == 1 {
            tokio::task::block_in_place(|| held.recv().unwrap());
        }
        handle(event);
    };
    let quick_registration = informer
        .add_handler(HandlerOptions::default(), quick.handler())
        .unwrap();
    let slow_registration = informer.add_handler(HandlerOptions::default(), blocking).unwrap();
    quick_registration.synced().await;
    for number in 0..10 {
        fixture.edit("x", &number.to_string()).await;
        let maps = informer.cache().clone();
        let version = fixture.maps().get("x").await.unwrap().resource_version();
        maps.reached(version).await;
        tokio::task::yield_now().await;
    }
    resume.send(()).unwrap();
    slow_registration.synced().await;
    fixture
        .cluster
        .until("a gap", |_| slow.0.lock().iter().any(|entry| entry == "?"))
        .await;
    fixture.cluster.settle().await;
    let events = slow.take();
    let gap = events.iter().position(|entry| entry == "?").unwrap();
    assert!(events[gap..].contains(&"=x".to_owned()), "{events:?}");
    assert_eq!(quick.take().iter().filter(|entry| *entry == "~x").count(), 10);
}

/// Handlers of a shared task each get all events in order, whichever is added, removed or panics beside them.
#[tokio::test]
async fn handlers_of_a_shared_task_are_called_together_and_removed_one_by_one() {
    let fixture = Fixture::start().await;
    let informer = fixture.factory.informer_for::<ConfigMap>();
    let quick = HandlerOptions {
        shared_task: true,
        ..HandlerOptions::default()
    };
    let logs: [EventLog; 3] = Default::default();
    let mut registrations = Vec::new();
    for log in &logs {
        registrations.push(informer.add_handler(quick.clone(), log.handler()).unwrap());
    }
    let panicking = informer.add_handler(quick.clone(), |_| panic!("a handler that dislikes everything"));
    for registration in &registrations {
        registration.synced().await;
    }
    logs.iter().for_each(|log| drop(log.take()));
    let mut expected = Vec::new();
    for (round, registration) in registrations.into_iter().enumerate() {
        let name = format!("x{round}");
        fixture.create(&name).await;
        fixture.edit(&name, "1").await;
        fixture.cluster.settle().await;
        expected.extend([format!("+{name}"), format!("~{name}")]);
        for log in &logs[round..] {
            assert_eq!(*log.0.lock(), expected, "round {round}");
        }
        // The first one's task polls the others; then the next one's does.
        registration.remove().await;
    }
    for (round, log) in logs.iter().enumerate() {
        assert_eq!(
            log.take(),
            expected[..2 * (round + 1)],
            "a removed handler gets no event"
        );
    }
    drop(panicking);
}

/// A handler that panics loses that event only.
#[tokio::test]
async fn a_handler_that_panics_is_called_again() {
    let fixture = Fixture::start().await;
    let log = EventLog::default();
    let mut handle = log.handler();
    let handler = move |event: Event<'_>| {
        if let Event::Changed(Change::Added(_)) = event {
            panic!("a handler that dislikes additions");
        }
        handle(event);
    };
    let registration = fixture
        .factory
        .informer_for::<ConfigMap>()
        .add_handler(HandlerOptions::default(), handler);
    registration.as_ref().unwrap().synced().await;
    log.take();
    fixture.create("x").await;
    fixture.edit("x", "1").await;
    fixture.cluster.settle().await;
    assert_eq!(log.take(), ["~x"]);
}

#[tokio::test]
async fn a_stopped_factory_rejects_handlers() {
    let mut fixture = Fixture::start().await;
    let informer = fixture.factory.informer_for::<ConfigMap>();
    fixture.stop.cancel();
    fixture.running.join_next().await.unwrap().unwrap().unwrap();
    let rejected = informer.add_handler(HandlerOptions::default(), |_| {});
    assert_eq!(rejected.map(drop), Err(InformerStopped));
}
