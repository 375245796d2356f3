//! Shuffle and loss (TR9): whatever becomes of the watch events on their way, all controllers come to the end to which
//! they come undisturbed.
//!
//! `SEEDS=0..1000 cargo test -p setpoint-controllers --test proof tr9 -- --nocapture` runs a thousand of them; without
//! the variable a few are. A seed decides what goes wrong with which watch, not how the tasks take turns.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use setpoint_testkit::portrait::difference;
use setpoint_testkit::{Cluster, Disorder};

use crate::village;

/// How long a chapter takes at most when nothing goes wrong.
const UNDISTURBED: Duration = Duration::from_secs(180);
/// How often the end of a chapter is looked for, and how far apart.
const LOOKS: usize = 200;
const BETWEEN: Duration = Duration::from_secs(5);
/// How long the last state must last.
const LASTING: Duration = Duration::from_secs(90);

/// The states at the end of each chapter.
type Story = Vec<Vec<String>>;

/// The story as it goes when nothing goes wrong.
async fn undisturbed() -> Story {
    let cluster = Cluster::start().await;
    let orderly = Disorder::new(cluster.link.clone(), cluster.clock.clone(), None);
    let _part = cluster.run_apart(Arc::new(orderly), village::parts());
    let mut story = Vec::new();
    for chapter in 0..village::CHAPTERS {
        village::tell(&cluster, chapter).await;
        cluster.advance(UNDISTURBED).await;
        story.push(cluster.portrait());
    }
    story
}

/// The same story with what the seed makes go wrong; what did.
async fn disturbed(seed: u64, story: &Story) -> [usize; 4] {
    let cluster = Cluster::start().await;
    let disorder = Disorder::new(cluster.link.clone(), cluster.clock.clone(), Some(seed));
    let disorder = Arc::new(disorder);
    let _part = cluster.run_apart(disorder.clone(), village::parts());
    for (chapter, expected) in story.iter().enumerate() {
        village::tell(&cluster, chapter).await;
        converge(
            &cluster,
            expected,
            &format!("seed {seed}, chapter {chapter}, {disorder:?}"),
        )
        .await;
    }
    cluster.advance(LASTING).await;
    let end = cluster.portrait();
    assert!(
        Some(&end) == story.last(),
        "seed {seed} does not last: {disorder:?}"
    );
    let harm = disorder.harm();
    [&harm.late, &harm.swapped, &harm.lost, &harm.broken].map(|count| count.load(Ordering::Relaxed))
}

/// Waits for the state.
async fn converge(cluster: &Cluster, expected: &[String], what: &str) {
    for _ in 0..LOOKS {
        cluster.advance(BETWEEN).await;
        if cluster.portrait() == expected {
            return;
        }
    }
    panic!("{what}:\n{}", difference(expected, &cluster.portrait()));
}

/// The seeds that were asked for, or a few.
fn seeds() -> Range<u64> {
    let asked = std::env::var("SEEDS").ok();
    let range = asked.as_deref().and_then(|asked| asked.split_once(".."));
    let number = |text: &str| text.parse().expect("SEEDS is a range of numbers: 0..1000");
    range.map_or(0..2, |(first, end)| number(first)..number(end))
}

/// TR9
#[tokio::test(start_paused = true)]
async fn tr9_events_late_shuffled_or_lost_lead_to_the_same_end() {
    let story = undisturbed().await;
    let mut total = [0; 4];
    for seed in seeds() {
        let harm = disturbed(seed, &story).await;
        println!("seed {seed}: late, swapped, lost, broken {harm:?}");
        for (total, harm) in total.iter_mut().zip(harm) {
            *total += harm;
        }
    }
    assert!(
        total.iter().all(|count| *count > 0),
        "nothing went wrong: {total:?}"
    );
}
