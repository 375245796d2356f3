//! The metrics page of the registry: families that dashboards of Kubernetes read.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use cluster::{Cluster, config_map};
use setpoint_api::options::{DeleteOptions, ListOptions};
use setpoint_values::metrics::{MetricsSource, TextEncoder};

#[tokio::test]
async fn writes_and_objects_are_counted_by_resource() {
    let cluster = Cluster::start().await;
    for name in ["a", "b"] {
        cluster.create(&config_map(name)).await.unwrap();
    }
    let options = DeleteOptions::default();
    cluster.delete("configmaps", "default/a", options).await.unwrap();
    // A list waits until the cache has all writes.
    cluster.list("configmaps", ListOptions::default()).await.unwrap();
    let mut text = TextEncoder::default();
    cluster.registry.write(&mut text);
    let page = text.into_string();
    for line in [
        r#"etcd_requests_total{operation="create",group="",resource="configmaps"} 2"#,
        r#"etcd_requests_total{operation="delete",group="",resource="configmaps"} 1"#,
        r#"etcd_request_duration_seconds_count{operation="create",group="",resource="configmaps"} 2"#,
        r#"apiserver_storage_objects{resource="configmaps"} 1"#,
        r#"apiserver_storage_objects{resource="deployments.apps"} 0"#,
        r#"apiserver_admission_step_admission_duration_seconds_count{operation="CREATE",rejected="false",type="validate"} 2"#,
    ] {
        assert!(page.lines().any(|own| own == line), "{line} is missing in {page}");
    }
    assert!(page.contains("apiserver_storage_size_bytes{storage_cluster_id="));
}
