//! Bootstrap objects: created once, in one transaction, and reconciled at the next start.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cluster::{Cluster, ManualClock, next, value};
use serde_json::json;
use setpoint_api::options::{DeleteOptions, WatchOptions};
use setpoint_api::{Clock, Stored};
use setpoint_kinds::bootstrap::{self, RequestHeaderInfo, ServerInfo, reconcile};
use setpoint_registry::WatchCaches;
use setpoint_schema::Tree;
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

/// How often [`count`] was called.
static RECONCILED: AtomicUsize = AtomicUsize::new(0);

/// Reconciles by the rules of bootstrap objects.
fn count(existing: &Tree, desired: &Tree) -> Option<Tree> {
    RECONCILED.fetch_add(1, Ordering::Relaxed);
    reconcile::reconcile(existing, desired)
}

#[tokio::test]
async fn an_object_that_a_fork_shares_with_its_origin_is_reconciled_once_until_it_changes() {
    let clock = Arc::new(ManualClock::default());
    let kinds = setpoint_kinds::builtin();
    let mut role = bootstrap::objects(&kinds, None);
    role.retain(|object| {
        object.resource.resource == "clusterroles"
            && object.object.str_at(&["metadata", "name"]) == Some("system:basic-user")
    });
    role[0].reconcile = count;
    let caches = WatchCaches::open(store(&clock), Arc::new(kinds));
    let _origin = Cluster::of_caches(caches.clone(), role.clone()).await;
    let mut checked = Vec::new();
    for change in [false, false, true, false] {
        let fork = caches.fork();
        let cluster = Cluster::of_caches(fork.clone(), role.clone()).await;
        if change {
            let roles = "clusterroles.rbac.authorization.k8s.io";
            let mut lost = value(&cluster.get(roles, "system:basic-user").await.unwrap());
            lost["rules"] = json!([]);
            cluster.update(&lost, "").await.unwrap();
            let cluster = Cluster::of_caches(fork.fork(), role.clone()).await;
            let back = value(&cluster.get(roles, "system:basic-user").await.unwrap());
            assert_ne!(back["rules"], json!(null));
        }
        checked.push(RECONCILED.load(Ordering::Relaxed));
    }
    assert_eq!(checked, [1, 1, 2, 2]);
}

#[tokio::test]
async fn the_server_publishes_its_address() {
    let own = server();
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

fn server() -> ServerInfo {
    ServerInfo {
        has_default_accounts: true,
        shares_store: false,
        address: "127.0.0.1".parse().unwrap(),
        port: 6443,
        service_cidr: "10.96.0.0/12".parse().unwrap(),
        client_ca: "a certificate".to_owned(),
        proxy_ca: "another certificate".to_owned(),
        request_header: RequestHeaderInfo::default(),
    }
}

/// Deletes an object, and checks that it exists again after this time.
#[track_caller]
fn check_created_again(resource: &str, key: &str, seconds: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let clock = Arc::new(ManualClock::default());
        let cluster = Cluster::on_at(store(&clock), clock.clone(), Some(server())).await;
        let before = cluster.get(resource, key).await.unwrap();
        let from = WatchOptions::default();
        let mut events = cluster.watch(resource, from).await.unwrap();
        cluster
            .delete(resource, key, DeleteOptions::default())
            .await
            .unwrap();
        clock.advance(Duration::from_secs(seconds));
        while next(&mut events).await != format!("DELETED {key}") {}
        while next(&mut events).await != format!("ADDED {key}") {}
        let again = cluster.get(resource, key).await.unwrap();
        assert_ne!(before.uid(), again.uid());
        let managers = |object: &Stored| value(object)["metadata"]["managedFields"][0]["manager"].clone();
        assert_eq!(managers(&before), managers(&again));
    });
}

#[test]
fn objects_of_the_server_are_created_again_after_ten_seconds() {
    check_created_again("services", "default/kubernetes", 10);
    check_created_again("endpoints", "default/kubernetes", 10);
    check_created_again("endpointslices.discovery.k8s.io", "default/kubernetes", 10);
    check_created_again("servicecidrs.networking.k8s.io", "kubernetes", 10);
    check_created_again("configmaps", "kube-system/extension-apiserver-authentication", 10);
}

#[test]
fn flow_control_is_created_again_after_a_minute() {
    let group = "flowcontrol.apiserver.k8s.io";
    check_created_again(&format!("flowschemas.{group}"), "probes", 60);
    check_created_again(&format!("flowschemas.{group}"), "exempt", 60);
    check_created_again(&format!("prioritylevelconfigurations.{group}"), "system", 60);
}
