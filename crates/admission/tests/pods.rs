//! Admission of pods.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use cluster::Cluster;
use serde_json::{Value, json};
use setpoint_admission::Config;

const PLAIN: &str = r#"{"spec":{"containers":[{"name":"c","image":"app:1"}]}}"#;

#[tokio::test]
async fn a_pod_runs_as_the_default_account_and_gets_its_token() {
    let cluster = Cluster::ready().await;
    let pod = cluster.create("pods default/web", PLAIN).await.unwrap();
    assert_eq!(pod["spec"]["serviceAccountName"], "default");
    let volume = pod["spec"]["volumes"][0]["name"].as_str().unwrap();
    assert!(volume.starts_with("kube-api-access-"));
    let mount = &pod["spec"]["containers"][0]["volumeMounts"][0];
    assert_eq!(mount["name"], volume);
    assert_eq!(
        mount["mountPath"],
        "/var/run/secrets/kubernetes.io/serviceaccount"
    );
}

#[tokio::test]
async fn a_pod_without_a_service_account_is_rejected() {
    let cluster = Cluster::start(&Config::default()).await;
    cluster.create("namespaces /new", "{}").await.unwrap();
    let status = cluster.create("pods new/web", PLAIN).await.unwrap_err();
    assert_eq!(
        status.message,
        "pods \"web\" is forbidden: error looking up service account new/default: serviceaccount \"default\" not found"
    );
}

#[tokio::test]
async fn a_pod_has_the_priority_of_its_class() {
    let cluster = Cluster::ready().await;
    let class = "priorityclasses.scheduling.k8s.io /high";
    cluster.create(class, r#"{"value":5000}"#).await.unwrap();
    let body = PLAIN.replace("\"containers\"", "\"priorityClassName\":\"high\",\"containers\"");
    let pod = cluster.create("pods default/a", &body).await.unwrap();
    assert_eq!(pod["spec"]["priority"], 5000);
    let body = body.replace("high", "absent");
    let status = cluster.create("pods default/b", &body).await.unwrap_err();
    assert_eq!(
        status.message,
        "pods \"b\" is forbidden: no PriorityClass with name absent was found"
    );
}

#[tokio::test]
async fn a_pod_tolerates_an_unready_node_for_five_minutes() {
    let cluster = Cluster::ready().await;
    let pod = cluster.create("pods default/a", PLAIN).await.unwrap();
    let seconds: Vec<&Value> = pod["spec"]["tolerations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|toleration| &toleration["tolerationSeconds"])
        .collect();
    assert_eq!(seconds, [&json!(300), &json!(300)]);
}

#[tokio::test]
async fn a_container_gets_the_defaults_of_a_limit_range_and_no_more_than_its_maximum() {
    let cluster = Cluster::ready().await;
    let range = r#"{"spec":{"limits":[{"type":"Container","default":{"cpu":"500m"},"max":{"cpu":"1"}}]}}"#;
    cluster.create("limitranges default/small", range).await.unwrap();
    cluster.wait_for_caches().await;
    let pod = cluster.create("pods default/a", PLAIN).await.unwrap();
    assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"]["cpu"], "500m");
    let greedy = PLAIN.replace(
        "\"image\"",
        "\"resources\":{\"limits\":{\"cpu\":\"2\"}},\"image\"",
    );
    let status = cluster.create("pods default/b", &greedy).await.unwrap_err();
    assert_eq!(
        status.message,
        "pods \"b\" is forbidden: maximum cpu usage per Container is 1, but limit is 2"
    );
}

#[tokio::test]
async fn a_namespace_enforces_its_pod_security_level() {
    let cluster = Cluster::start(&Config::default()).await;
    let labels = r#"{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}"#;
    cluster.create("namespaces /strict", labels).await.unwrap();
    cluster.account("strict").await;
    cluster.create("pods strict/a", PLAIN).await.unwrap();
    let host = PLAIN.replace("\"containers\"", "\"hostNetwork\":true,\"containers\"");
    let status = cluster.create("pods strict/b", &host).await.unwrap_err();
    assert_eq!(
        status.message,
        "pods \"b\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)"
    );
}

#[tokio::test]
async fn an_unknown_pod_security_level_is_rejected() {
    let cluster = Cluster::start(&Config::default()).await;
    let labels = r#"{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"x"}}}"#;
    let status = cluster.create("namespaces /strict", labels).await.unwrap_err();
    assert_eq!(
        status.message,
        "Namespace \"strict\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"x\": must be one of privileged, baseline, restricted"
    );
}
