//! A reconcile uses the current state when it runs, in the caches and outside the cluster, not the event that enqueued its key.

use super::*;

/// IN8, IN10: two controllers read one cache, the same objects, and no request is made.
#[tokio::test(start_paused = true)]
async fn in10_reading_makes_no_request() {
    let requests = Arc::new(AtomicUsize::new(0));
    let count = requests.clone();
    let fixture = Fixture::with_server(move |_: Request| -> ServeFuture<'static> {
        count.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Err(Status::unavailable("no server")) })
    });
    add(&fixture.pods, "a/web-1", 2, "web");
    add(&fixture.pods, "b/web-1", 3, "web");
    let one: Lister<Pod> = fixture.context.lister().unwrap();
    let two: Lister<Pod> = fixture.context.lister().unwrap();
    let key = Key::new("a", "web-1");
    for _ in 0..1_000 {
        assert!(Arc::ptr_eq(
            one.find(&key).unwrap().stored(),
            two.find(&key).unwrap().stored()
        ));
        assert_eq!(one.owned_by("uid-web").len(), 2);
        assert_eq!(one.in_namespace("a").len(), 1);
    }
    assert_eq!(requests.load(Ordering::SeqCst), 0);
}

/// WQ2: the queue has small keys, whatever the object; a filtered change is not queued at all.
#[tokio::test(start_paused = true)]
async fn wq2_only_keys_are_queued_and_only_of_changes_that_pass() {
    assert!(size_of::<Key>() <= 32, "{} bytes", size_of::<Key>());
    let mut fixture = Fixture::new();
    let reconciler = RecordingReconciler::new();
    let wanted = Predicate::new(|change: &Change| change.key().namespace() == "a");
    let controller = for_::<ReplicaSet>().named("test").when(wanted);
    fixture.start(controller.reconciles_with(reconciler.clone()));
    add(&fixture.sets, "b/x", 2, "");
    add(&fixture.sets, "b/y", 3, "");
    add(&fixture.sets, "a/z", 4, "");
    assert_eq!(reconciler.until(1).await, ["a/z"]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let text = fixture.context.metrics.to_text();
    assert!(text.contains("workqueue_adds_total{name=\"test\"} 1\n"), "{text}");
}

/// WQ5: whatever happened, a worker reads the newest state, once; a deleted object needs nothing.
#[tokio::test(start_paused = true)]
async fn wq5_a_worker_reads_the_newest_state_by_its_key() {
    struct Reads(
        RecordingReconciler,
        Lister<ReplicaSet>,
        Arc<Mutex<Vec<Option<u64>>>>,
    );
    impl Reconcile for Reads {
        async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
            let found = self.1.find(key);
            let version = found.map(|set| set.resource_version().0);
            self.2.lock().push(version);
            self.0.reconcile(key, client).await
        }
    }
    let mut fixture = Fixture::new();
    let (reconciler, read) = (RecordingReconciler::new(), Arc::new(Mutex::new(Vec::new())));
    let reads = Reads(
        reconciler.clone(),
        Lister::new(fixture.sets.clone()),
        read.clone(),
    );
    fixture.start(
        Controller::new("test", reads)
            .reconciles::<ReplicaSet>()
            .workers(1),
    );
    tokio::time::sleep(Duration::from_millis(1)).await;
    let (first, second) = (object("a/x", 2, ""), object("a/x", 3, ""));
    let changes = vec![
        Change::Added(first.clone()),
        Change::Modified {
            old: first,
            new: second.clone(),
        },
    ];
    fixture.sets.apply(changes, ResourceVersion(3));
    reconciler.until(1).await;
    let last = object("a/x", 4, "");
    fixture
        .sets
        .apply(vec![Change::Deleted { old: second, last }], ResourceVersion(4));
    assert_eq!(reconciler.until(2).await, ["a/x", "a/x"]);
    assert_eq!(*read.lock(), [Some(3), None]);
}

/// CL3: an external call of a reconcile may hang or fail; it is retried with backoff, and no other
/// key waits for it.
#[tokio::test(start_paused = true)]
async fn cl3_an_external_call_that_hangs_or_fails_is_retried() {
    /// The first call hangs, the second fails, the third succeeds; those of another key always do.
    struct ExternalCall(RecordingReconciler, AtomicUsize);
    impl Reconcile for ExternalCall {
        async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
            let call = match key.name() {
                "bad" => self.1.fetch_add(1, Ordering::SeqCst),
                _ => 2,
            };
            match call {
                0 => std::future::pending().await,
                1 => Err(Error::failed("connection refused")),
                _ => self.0.reconcile(key, client).await,
            }
        }
    }
    let mut fixture = Fixture::new();
    add(&fixture.sets, "a/bad", 2, "");
    add(&fixture.sets, "a/good", 3, "");
    let (reconciler, start) = (RecordingReconciler::new(), tokio::time::Instant::now());
    let external = ExternalCall(reconciler.clone(), AtomicUsize::new(0));
    let controller = Controller::new("test", external).reconciles::<ReplicaSet>();
    fixture.start(controller.workers(2).timeout(Duration::from_secs(30)));
    assert_eq!(reconciler.until(1).await, ["a/good"]);
    assert_eq!(start.elapsed().as_secs(), 0);
    assert_eq!(reconciler.until(2).await, ["a/good", "a/bad"]);
    // The timeout, then a delay of 5 and one of 10 milliseconds.
    assert_eq!(start.elapsed().as_millis() / 5 * 5, 30_015);
    let text = fixture.context.metrics.to_text();
    for result in [
        "result=\"timeout\"} 1",
        "result=\"error\"} 1",
        "result=\"success\"} 2",
    ] {
        assert!(text.contains(result), "{result} is missing in {text}");
    }
    assert!(fixture.stop().await[0].is_ok());
}

/// IN14: drift outside the cluster that no watch reports is corrected by the next resync, without a request.
#[tokio::test(start_paused = true)]
async fn in14_unobserved_drift_is_corrected_by_a_resync() {
    /// Keeps a light on for each set. No event reports when one is off.
    struct Lights(RecordingReconciler, Arc<Mutex<BTreeMap<String, bool>>>);
    impl Reconcile for Lights {
        async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
            self.1.lock().insert(key.to_string(), true);
            self.0.reconcile(key, client).await
        }
    }
    let mut fixture = Fixture::new();
    add(&fixture.sets, "a/x", 2, "");
    let (reconciler, lights) = (RecordingReconciler::new(), Arc::new(Mutex::new(BTreeMap::new())));
    let controller = Controller::new("test", Lights(reconciler.clone(), lights.clone()));
    fixture.start(
        controller
            .reconciles::<ReplicaSet>()
            .resync_every(Duration::from_secs(300)),
    );
    reconciler.until(1).await;
    lights.lock().insert("a/x".to_owned(), false);
    tokio::time::sleep(Duration::from_secs(299)).await;
    assert!(!lights.lock()["a/x"], "not resynced yet");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(lights.lock()["a/x"]);
}
