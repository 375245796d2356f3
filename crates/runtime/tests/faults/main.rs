//! Informers on faulty connections, over HTTP: whatever faults occur, the cache ends up like the server,
//! and handlers get each object's changes in order, none twice.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod server;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use setpoint_api::Clock;
use setpoint_client::Object;
use setpoint_runtime::factory::{HandlerOptions, SharedInformerFactory};
use setpoint_runtime::reflector::{InitialList, ReflectorOptions};
use setpoint_testkit::faults::{Fault, FaultPlan, FaultProxy, FaultRates};
use setpoint_testkit::{NotificationRecorder, https_server};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use server::TestServer;

/// The number of runs, each with its own seed, and how many run concurrently.
const RUNS: u64 = 200;
const AT_ONCE: usize = 64;
/// The number of changes in each run.
const CHANGES: usize = 30;
/// How often the server is killed while they run, in the cluster's time.
const RESTART_EVERY: Duration = Duration::from_secs(300);
/// A run that takes longer will never end.
const LIMIT: Duration = Duration::from_secs(100);

/// The faults of a run. In every third run events are lost; only a list finds those.
fn odds(seed: u64) -> FaultRates {
    FaultRates {
        request: 250,
        event: 150,
        drop_event: if seed.is_multiple_of(3) { 100 } else { 0 },
    }
}

fn scope(seed: u64, namespace: &str) -> ReflectorOptions {
    ReflectorOptions {
        namespace: namespace.to_owned(),
        initial_list: if seed.is_multiple_of(2) {
            InitialList::WatchList
        } else {
            InitialList::Paged
        },
        relist: seed.is_multiple_of(3).then_some(Duration::from_secs(120)),
        ..ReflectorOptions::default()
    }
}

/// The number of runs from the environment, for longer runs than in CI.
fn run_count() -> u64 {
    let value = std::env::var("SETPOINT_FAULT_RUNS").ok();
    value.map_or(RUNS, |value| value.parse().unwrap())
}

/// One run: an informer behind its own faulty proxy, while objects are created, changed and deleted.
async fn run(server: Arc<TestServer>, seed: u64) -> BTreeMap<Fault, usize> {
    let namespace = format!("run-{seed}");
    server.make_namespace(&namespace).await;
    let proxy = FaultProxy::start(&server.target, FaultPlan::new(seed, odds(seed))).await;
    let clock: Arc<dyn Clock> = Arc::new(server.clock.clone());
    let factory = SharedInformerFactory::new(https_server::client(&proxy.connection(), clock.clone()), clock);
    let informer = factory.informer(ConfigMap::resource(), scope(seed, &namespace));
    let diary = NotificationRecorder::default();
    let _registration = informer
        .add_handler(HandlerOptions::default(), diary.handler())
        .unwrap();
    let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
    let (own, token) = (factory.clone(), stop.clone());
    running.spawn(async move { own.run(token).await.unwrap() });

    let mut dice = StdRng::seed_from_u64(seed ^ 0x5e_7b_01_47);
    for _ in 0..CHANGES {
        let name = format!("m{}", dice.random_range(0..6));
        server
            .change(&namespace, &name, dice.random_range(0..4) == 0)
            .await;
        server
            .clock
            .sleep(Duration::from_secs(dice.random_range(0..12)))
            .await;
    }
    proxy.plan().end();
    let expected = server.versions(&namespace).await;
    let same = async {
        let mut changes = informer.cache().subscribe(None).unwrap();
        while server::versions(informer.cache().snapshot().iter()) != expected {
            changes.next().await.unwrap();
        }
        diary.until(|known| *known == expected).await;
    };
    let in_time = tokio::time::timeout(LIMIT, same).await;
    let mirrored = server::versions(informer.cache().snapshot().iter());
    assert!(
        in_time.is_ok(),
        "run {seed}: {mirrored:?} never became {expected:?}; {:?}",
        diary
    );
    stop.cancel();
    while let Some(ended) = running.join_next().await {
        ended.unwrap();
    }
    assert_eq!(diary.violations(), [""; 0], "run {seed}");
    proxy.plan().injected()
}

/// IN12, IN19: connections cut, stalled and rejected, watches expired, events replayed and lost, and the server killed at times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in12_after_every_fault_the_cache_is_like_the_server() {
    let server = TestServer::start().await;
    let (stop, mut background) = (CancellationToken::new(), JoinSet::new());
    background.spawn(server.clone().let_time_pass(stop.clone()));
    background.spawn(server.clone().kill_periodically(RESTART_EVERY, stop.clone()));
    let (number, mut runs) = (run_count(), JoinSet::new());
    let mut seeds = 0..number;
    let mut happened: BTreeMap<Fault, usize> = BTreeMap::new();
    for seed in seeds.by_ref().take(AT_ONCE) {
        runs.spawn(run(server.clone(), seed));
    }
    while let Some(faults) = runs.join_next().await {
        for (fault, times) in faults.unwrap() {
            *happened.entry(fault).or_default() += times;
        }
        if let Some(seed) = seeds.next() {
            runs.spawn(run(server.clone(), seed));
        }
    }
    stop.cancel();
    while let Some(ended) = background.join_next().await {
        ended.unwrap();
    }
    println!("{number} runs, {} restarts, {happened:?}", server.restarts());
    for fault in Fault::all() {
        assert!(happened.contains_key(&fault), "{fault:?} was never tried");
    }
    assert!(server.restarts() > 0, "the server was never killed");
}
