//! Durability: the state after the process is killed (SIGKILL).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::sync::Arc;

use cluster::{Cluster, manifest, replica_set};
use k8s_openapi::api::core::v1::ConfigMap;
use setpoint_api::ResourceVersion;
use setpoint_client::Client;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The number of concurrent clients.
const WRITERS: usize = 8;
/// The number of acknowledged writes before each kill.
const WRITES: usize = 150;

/// Name and version of an object whose creation was acknowledged.
type Creation = (String, ResourceVersion);

fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map
}

/// Creates objects until the server is killed.
async fn write(client: Client, round: usize, writer: usize, acknowledged: mpsc::Sender<Creation>) {
    let maps = client.namespaced::<ConfigMap>("default");
    for number in 0.. {
        let name = format!("r{round}-w{writer}-{number}");
        let Ok(created) = maps.create(&map(&name)).await else {
            return;
        };
        if acknowledged
            .send((name, created.resource_version()))
            .await
            .is_err()
        {
            return;
        }
    }
}

/// Writes with many clients, kills the server in the middle, and returns what was acknowledged.
async fn write_and_kill(cluster: Cluster, round: usize) -> (Arc<tempfile::TempDir>, Vec<Creation>) {
    let (sender, mut receiver) = mpsc::channel(WRITES);
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        writers.spawn(write(cluster.client(), round, writer, sender.clone()));
    }
    drop(sender);
    let mut acknowledged = Vec::new();
    while acknowledged.len() < WRITES {
        acknowledged.push(receiver.recv().await.unwrap());
    }
    let dir = cluster.kill();
    while let Some(late) = receiver.recv().await {
        acknowledged.push(late);
    }
    writers.join_all().await;
    (dir, acknowledged)
}

/// CL1, CL7: acknowledged objects exist after a kill, with their resourceVersion, and no resourceVersion decreases.
#[tokio::test(flavor = "multi_thread")]
async fn cl7_nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let mut dir = Arc::new(tempfile::tempdir().unwrap());
    let mut newest = ResourceVersion::ZERO;
    for round in 0..3 {
        let cluster = Cluster::start(&dir, &["--nodes", "0", "--controllers", "none"]);
        let (after, acknowledged) = write_and_kill(cluster, round).await;
        dir = after;
        let cluster = Cluster::start(&dir, &["--nodes", "0", "--controllers", "none"]);
        let maps = cluster.client().namespaced::<ConfigMap>("default");
        for (name, version) in &acknowledged {
            let found = maps.get(name).await.unwrap();
            assert_eq!(found.resource_version(), *version, "{name}");
        }
        let created = maps.create(&map(&format!("after-{round}"))).await.unwrap();
        let before = acknowledged
            .iter()
            .map(|(_, version)| *version)
            .max()
            .max(Some(newest));
        assert!(
            Some(created.resource_version()) > before,
            "{created:?} came after {before:?}"
        );
        newest = created.resource_version();
        dir = cluster.kill();
    }
}

/// CL1, CL7: an interrupted rollout continues after a restart.
#[test]
fn cl7_a_rollout_goes_on_after_the_process_is_killed() {
    let cluster = Cluster::new(&["--nodes", "3"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    let file = manifest(cluster.dir.path(), "rs.json", &replica_set("web", 40));
    kubectl.run(&format!("create -f {file}"));
    let cluster = Cluster::start(&cluster.kill(), &["--nodes", "3"]);
    let kubectl = cluster.kubectl().unwrap();
    kubectl.run("wait --for=jsonpath={.status.readyReplicas}=40 replicaset/web --timeout=60s");
    let pods = kubectl.run("get pods -l app=web -o name");
    assert_eq!(pods.lines().count(), 40, "{pods}");
}

/// CL7: a supervisor may restart the process before the killed one has released the store.
#[test]
fn cl7_a_process_that_is_still_ending_is_waited_for() {
    let mut old = Cluster::new(&["--nodes", "0"]);
    old.begin_kill();
    let new = Cluster::start(&old.dir, &["--nodes", "0"]);
    assert!(new.terminate());
}
