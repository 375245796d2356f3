//! Bootstrap objects: created once, in one transaction, and reconciled at the next start.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::sync::Arc;

use cluster::{Cluster, ManualClock, value};
use serde_json::json;
use setpoint_api::Clock;
use setpoint_api::options::DeleteOptions;
use setpoint_kinds::bootstrap::ServerInfo;
use setpoint_store::Store;

fn store(clock: &Arc<ManualClock>) -> Store {
    let times = clock.clone();
    Store::memory(setpoint_store::Config::new(Arc::new(move || times.millis())))
}

#[tokio::test]
async fn a_second_start_writes_nothing() {
    let clock = Arc::new(ManualClock::default());
    let store = store(&clock);
    let first = Cluster::on(store.clone(), clock.clone()).await;
    let revision = store.revision();
    drop(first);
    Cluster::on(store.clone(), clock).await;
    assert_eq!(store.revision(), revision);
}

#[tokio::test]
async fn everything_is_written_in_one_transaction() {
    let clock = Arc::new(ManualClock::default());
    let store = store(&clock);
    let before = store.revision();
    let cluster = Cluster::on(store.clone(), clock).await;
    let namespace = cluster.get("namespaces", "default").await.unwrap();
    let role = cluster
        .get("clusterroles.rbac.authorization.k8s.io", "cluster-admin")
        .await
        .unwrap();
    assert_eq!(namespace.resource_version(), role.resource_version());
    assert_ne!(store.revision(), before);
}

#[tokio::test]
async fn what_was_lost_comes_back_and_what_was_added_stays() {
    let clock = Arc::new(ManualClock::default());
    let store = store(&clock);
    let cluster = Cluster::on(store.clone(), clock.clone()).await;
    let roles = "clusterroles.rbac.authorization.k8s.io";
    let mut role = value(&cluster.get(roles, "system:basic-user").await.unwrap());
    let lost = role["rules"].clone();
    let added = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
    role["rules"] = json!([added]);
    cluster.update(&role, "").await.unwrap();
    let options = DeleteOptions::default();
    cluster
        .delete(
            "priorityclasses.scheduling.k8s.io",
            "system-node-critical",
            options,
        )
        .await
        .unwrap();
    drop(cluster);
    let cluster = Cluster::on(store, clock).await;
    let back = value(&cluster.get(roles, "system:basic-user").await.unwrap());
    assert_eq!(back["rules"], json!([added, lost[0], lost[1]]));
    cluster
        .get("priorityclasses.scheduling.k8s.io", "system-node-critical")
        .await
        .unwrap();
}

#[tokio::test]
async fn the_server_publishes_its_address() {
    let own = ServerInfo {
        address: "127.0.0.1".parse().unwrap(),
        port: 6443,
        service_cidr: "10.96.0.0/12".parse().unwrap(),
        client_ca: "a certificate".to_owned(),
        proxy_ca: "another certificate".to_owned(),
    };
    let clock = Arc::new(ManualClock::default());
    let store = store(&clock);
    let cluster = Cluster::on_at(store, clock, Some(own)).await;
    let map = cluster
        .get("configmaps", "kube-system/extension-apiserver-authentication")
        .await
        .unwrap();
    let data = &value(&map)["data"];
    assert_eq!(data["client-ca-file"], "a certificate");
    assert_eq!(data["requestheader-client-ca-file"], "another certificate");
    assert_eq!(data["requestheader-allowed-names"], r#"["front-proxy-client"]"#);
    assert_eq!(data["requestheader-username-headers"], r#"["X-Remote-User"]"#);
}
