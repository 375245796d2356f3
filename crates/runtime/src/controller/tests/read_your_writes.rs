//! A key is held until the caches have the writes of its reconcile.

use super::*;

/// Creates a pod whenever the cache shows none.
struct Creator {
    pods: Lister<Pod>,
    runs: Arc<AtomicUsize>,
    create: Create,
}

/// How a [`Creator`] makes its request.
#[derive(Debug, Clone, Copy)]
enum Create {
    InReconcile,
    InSpawnedTask,
}

impl Reconcile for Creator {
    async fn reconcile(&self, _: &Key, client: &Client) -> Result<Next, Error> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        if self.pods.list().is_empty() {
            let client = client.clone();
            let create = async move { client.namespaced::<Pod>("a").create(&Pod::default()).await };
            match self.create {
                Create::InReconcile => create.await?,
                Create::InSpawnedTask => JoinSet::from_iter([create]).join_all().await.remove(0)?,
            };
        }
        Ok(Next::Done)
    }
}

/// While the watch of pods is frozen, a hundred reconciles create no second pod.
async fn check_key_is_held(create: Create) {
    let created = Arc::new(AtomicUsize::new(0));
    let count = created.clone();
    let mut fixture = Fixture::with_server(move |_: Request| -> ServeFuture<'static> {
        count.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(Response::new(Body::Object(object("a/pod", 10, "")))) })
    });
    let runs = Arc::new(AtomicUsize::new(0));
    let creator = Creator {
        pods: fixture.context.lister().unwrap(),
        runs: runs.clone(),
        create,
    };
    let controller = Controller::new("test", creator).reconciles::<ReplicaSet>();
    fixture.start(controller.reads(pods()).rate_limits(RateLimits::PER_ITEM));
    add(&fixture.sets, "a/x", 2, "");
    for version in 3..103 {
        let (old, new) = (object("a/x", version - 1, ""), object("a/x", version, ""));
        fixture
            .sets
            .apply(vec![Change::Modified { old, new }], ResourceVersion(version));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let counts = || (created.load(Ordering::SeqCst), runs.load(Ordering::SeqCst));
    assert_eq!(counts(), (1, 1));
    add(&fixture.pods, "a/pod", 10, "");
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(counts(), (1, 2));
    let text = fixture.context.metrics.to_text();
    assert!(text.contains("held_total{controller=\"test\"} 1"), "{text}");
}

/// RS7: the next reconcile of a key sees the writes of the previous one.
#[tokio::test(start_paused = true)]
async fn rs7_a_key_is_held_until_the_caches_have_its_writes() {
    check_key_is_held(Create::InReconcile).await;
}

/// RS7: a write belongs to the reconcile of its client, in whichever task it is made.
#[tokio::test(start_paused = true)]
async fn rs7_the_writes_of_a_spawned_task_are_recorded() {
    check_key_is_held(Create::InSpawnedTask).await;
}
