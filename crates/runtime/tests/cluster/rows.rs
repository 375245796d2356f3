//! The requests of an idle and of a busy controller, and each layer on its own.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use setpoint_api::Key;
use setpoint_api::options::ListOptions;
use setpoint_client::Object;
use setpoint_runtime::factory::{HandlerOptions, SharedInformerFactory};
use setpoint_runtime::informer::{Event, Informer};
use setpoint_runtime::reconcile::{Error, Next, Reconcile};
use setpoint_runtime::reflector::{Reflector, ReflectorOptions};
use setpoint_runtime::{Cache, Client, Lister, Manager, Queue, for_};
use setpoint_testkit::{Cluster, config_map};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Records the keys it gets.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Reconcile for Notes {
    async fn reconcile(&self, key: &Key, _: &Client) -> Result<Next, Error> {
        self.0.lock().push(key.to_string());
        Ok(Next::Done)
    }
}

async fn create(cluster: &Cluster, name: &str) {
    let maps = cluster.client("test").namespaced::<ConfigMap>("default");
    maps.create(&config_map(name, "v", "1")).await.unwrap();
}

/// CL2: nothing but open watches, for ten minutes and longer; then an edit is delivered at once.
#[tokio::test]
async fn cl2_an_idle_controller_sends_no_request_and_gets_an_edit() {
    let cluster = Cluster::start().await;
    let (notes, stop, mut running) = (Notes::default(), CancellationToken::new(), JoinSet::new());
    let mut manager = Manager::remote(cluster.client("idle"), Arc::new(cluster.clock.clone()));
    manager.add_controller(for_::<ConfigMap>().named("idle").reconciles_with(notes.clone()));
    running.spawn(manager.run(stop.clone()));
    create(&cluster, "x").await;
    cluster
        .until("a first look", |_| {
            notes.0.lock().contains(&"default/x".to_owned())
        })
        .await;
    cluster.settle().await;
    cluster.interceptor.clear();
    let before = notes.0.lock().len();
    cluster.advance(Duration::from_secs(660)).await;
    let requests = cluster.interceptor.reads();
    assert!(
        requests.iter().all(|line| line == "idle watch configmaps"),
        "{requests:?}"
    );
    assert!(
        (1..=3).contains(&requests.len()),
        "a watch lasts five to ten minutes: {requests:?}"
    );
    assert_eq!(notes.0.lock().len(), before);
    let at = cluster.revision();
    create(&cluster, "y").await;
    let now = setpoint_api::Clock::now(&cluster.clock);
    cluster.settle().await;
    assert_eq!(notes.0.lock().last().unwrap(), "default/y");
    assert_eq!(
        setpoint_api::Clock::now(&cluster.clock),
        now,
        "no time had to pass"
    );
    assert!(cluster.revision() > at);
}

/// TR7: an idle watch costs the same for any number of objects; polling costs more with each.
#[tokio::test]
async fn tr7_an_idle_watch_costs_nothing_however_many_objects_there_are() {
    let cluster = Cluster::start().await;
    let factory = SharedInformerFactory::new(cluster.client("informer"), Arc::new(cluster.clock.clone()));
    let informer = factory.informer_for::<ConfigMap>();
    let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
    let (own, token) = (factory.clone(), stop.clone());
    running.spawn(async move { own.run(token).await });
    factory.synced().await;
    let (mut polled, mut watched) = (Vec::new(), Vec::new());
    for round in 0..3 {
        for i in 0..50 {
            create(&cluster, &format!("m-{round}-{i}")).await;
        }
        cluster.settle().await;
        let list = ListOptions::default();
        let list = cluster
            .client("poll")
            .all::<ConfigMap>()
            .list(&list)
            .await
            .unwrap();
        polled.push(list.items.iter().map(|map| map.json().len()).sum::<usize>());
        cluster.interceptor.clear();
        let before = informer.cache().sequence();
        cluster.advance(Duration::from_secs(240)).await;
        watched.push((
            informer.cache().sequence() - before,
            cluster.interceptor.reads().len(),
        ));
    }
    assert!(polled.is_sorted() && polled[2] > 2 * polled[0], "{polled:?}");
    // There was no event, and at most the watch was continued.
    assert!(
        watched
            .iter()
            .all(|(delivered, requests)| *delivered == 0 && *requests <= 1),
        "{watched:?}"
    );
}

/// WQ5: a reconciler reads its cache, without a request to the server.
#[tokio::test]
async fn wq5_a_reconcile_reads_without_a_request() {
    /// Reads all objects in each call.
    struct Reader(Lister<ConfigMap>, Notes);
    impl Reconcile for Reader {
        async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
            let known = self.0.list().iter().any(|map| map.key() == key);
            assert_eq!(known, self.0.find(key).is_some());
            self.1.reconcile(key, client).await
        }
    }
    let (cluster, notes) = (Cluster::start().await, Notes::default());
    let own = notes.clone();
    let _loop = cluster
        .run_controller("reader", |context| {
            let reader = Reader(context.lister()?, own);
            Ok(for_::<ConfigMap>().named("reader").reconciles_with(reader))
        })
        .unwrap();
    cluster.wait_until_quiet().await.unwrap();
    cluster.interceptor.clear();
    create(&cluster, "x").await;
    cluster.wait_until_quiet().await.unwrap();
    let maps = cluster.client("test").namespaced::<ConfigMap>("default");
    maps.delete("x", Default::default()).await.unwrap();
    cluster.wait_until_quiet().await.unwrap();
    assert_eq!(cluster.interceptor.reads(), [""; 0]);
    assert_eq!(notes.0.lock().iter().filter(|key| *key == "default/x").count(), 2);
}

/// TO3: reflector, cache, informer, queue and worker put together by hand, each without the one above it.
#[tokio::test]
async fn to3_each_layer_can_be_used_on_its_own() {
    let cluster = Cluster::start().await;
    create(&cluster, "x").await;
    let clock: Arc<dyn setpoint_api::Clock> = Arc::new(cluster.clock.clone());
    let resource = ConfigMap::resource();
    let cache = Arc::new(Cache::new(resource.group_resource()));
    let client = cluster.client("sample");
    let reflector = Reflector::new(
        &client,
        resource,
        ReflectorOptions::default(),
        cache.clone(),
        clock.clone(),
    );
    let informer = Informer::new(cache.clone(), clock.clone());
    let queue: Queue = Queue::new(clock);
    let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
    running.spawn(reflector.run(stop.clone()));
    let (own, token) = (queue.clone(), stop.clone());
    running.spawn(async move {
        let handle = |event: Event<'_>| match event {
            Event::Present(object) => own.add(object.key().clone()),
            Event::Changed(change) => own.add(change.key().clone()),
            Event::Gap => {}
        };
        informer.run(handle, token).await;
    });
    let maps: Lister<ConfigMap> = Lister::new(cache);
    let mut seen = Vec::new();
    for name in ["x", "y"] {
        if name == "y" {
            create(&cluster, "y").await;
        }
        // Every namespace has a root CA ConfigMap, too.
        while seen.last().map(String::as_str) != Some(name) {
            let taken = queue.get().await.unwrap();
            let map = maps.find(taken.item()).unwrap();
            seen.push(map.to_owned().unwrap().metadata.name.unwrap());
        }
    }
    stop.cancel();
    queue.shut_down();
    assert!(queue.get().await.is_none());
    while let Some(ended) = running.join_next().await {
        ended.unwrap();
    }
}

/// IN19: a handler gets a change at the time of the commit, before the clock moves.
#[tokio::test]
async fn in19_a_handler_gets_a_change_at_the_time_of_the_commit() {
    let cluster = Cluster::start().await;
    let factory = SharedInformerFactory::new(cluster.client("informer"), Arc::new(cluster.clock.clone()));
    let delivered = Arc::new(Mutex::new(Vec::new()));
    let (own, clock) = (delivered.clone(), cluster.clock.clone());
    let informer = factory.informer_for::<ConfigMap>();
    let registration = informer.add_handler(HandlerOptions::default(), move |event| {
        if let Event::Changed(change) = event {
            own.lock()
                .push((change.key().name().to_owned(), setpoint_api::Clock::now(&clock)));
        }
    });
    let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
    let (own, token) = (factory.clone(), stop.clone());
    running.spawn(async move { own.run(token).await });
    registration.as_ref().unwrap().synced().await;
    let now = setpoint_api::Clock::now(&cluster.clock);
    for i in 0..20 {
        create(&cluster, &format!("m{i}")).await;
    }
    cluster.settle().await;
    let expected: Vec<_> = (0..20).map(|i| (format!("m{i}"), now)).collect();
    assert_eq!(*delivered.lock(), expected);
}

/// IN17: the objects of a lister are shared by all readers; a copy can be changed without an effect.
#[tokio::test]
async fn in17_a_copy_is_changed_and_the_cached_object_is_not() {
    let cluster = Cluster::start().await;
    create(&cluster, "x").await;
    cluster.wait_until_quiet().await.unwrap();
    let maps: Lister<ConfigMap> = cluster.context("reader").lister().unwrap();
    let key = Key::new("default", "x");
    let shared = maps.find(&key).unwrap();
    let mut copy = shared.to_owned().unwrap();
    copy.data.get_or_insert_default().insert("v".into(), "2".into());
    let again = maps.find(&key).unwrap();
    assert!(Arc::ptr_eq(shared.stored(), again.stored()));
    assert_eq!(again.shared().unwrap().data.as_ref().unwrap()["v"], "1");
}
