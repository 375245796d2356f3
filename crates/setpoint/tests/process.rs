//! The process: its start, its errors at start, and its end.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::process::Command;

use cluster::Cluster;
use k8s_openapi::api::core::v1::{ComponentStatus, ConfigMap, Namespace};
use setpoint_api::options::ListOptions;
use setpoint_client::Http;

/// The standard error of a command that must fail.
#[track_caller]
fn fail(line: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_setpoint"))
        .args(line.split_whitespace())
        .output()
        .unwrap();
    assert!(!output.status.success(), "setpoint {line} succeeded");
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test]
async fn a_terminated_process_exits_with_0_even_with_a_watch_open() {
    let cluster = Cluster::new(&[]);
    let namespaces = cluster.client().all::<Namespace>();
    let watch = namespaces
        .watch(&setpoint_api::options::WatchOptions::default())
        .await
        .unwrap();
    assert!(cluster.terminate());
    drop(watch);
}

#[test]
fn a_taken_port_is_named_and_another_is_suggested() {
    let cluster = Cluster::new(&["--memory"]);
    let server = cluster.connection().server;
    let address = server.trim_start_matches("https://");
    let stderr = fail(&format!("up --memory --listen {address}"));
    assert!(
        stderr.contains(&format!("cannot listen on {address}")) && stderr.contains("--listen"),
        "{stderr}"
    );
}

#[test]
fn a_data_directory_in_use_is_named() {
    let cluster = Cluster::new(&[]);
    let dir = cluster.dir.path().display().to_string();
    let stderr = fail(&format!("up --listen 127.0.0.1:0 --data-dir {dir}"));
    assert!(stderr.contains("in use") && stderr.contains(&dir), "{stderr}");
}

#[test]
fn an_unknown_controller_is_named() {
    let stderr = fail("up --memory --listen 127.0.0.1:0 --controllers bogus");
    assert!(stderr.contains("unknown controller \"bogus\""), "{stderr}");
}

#[test]
fn another_clusters_kubeconfig_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    let theirs =
        "apiVersion: v1\nkind: Config\nclusters:\n- name: work\n  cluster: {server: 'https://work'}\n";
    std::fs::write(&path, theirs).unwrap();
    let stderr = fail(&format!(
        "up --memory --listen 127.0.0.1:0 --kubeconfig {}",
        path.display()
    ));
    assert!(
        stderr.contains("belongs to another cluster") && stderr.contains("--merge-kubeconfig"),
        "{stderr}"
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), theirs);
}

#[tokio::test]
async fn anonymous_callers_are_rejected() {
    let cluster = Cluster::new(&["--memory"]);
    let rejected = cluster
        .anonymous()
        .all::<Namespace>()
        .list(&ListOptions::default())
        .await
        .unwrap_err();
    assert_eq!(rejected.code, 403);
    assert!(
        rejected
            .message
            .starts_with("namespaces is forbidden: User \"system:anonymous\" cannot list"),
        "{rejected}"
    );
}

#[tokio::test]
async fn every_metric_family_is_declared_once() {
    let cluster = Cluster::new(&["--memory"]);
    let page = Http::new(&cluster.connection())
        .unwrap()
        .get("/metrics")
        .await
        .unwrap();
    let page = String::from_utf8(page.to_vec()).unwrap();
    let mut names: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .collect();
    for name in [
        "apiserver_request_total counter",
        "workqueue_depth gauge",
        "process_resident_memory_bytes gauge",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    let helps = page.lines().filter(|line| line.starts_with("# HELP "));
    assert_eq!(helps.count(), names.len(), "a family has no help text");
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[tokio::test]
async fn the_components_of_the_process_have_a_status() {
    let cluster = Cluster::new(&["--memory", "--controllers", "-scheduler"]);
    let statuses = cluster.client().all::<ComponentStatus>();
    let list = statuses.list(&ListOptions::default()).await.unwrap();
    let health = |status: ComponentStatus| {
        let condition = status.conditions.unwrap().remove(0);
        let detail = condition.message.or(condition.error).unwrap();
        format!("{} {} {detail}", status.metadata.name.unwrap(), condition.status)
    };
    let items = list.items.iter().map(|status| health(status.to_owned().unwrap()));
    assert_eq!(
        items.collect::<Vec<_>>(),
        [
            "controller-manager True ok",
            "etcd-0 True ok",
            "scheduler False disabled by --controllers",
        ]
    );
    let http = Http::new(&cluster.connection()).unwrap();
    let status = http.get("/api/v1/componentstatuses/etcd-0").await.unwrap();
    let status: serde_json::Value = serde_json::from_slice(&status).unwrap();
    assert_eq!(status["metadata"], serde_json::json!({"name": "etcd-0"}));
    assert!(statuses.get("etcd-1").await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn a_backup_of_a_running_store_restores_into_a_new_one() {
    let cluster = Cluster::new(&[]);
    let maps = cluster.client().namespaced::<ConfigMap>("default");
    let mut map = ConfigMap::default();
    map.metadata.name = Some("kept".to_owned());
    maps.create(&map).await.unwrap();
    let elsewhere = std::sync::Arc::new(tempfile::tempdir().unwrap());
    let file = elsewhere.path().join("backup");
    let run = |args: &[&str]| {
        let status = Command::new(env!("CARGO_BIN_EXE_setpoint"))
            .args(args)
            .status()
            .unwrap();
        assert!(status.success(), "{args:?}");
    };
    let (kubeconfig, file) = (
        cluster.kubeconfig().display().to_string(),
        file.display().to_string(),
    );
    run(&["store", "backup", "--kubeconfig", &kubeconfig, &file]);
    let dir = elsewhere.path().display().to_string();
    run(&["store", "restore", &file, &dir]);
    run(&["store", "verify", &dir]);
    let restored = Cluster::start(&elsewhere, &[]);
    restored
        .client()
        .namespaced::<ConfigMap>("default")
        .get("kept")
        .await
        .unwrap();
}

/// A request to a node that does not exist is rejected before its body is read.
#[test]
fn a_rejected_proxy_request_with_a_large_body_gets_its_response() {
    let cluster = Cluster::new(&["--memory", "--nodes", "0", "--controllers", "none"]);
    let endpoint = setpoint_conformance::wire::Endpoint::of_kubeconfig(&cluster.kubeconfig()).unwrap();
    let path = "/api/v1/nodes/absent/proxy";
    let request =
        setpoint_conformance::wire::Request::new("PUT", path).body("text/plain", vec![b'x'; 2 << 20]);
    for _ in 0..10 {
        let mut connection = endpoint
            .connect(&setpoint_conformance::wire::Caller::Owner)
            .unwrap();
        assert_eq!(connection.round_trip(&request).unwrap().status, 404);
    }
}
