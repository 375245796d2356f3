//! Informers on bad lines, over HTTP: whatever happens to the line and to the server, the mirror ends up like the server,
//! and handlers hear of each object's changes in order, none twice.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use setpoint_api::Clock;
use setpoint_client::Object;
use setpoint_runtime::factory::{Factory, Wishes};
use setpoint_runtime::reflector::{Scope, Start};
use setpoint_testkit::faults::{Fault, Odds, Plan, Proxy};
use setpoint_testkit::{Diary, served};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use world::World;

/// So many runs, each with a seed of its own, so many of them at a time.
const RUNS: u64 = 200;
const AT_ONCE: usize = 64;
/// So many changes in each.
const CHANGES: usize = 30;
/// How often the server is killed while they run, in the cluster's time.
const RESTART_EVERY: Duration = Duration::from_secs(300);
/// A run that takes so long will never come to an end.
const LIMIT: Duration = Duration::from_secs(100);

/// What may go wrong in a run. In every third events are lost on the way; only a list brings those to light.
fn odds(seed: u64) -> Odds {
    Odds {
        request: 250,
        event: 150,
        swallow: if seed.is_multiple_of(3) { 100 } else { 0 },
    }
}

fn scope(seed: u64, namespace: &str) -> Scope {
    Scope {
        namespace: namespace.to_owned(),
        start: if seed.is_multiple_of(2) {
            Start::Stream
        } else {
            Start::List
        },
        relist: seed.is_multiple_of(3).then_some(Duration::from_secs(120)),
        ..Scope::default()
    }
}

/// As many as the environment says, where somebody wants more than the gate has time for.
fn runs_wanted() -> u64 {
    let said = std::env::var("SETPOINT_FAULT_RUNS").ok();
    said.map_or(RUNS, |said| said.parse().unwrap())
}

/// One run: an informer behind a line of its own, while objects come, change and go.
async fn run(world: Arc<World>, seed: u64) -> BTreeMap<Fault, usize> {
    let namespace = format!("run-{seed}");
    world.make_namespace(&namespace).await;
    let proxy = Proxy::to(&world.target, Plan::of(seed, odds(seed))).await;
    let clock: Arc<dyn Clock> = Arc::new(world.clock.clone());
    let factory = Factory::new(served::client(&proxy.connection(), clock.clone()), clock);
    let informer = factory.informer(ConfigMap::resource(), scope(seed, &namespace));
    let diary = Diary::default();
    let _place = informer.add_handler(Wishes::default(), diary.handler()).unwrap();
    let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
    let (own, token) = (factory.clone(), stop.clone());
    running.spawn(async move { own.run(token).await.unwrap() });

    let mut dice = StdRng::seed_from_u64(seed ^ 0x5e_7b_01_47);
    for _ in 0..CHANGES {
        let name = format!("m{}", dice.random_range(0..6));
        world
            .change(&namespace, &name, dice.random_range(0..4) == 0)
            .await;
        world
            .clock
            .sleep(Duration::from_secs(dice.random_range(0..12)))
            .await;
    }
    proxy.plan().end();
    let expected = world.versions(&namespace).await;
    let same = async {
        let mut changes = informer.cache().subscribe(None).unwrap();
        while world::versions(informer.cache().snapshot().iter()) != expected {
            changes.next().await.unwrap();
        }
        diary.until(|known| *known == expected).await;
    };
    let in_time = tokio::time::timeout(LIMIT, same).await;
    let mirrored = world::versions(informer.cache().snapshot().iter());
    assert!(
        in_time.is_ok(),
        "run {seed}: {mirrored:?} never became {expected:?}; {:?}",
        diary
    );
    stop.cancel();
    while let Some(ended) = running.join_next().await {
        ended.unwrap();
    }
    assert_eq!(diary.wrong(), [""; 0], "run {seed}");
    proxy.plan().happened()
}

/// IN12, IN19: cut, stalled, refused, expired, repeated and swallowed, with the server killed every now and then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in12_after_every_fault_the_mirror_is_like_the_server() {
    let world = World::start().await;
    let (stop, mut background) = (CancellationToken::new(), JoinSet::new());
    background.spawn(world.clone().let_time_pass(stop.clone()));
    background.spawn(world.clone().kill_now_and_then(RESTART_EVERY, stop.clone()));
    let (number, mut runs) = (runs_wanted(), JoinSet::new());
    let mut seeds = 0..number;
    let mut happened: BTreeMap<Fault, usize> = BTreeMap::new();
    for seed in seeds.by_ref().take(AT_ONCE) {
        runs.spawn(run(world.clone(), seed));
    }
    while let Some(faults) = runs.join_next().await {
        for (fault, times) in faults.unwrap() {
            *happened.entry(fault).or_default() += times;
        }
        if let Some(seed) = seeds.next() {
            runs.spawn(run(world.clone(), seed));
        }
    }
    stop.cancel();
    while let Some(ended) = background.join_next().await {
        ended.unwrap();
    }
    println!("{number} runs, {} restarts, {happened:?}", world.restarts());
    for fault in Fault::all() {
        assert!(happened.contains_key(&fault), "{fault:?} was never tried");
    }
    assert!(world.restarts() > 0, "the server was never killed");
}
