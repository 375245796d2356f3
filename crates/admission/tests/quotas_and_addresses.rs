//! Quotas, cluster IPs and node ports.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use cluster::Cluster;
use serde_json::json;
use setpoint_admission::Config;
use setpoint_api::GroupResource;

async fn with_quota(hard: &str, used: &str) -> Cluster {
    let cluster = Cluster::start(&Config::default()).await;
    let quota = "resourcequotas default/q";
    let spec = format!(r#"{{"spec":{{"hard":{hard}}}}}"#);
    let mut created = cluster.create(quota, &spec).await.unwrap();
    created["status"] = json!({"hard": json(hard), "used": json(used)});
    cluster.update(quota, "status", &created).await.unwrap();
    cluster.wait_for_caches().await;
    cluster
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn quota_usage_is_written_with_the_object() {
    let cluster = with_quota(r#"{"configmaps":"1"}"#, r#"{"configmaps":"0"}"#).await;
    cluster.create("configmaps default/a", "{}").await.unwrap();
    let quota = cluster.get("resourcequotas default/q").await.unwrap();
    assert_eq!(quota["status"]["used"]["configmaps"], "1");
    let status = cluster.create("configmaps default/b", "{}").await.unwrap_err();
    assert_eq!(
        status.message,
        "configmaps \"b\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: configmaps=1"
    );
}

#[tokio::test]
async fn concurrent_writers_never_exceed_a_quota() {
    let cluster = with_quota(r#"{"configmaps":"3"}"#, r#"{"configmaps":"0"}"#).await;
    let paths: Vec<String> = (0..12).map(|at| format!("configmaps default/m{at}")).collect();
    let writes = paths.iter().map(|path| cluster.create(path, "{}"));
    let created = futures_util::future::join_all(writes).await;
    assert_eq!(created.iter().filter(|created| created.is_ok()).count(), 3);
    let quota = cluster.get("resourcequotas default/q").await.unwrap();
    assert_eq!(quota["status"]["used"]["configmaps"], "3");
}

#[tokio::test]
async fn a_service_has_its_cluster_ip_until_it_is_deleted() {
    let cluster = Cluster::start(&Config::default()).await;
    let created = cluster.create("services default/web", r#"{"spec":{"ports":[{"port":80}]}}"#);
    let created = created.await.unwrap();
    let address = created["spec"]["clusterIP"].as_str().unwrap().to_owned();
    assert!(address.starts_with("10.0.0."), "{address}");
    let path = format!("ipaddresses.networking.k8s.io /{address}");
    let held = cluster.get(&path).await.unwrap();
    assert_eq!(held["spec"]["parentRef"]["name"], "web");
    cluster.delete("services default/web").await.unwrap();
    assert!(cluster.get(&path).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn a_cluster_ip_belongs_to_one_service() {
    let cluster = Cluster::start(&Config::default()).await;
    let body = r#"{"spec":{"clusterIP":"10.0.0.7","ports":[{"port":80}]}}"#;
    cluster.create("services default/a", body).await.unwrap();
    let status = cluster.create("services default/b", body).await.unwrap_err();
    assert_eq!(
        status.message,
        "Service \"b\" is invalid: spec.clusterIPs: Invalid value: [\"10.0.0.7\"]: failed to allocate IP 10.0.0.7: provided IP is already allocated"
    );
}

#[tokio::test]
async fn when_all_addresses_are_allocated_the_next_service_is_rejected() {
    let config = Config {
        service_cidr: "10.0.0.0/30".parse().unwrap(),
        ..Config::default()
    };
    let cluster = Cluster::start(&config).await;
    let body = r#"{"spec":{"ports":[{"port":80}]}}"#;
    for name in ["a", "b"] {
        let path = format!("services default/{name}");
        cluster.create(&path, body).await.unwrap();
    }
    let status = cluster.create("services default/c", body).await.unwrap_err();
    assert!(
        status.message.ends_with("failed to allocate IP: range is full"),
        "{}",
        status.message
    );
}

#[tokio::test]
async fn a_node_port_belongs_to_one_service() {
    let cluster = Cluster::start(&Config::default()).await;
    let body = r#"{"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":30080}]}}"#;
    cluster.create("services default/a", body).await.unwrap();
    cluster.wait_for_caches().await;
    let status = cluster.create("services default/b", body).await.unwrap_err();
    assert_eq!(
        status.message,
        "Service \"b\" is invalid: spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated"
    );
    let free = body.replace(",\"nodePort\":30080", "");
    let created = cluster.create("services default/c", &free).await.unwrap();
    let port = created["spec"]["ports"][0]["nodePort"].as_i64().unwrap();
    assert!((30_000..=32_767).contains(&port) && port != 30_080);
}

/// A port of a Service, with its protocol, number and node port.
fn port(protocol: &str, number: u16, node_port: u16) -> String {
    let name = format!("p{number}-{}", protocol.to_lowercase());
    format!(r#"{{"name":"{name}","protocol":"{protocol}","port":{number},"nodePort":{node_port}}}"#)
}

#[tokio::test]
async fn protocols_of_one_port_share_a_node_port() {
    let cluster = Cluster::start(&Config::default()).await;
    let body = |ports: [String; 2]| {
        let ports = ports.join(",");
        format!(r#"{{"spec":{{"type":"NodePort","ports":[{ports}]}}}}"#)
    };
    let shared = body([port("TCP", 53, 30053), port("UDP", 53, 30053)]);
    cluster.create("services default/dns", &shared).await.unwrap();
    let other = body([port("TCP", 53, 30054), port("UDP", 54, 30054)]);
    let status = cluster
        .create("services default/other", &other)
        .await
        .unwrap_err();
    assert_eq!(
        status.message,
        "Service \"other\" is invalid: spec.ports[1].nodePort: Invalid value: 30054: provided port is already allocated"
    );
}

#[tokio::test]
async fn a_health_check_port_is_a_node_port() {
    let cluster = Cluster::start(&Config::default()).await;
    let body = |health: u16| {
        format!(
            r#"{{"spec":{{"type":"LoadBalancer","externalTrafficPolicy":"Local","allocateLoadBalancerNodePorts":false,"healthCheckNodePort":{health},"ports":[{{"port":80}}]}}}}"#
        )
    };
    cluster.create("services default/a", &body(30001)).await.unwrap();
    cluster.wait_for_caches().await;
    for (health, why) in [
        (30001, "provided port is already allocated"),
        (
            80,
            "provided port is not in the valid range. The range of valid ports is 30000-32767",
        ),
    ] {
        let status = cluster
            .create("services default/b", &body(health))
            .await
            .unwrap_err();
        let expected = format!("failed to allocate requested HealthCheck NodePort {health}: {why}");
        assert_eq!((status.code, status.message), (500, expected));
    }
}

/// The ports of the stored bitmap, of eight.
fn stored_ports(cluster: &Cluster) -> Option<Vec<u8>> {
    let range = cluster.find_range(&GroupResource::new("", "services"));
    range.map(|range| {
        assert_eq!(range.allocation.range, "30000-30007");
        range.allocation.data
    })
}

#[tokio::test]
async fn on_a_shared_store_node_ports_are_allocated_from_a_bitmap() {
    let config = Config {
        shares_store: true,
        node_port_range: (30_000, 30_007),
        ..Config::default()
    };
    let cluster = Cluster::start(&config).await;
    let body = r#"{"spec":{"type":"NodePort","ports":[{"port":80}]}}"#;
    let dry_run = cluster
        .create_dry_run("services default/dry", body)
        .await
        .unwrap();
    assert!(dry_run["spec"]["ports"][0]["nodePort"].is_number());
    assert_eq!(stored_ports(&cluster), None);
    let paths: Vec<String> = (0..8).map(|at| format!("services default/s{at}")).collect();
    let created = futures_util::future::join_all(paths.iter().map(|path| cluster.create(path, body))).await;
    for service in created {
        service.unwrap();
    }
    assert_eq!(stored_ports(&cluster), Some(vec![0xff]));
    for path in &paths[1..] {
        cluster.delete(path).await.unwrap();
    }
    let left = cluster.get(&paths[0]).await.unwrap();
    let port = left["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
    assert_eq!(stored_ports(&cluster), Some(vec![1 << (port - 30_000)]));
}

#[tokio::test]
async fn a_claim_gets_a_protection_finalizer() {
    let cluster = Cluster::start(&Config::default()).await;
    let claim = r#"{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}"#;
    let created = cluster
        .create("persistentvolumeclaims default/a", claim)
        .await
        .unwrap();
    assert_eq!(
        created["metadata"]["finalizers"],
        json!(["kubernetes.io/pvc-protection"])
    );
}

#[tokio::test]
async fn a_new_node_is_tainted_until_it_is_ready() {
    let cluster = Cluster::start(&Config::default()).await;
    let created = cluster.create("nodes /silent", "{}").await.unwrap();
    assert_eq!(
        created["spec"]["taints"][0]["key"],
        "node.kubernetes.io/not-ready"
    );
    let ready = r#"{"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#;
    let created = cluster.create("nodes /ready", ready).await.unwrap();
    assert_eq!(created["spec"].get("taints"), None);
}

#[tokio::test]
async fn without_a_scheduler_a_node_that_is_created_ready_is_tainted() {
    let config = Config {
        taints_ready_nodes: true,
        ..Config::default()
    };
    let cluster = Cluster::start(&config).await;
    let ready = r#"{"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#;
    let created = cluster.create("nodes /ready", ready).await.unwrap();
    assert_eq!(
        created["spec"]["taints"],
        json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])
    );
}
