//! Reordering and loss (TR9): whatever happens to watch events, all controllers converge to the same state as without
//! faults.
//!
//! `SEEDS=0..1000 cargo test -p setpoint-controllers --test proof tr9 -- --nocapture` runs a thousand of them; without
//! the variable only a few run. A seed decides the faults of each watch, not how the tasks are scheduled.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use setpoint_testkit::canonical_dump::diff;
use setpoint_testkit::{Cluster, WatchFaults};

use crate::workload;

/// The longest duration of a stage without faults.
const UNDISTURBED: Duration = Duration::from_secs(180);
/// How often the end of a stage is checked, and the pause in between.
const LOOKS: usize = 200;
const BETWEEN: Duration = Duration::from_secs(5);
/// How long the last state must stay unchanged.
const LASTING: Duration = Duration::from_secs(90);

/// The dump of the cluster's state at the end of each stage.
type StageDumps = Vec<Vec<String>>;

/// Runs all stages without faults.
async fn undisturbed() -> StageDumps {
    let cluster = Cluster::start().await;
    let orderly = WatchFaults::new(cluster.interceptor.clone(), cluster.clock.clone(), None);
    let _component = cluster.run_remote(Arc::new(orderly), workload::components());
    let mut stage_dumps = Vec::new();
    for stage in 0..workload::STAGES {
        workload::run_stage(&cluster, stage).await;
        cluster.advance(UNDISTURBED).await;
        stage_dumps.push(cluster.canonical_dump());
    }
    stage_dumps
}

/// Runs all stages with the faults of the seed, and returns their counts.
async fn disturbed(seed: u64, stage_dumps: &StageDumps) -> [usize; 4] {
    let cluster = Cluster::start().await;
    let faults = WatchFaults::new(cluster.interceptor.clone(), cluster.clock.clone(), Some(seed));
    let faults = Arc::new(faults);
    let _component = cluster.run_remote(faults.clone(), workload::components());
    for (stage, expected) in stage_dumps.iter().enumerate() {
        workload::run_stage(&cluster, stage).await;
        converge(
            &cluster,
            expected,
            &format!("seed {seed}, stage {stage}, {faults:?}"),
        )
        .await;
    }
    cluster.advance(LASTING).await;
    let end = cluster.canonical_dump();
    assert!(
        Some(&end) == stage_dumps.last(),
        "seed {seed} does not last: {faults:?}"
    );
    let counts = faults.counts();
    [&counts.late, &counts.swapped, &counts.lost, &counts.broken].map(|count| count.load(Ordering::Relaxed))
}

/// Waits for the expected state.
async fn converge(cluster: &Cluster, expected: &[String], what: &str) {
    for _ in 0..LOOKS {
        cluster.advance(BETWEEN).await;
        if cluster.canonical_dump() == expected {
            return;
        }
    }
    panic!("{what}:\n{}", diff(expected, &cluster.canonical_dump()));
}

/// The seeds from the environment, or a few.
fn seeds() -> Range<u64> {
    let from_env = std::env::var("SEEDS").ok();
    let range = from_env.as_deref().and_then(|from_env| from_env.split_once(".."));
    let number = |text: &str| text.parse().expect("SEEDS is a range of numbers: 0..1000");
    range.map_or(0..2, |(first, end)| number(first)..number(end))
}

/// TR9
#[tokio::test(start_paused = true)]
async fn tr9_late_reordered_or_lost_events_lead_to_the_same_state() {
    let stage_dumps = undisturbed().await;
    let mut total = [0; 4];
    for seed in seeds() {
        let counts = disturbed(seed, &stage_dumps).await;
        println!("seed {seed}: late, swapped, lost, broken {counts:?}");
        for (total, counts) in total.iter_mut().zip(counts) {
            *total += counts;
        }
    }
    assert!(
        total.iter().all(|count| *count > 0),
        "nothing went wrong: {total:?}"
    );
}
