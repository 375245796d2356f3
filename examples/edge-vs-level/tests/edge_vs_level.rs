//! The story on a server in the test's own process, where an hour of waiting takes no time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use edge_vs_level::demo::{Act, Stage, play};
use edge_vs_level::keepers::{Trigger, WANTED};
use setpoint_testkit::Cluster;

async fn acts() -> Vec<Act> {
    let cluster = Cluster::start().await;
    let stage = Stage {
        client: cluster.client("demo"),
        clock: Arc::new(cluster.clock.clone()),
        namespace: "default".to_owned(),
        resync: Duration::from_secs(300),
    };
    let ended = AtomicBool::new(false);
    let playing = async {
        let acts = play(&stage).await;
        ended.store(true, Ordering::SeqCst);
        acts.unwrap()
    };
    // The clock moves when everyone waits for it.
    let waiting = cluster.until("an end", |_| ended.load(Ordering::SeqCst));
    let (acts, ()) = tokio::join!(playing, waiting);
    acts
}

/// TR3, TR4, TR5
#[tokio::test]
async fn tr3_edges_alone_end_wrong_and_the_state_ends_right() {
    let acts = acts().await;
    let missing = WANTED - 3;
    assert_eq!(acts[0].left(Trigger::Edge), missing, "{acts:?}");
    assert_eq!(acts[0].left(Trigger::Level), missing, "{acts:?}");
    // TR4: one event is enough to make good everything that was missed, for one who looks.
    assert_eq!(acts[1].left(Trigger::Edge), missing, "{acts:?}");
    assert_eq!(acts[1].left(Trigger::Level), WANTED, "{acts:?}");
    // TR5: and none is needed by one who looks at the clock as well.
    assert!(acts[2].left(Trigger::Edge) < WANTED, "{acts:?}");
    assert_eq!(acts[2].left(Trigger::Level), missing, "{acts:?}");
    assert_eq!(acts[2].left(Trigger::Resync), WANTED, "{acts:?}");
}
