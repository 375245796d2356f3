//! A reconcile goes by what is there when it runs, in the caches and elsewhere, not by what woke it.

use super::*;

/// IN8, IN10: two controllers read one cache, the same objects, and no request is made.
#[tokio::test(start_paused = true)]
async fn in10_reading_makes_no_request() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let world = World::with_server(move |_: Request| -> Reply<'static> {
        count.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Err(Status::unavailable("no server")) })
    });
    add(&world.pods, "a/web-1", 2, "web");
    add(&world.pods, "b/web-1", 3, "web");
    let one: Lister<Pod> = world.context.lister().unwrap();
    let two: Lister<Pod> = world.context.lister().unwrap();
    let key = Key::new("a", "web-1");
    for _ in 0..1_000 {
        assert!(Arc::ptr_eq(
            one.find(&key).unwrap().stored(),
            two.find(&key).unwrap().stored()
        ));
        assert_eq!(one.owned_by("uid-web").len(), 2);
        assert_eq!(one.in_namespace("a").len(), 1);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

/// WQ2: what is queued is a key of a few words, whatever the object; what is filtered out is not queued at all.
#[tokio::test(start_paused = true)]
async fn wq2_only_keys_are_queued_and_only_of_what_matters() {
    assert!(size_of::<Key>() <= 32, "{} bytes", size_of::<Key>());
    let mut world = World::new();
    let notes = Notes::new();
    let wanted = Predicate::new(|change: &Change| change.key().namespace() == "a");
    let controller = for_::<ReplicaSet>().named("test").when(wanted);
    world.start(controller.reconciles_with(notes.clone()));
    add(&world.sets, "b/x", 2, "");
    add(&world.sets, "b/y", 3, "");
    add(&world.sets, "a/z", 4, "");
    assert_eq!(notes.until(1).await, ["a/z"]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let text = world.context.metrics.to_text();
    assert!(text.contains("workqueue_adds_total{name=\"test\"} 1\n"), "{text}");
}

/// WQ5: whatever happened, a worker reads the newest state, once; what is gone by then is done with.
#[tokio::test(start_paused = true)]
async fn wq5_a_worker_reads_the_newest_state_by_its_key() {
    struct Reads(Notes, Lister<ReplicaSet>, Arc<Mutex<Vec<Option<u64>>>>);
    impl Reconcile for Reads {
        async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
            let found = self.1.find(key);
            let version = found.map(|set| set.resource_version().0);
            self.2.lock().push(version);
            self.0.reconcile(key).await
        }
    }
    let mut world = World::new();
    let (notes, read) = (Notes::new(), Arc::new(Mutex::new(Vec::new())));
    let reads = Reads(notes.clone(), Lister::new(world.sets.clone()), read.clone());
    world.start(
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
    world.sets.apply(changes, ResourceVersion(3));
    notes.until(1).await;
    let last = object("a/x", 4, "");
    world
        .sets
        .apply(vec![Change::Deleted { old: second, last }], ResourceVersion(4));
    assert_eq!(notes.until(2).await, ["a/x", "a/x"]);
    assert_eq!(*read.lock(), [Some(3), None]);
}

/// CL3: what a reconcile does outside the cluster may take too long or fail; it is tried again, ever later, and nobody
/// else waits for it.
#[tokio::test(start_paused = true)]
async fn cl3_a_call_elsewhere_that_hangs_or_fails_is_tried_again() {
    /// The first call hangs, the second fails, the third goes well; those of another key always do.
    struct Elsewhere(Notes, AtomicUsize);
    impl Reconcile for Elsewhere {
        async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
            let call = match key.name() {
                "bad" => self.1.fetch_add(1, Ordering::SeqCst),
                _ => 2,
            };
            match call {
                0 => std::future::pending().await,
                1 => Err(Error::failed("connection refused")),
                _ => self.0.reconcile(key).await,
            }
        }
    }
    let mut world = World::new();
    add(&world.sets, "a/bad", 2, "");
    add(&world.sets, "a/good", 3, "");
    let (notes, start) = (Notes::new(), tokio::time::Instant::now());
    let elsewhere = Elsewhere(notes.clone(), AtomicUsize::new(0));
    let controller = Controller::new("test", elsewhere).reconciles::<ReplicaSet>();
    world.start(controller.workers(2).timeout(Duration::from_secs(30)));
    assert_eq!(notes.until(1).await, ["a/good"]);
    assert_eq!(start.elapsed().as_secs(), 0);
    assert_eq!(notes.until(2).await, ["a/good", "a/bad"]);
    // The time it was given, then a wait of 5 and one of 10 milliseconds.
    assert_eq!(start.elapsed().as_millis() / 5 * 5, 30_015);
    let text = world.context.metrics.to_text();
    for result in [
        "result=\"timeout\"} 1",
        "result=\"error\"} 1",
        "result=\"success\"} 2",
    ] {
        assert!(text.contains(result), "{result} is missing in {text}");
    }
    assert!(world.stop().await[0].is_ok());
}

/// IN14: what drifts apart outside, with nothing to tell of it, is put right by the next resync; nobody is asked.
#[tokio::test(start_paused = true)]
async fn in14_what_drifts_apart_unseen_is_put_right_by_a_resync() {
    /// Keeps a light on for each set. Nobody tells when one goes out.
    struct Lights(Notes, Arc<Mutex<BTreeMap<String, bool>>>);
    impl Reconcile for Lights {
        async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
            self.1.lock().insert(key.to_string(), true);
            self.0.reconcile(key).await
        }
    }
    let mut world = World::new();
    add(&world.sets, "a/x", 2, "");
    let (notes, lights) = (Notes::new(), Arc::new(Mutex::new(BTreeMap::new())));
    let controller = Controller::new("test", Lights(notes.clone(), lights.clone()));
    world.start(
        controller
            .reconciles::<ReplicaSet>()
            .resync_every(Duration::from_secs(300)),
    );
    notes.until(1).await;
    lights.lock().insert("a/x".to_owned(), false);
    tokio::time::sleep(Duration::from_secs(299)).await;
    assert!(!lights.lock()["a/x"], "nobody knows yet");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(lights.lock()["a/x"]);
}
