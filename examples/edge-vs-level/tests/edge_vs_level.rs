//! The demo on an API server in the test process, where waiting takes no real time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use edge_vs_level::controllers::{DESIRED, Trigger};
use edge_vs_level::demo::{Demo, StepResult, run_demo};
use setpoint_testkit::Cluster;

async fn results() -> Vec<StepResult> {
    let cluster = Cluster::start().await;
    let demo_config = Demo {
        client: cluster.client("demo"),
        clock: Arc::new(cluster.clock.clone()),
        namespace: "default".to_owned(),
        resync: Duration::from_secs(300),
    };
    let ended = AtomicBool::new(false);
    let playing = async {
        let results = run_demo(&demo_config).await;
        ended.store(true, Ordering::SeqCst);
        results.unwrap()
    };
    // The clock advances when all components wait for it.
    let waiting = cluster.until("an end", |_| ended.load(Ordering::SeqCst));
    let (results, ()) = tokio::join!(playing, waiting);
    results
}

/// TR3, TR4, TR5
#[tokio::test]
async fn tr3_the_edge_triggered_controller_does_not_converge_and_the_others_do() {
    let results = results().await;
    let missing = DESIRED - 3;
    assert_eq!(results[0].remaining(Trigger::Edge), missing, "{results:?}");
    assert_eq!(results[0].remaining(Trigger::Level), missing, "{results:?}");
    // TR4: one event is enough for a level-triggered controller to make up for all lost ones.
    assert_eq!(results[1].remaining(Trigger::Edge), missing, "{results:?}");
    assert_eq!(results[1].remaining(Trigger::Level), DESIRED, "{results:?}");
    // TR5: and with a resync none is needed.
    assert!(results[2].remaining(Trigger::Edge) < DESIRED, "{results:?}");
    assert_eq!(results[2].remaining(Trigger::Level), missing, "{results:?}");
    assert_eq!(results[2].remaining(Trigger::Resync), DESIRED, "{results:?}");
}
