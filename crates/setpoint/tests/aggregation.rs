//! An aggregated API server: the real binary, a metrics server in the test's process, the real kubectl.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster::{Cluster, Kubectl, manifest};
use serde_json::{Value, json};
use setpoint_testkit::ExtensionApiServer;

/// The CPU usage of pods and nodes in millicores, by name.
type Usage = Arc<Mutex<Vec<(String, u32)>>>;

/// A metrics server, registered in a cluster.
struct Metrics {
    extension: ExtensionApiServer,
    pods: Usage,
}

fn resource(name: &str, kind: &str, namespaced: bool) -> Value {
    json!({"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get", "list"]})
}

fn metrics(kind: &str, (name, cpu): &(String, u32)) -> Value {
    let usage = json!({"cpu": format!("{cpu}m"), "memory": "64Mi"});
    let mut object = json!({
        "kind": kind, "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "timestamp": "2030-01-01T00:00:00Z", "window": "10s",
    });
    if kind == "PodMetrics" {
        object["metadata"]["namespace"] = "default".into();
        object["containers"] = json!([{"name": "c", "usage": usage}]);
    } else {
        object["usage"] = usage;
    }
    object
}

fn list(kind: &str, of: &[(String, u32)]) -> Value {
    let items: Vec<Value> = of.iter().map(|one| metrics(kind, one)).collect();
    json!({"kind": format!("{kind}List"), "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items})
}

/// The responses of a metrics server.
fn respond(path: &str, pods: &[(String, u32)]) -> Option<Value> {
    let path = path.split('?').next().unwrap_or_default();
    let nodes = [("node-0".to_owned(), 250)];
    match path.strip_prefix("/apis/metrics.k8s.io/v1beta1").unwrap_or(path) {
        "" => Some(json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "metrics.k8s.io/v1beta1",
            "resources": [resource("nodes", "NodeMetrics", false), resource("pods", "PodMetrics", true)],
        })),
        "/nodes" => Some(list("NodeMetrics", &nodes)),
        "/pods" | "/namespaces/default/pods" => Some(list("PodMetrics", pods)),
        _ => None,
    }
}

impl Metrics {
    /// Starts a metrics server that trusts the cluster's front-proxy CA, and registers it.
    async fn start(cluster: &Cluster, kubectl: &Kubectl) -> Self {
        let trusted = "get configmap extension-apiserver-authentication -n kube-system";
        let trusted = kubectl.run(&format!(
            r"{trusted} -o jsonpath={{.data.requestheader-client-ca-file}}"
        ));
        let pods = Usage::default();
        let usage = pods.clone();
        let handler = move |request: &setpoint_testkit::extension_api_server::ReceivedRequest| {
            respond(&request.path, &usage.lock().unwrap())
        };
        let host = "metrics-server.kube-system.svc";
        let extension = ExtensionApiServer::start(host, &trusted, Arc::new(handler)).await;
        let registered = registration(&extension);
        let file = manifest(cluster.dir.path(), "metrics.json", &registered.to_string());
        kubectl.run(&format!("create -f {file}"));
        Self { extension, pods }
    }
}

/// An ExternalName Service that resolves to this machine, and the APIService of the metrics server.
fn registration(extension: &ExtensionApiServer) -> Value {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "metrics-server", "namespace": "kube-system"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    });
    let registered = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1beta1.metrics.k8s.io"},
        "spec": {
            "group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "caBundle": STANDARD.encode(extension.authority()),
            "service": {"name": "metrics-server", "namespace": "kube-system", "port": extension.port()},
        },
    });
    json!({"apiVersion": "v1", "kind": "List", "items": [service, registered]})
}

const READY: &str = "wait --for=condition=Available apiservice/v1beta1.metrics.k8s.io --timeout=60s";

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_top_reads_from_the_aggregated_api_server() {
    let cluster = Cluster::new(&[
        "--memory",
        "--metrics-api",
        "--nodes",
        "1",
        "--controllers",
        "none",
    ]);
    let Some(kubectl) = cluster.kubectl() else { return };
    // Until the APIService is created, the server itself serves the metrics.
    let top = kubectl.run("get --raw /apis/metrics.k8s.io/v1beta1/pods");
    assert!(top.contains("PodMetricsList"), "{top}");
    let served = Metrics::start(&cluster, &kubectl).await;
    kubectl.run(READY);
    served.pods.lock().unwrap().push(("web-1".to_owned(), 15));
    assert_eq!(
        kubectl
            .run("get apiservice v1beta1.metrics.k8s.io --no-headers")
            .split_whitespace()
            .take(3)
            .collect::<Vec<_>>(),
        ["v1beta1.metrics.k8s.io", "kube-system/metrics-server", "True"]
    );
    let top = kubectl.run("top nodes --no-headers");
    assert!(top.starts_with("node-0") && top.contains("250m"), "{top}");
    let top = kubectl.run("top pods --no-headers");
    assert_eq!(
        top.split_whitespace().collect::<Vec<_>>(),
        ["web-1", "15m", "64Mi"]
    );
    let resources = kubectl.run("api-resources --api-group=metrics.k8s.io --no-headers");
    assert!(
        resources.contains("NodeMetrics") && resources.contains("PodMetrics"),
        "{resources}"
    );
    let requests = served.extension.requests();
    let of_pods = requests
        .iter()
        .find(|request| request.path.contains("/namespaces/default/pods"))
        .unwrap();
    assert_eq!(of_pods.user, "kubernetes-admin");
    assert!(
        of_pods.groups.contains(&"system:masters".to_owned()),
        "{of_pods:?}"
    );
    kubectl.run("delete apiservice v1beta1.metrics.k8s.io");
    let own = kubectl.run("get --raw /apis/metrics.k8s.io/v1beta1/pods");
    assert!(!own.contains("web-1"), "{own}");
}

/// A Deployment of so many pods that request 100m CPU each, and its HorizontalPodAutoscaler.
fn scaled(replicas: u32) -> Value {
    let labels = json!({"app": "web"});
    let container = json!({"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}},
    });
    let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}});
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 10, "metrics": [{"type": "Resource", "resource": cpu}]},
    });
    json!({"apiVersion": "v1", "kind": "List", "items": [deployment, autoscaler]})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_autoscaler_scales_by_the_metrics_of_an_aggregated_api_server() {
    let cluster = Cluster::new(&[
        "--memory",
        "--metrics-api=false",
        "--horizontal-pod-autoscaler-sync-period=1s",
        "--horizontal-pod-autoscaler-cpu-initialization-period=0s",
    ]);
    let Some(kubectl) = cluster.kubectl() else { return };
    let file = manifest(cluster.dir.path(), "web.json", &scaled(2).to_string());
    kubectl.run(&format!("create -f {file}"));
    kubectl.run("wait --for=jsonpath={.status.readyReplicas}=2 deployment/web --timeout=60s");
    let condition = |of: &str| format!(r#"{{.status.conditions[?(@.type=="{of}")].reason}}"#);
    let active = condition("ScalingActive");
    kubectl.run(&format!(
        "wait --for=jsonpath={active}=FailedGetResourceMetric hpa/web --timeout=60s"
    ));
    let message =
        kubectl.run(r"get hpa web -o jsonpath={.status.conditions[?(@.type=='ScalingActive')].message}");
    assert_eq!(
        message,
        "the HPA was unable to compute the replica count: failed to get cpu utilization: unable to get metrics for \
         resource cpu: unable to fetch metrics from resource metrics API: the server could not find the requested \
         resource (get pods.metrics.k8s.io)"
    );
    let served = Metrics::start(&cluster, &kubectl).await;
    let names = kubectl.run("get pods -l app=web -o jsonpath={.items[*].metadata.name}");
    let usage = names.split_whitespace().map(|name| (name.to_owned(), 100));
    served.pods.lock().unwrap().extend(usage);
    // Usage is 100% of the requests, the target 50%.
    kubectl.run("wait --for=jsonpath={.spec.replicas}=4 deployment/web --timeout=60s");
    kubectl.run(&format!(
        "wait --for=jsonpath={active}=ValidMetricFound hpa/web --timeout=60s"
    ));
    let requests = served.extension.requests();
    let of_autoscaler = requests
        .iter()
        .find(|request| request.path.contains("labelSelector=app%3Dweb"))
        .unwrap();
    assert_eq!(of_autoscaler.user, "system:kube-controller-manager");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_aggregated_api_server_only_blocks_namespace_deletion() {
    let cluster = Cluster::new(&["--memory", "--nodes", "1"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    let served = Metrics::start(&cluster, &kubectl).await;
    kubectl.run(READY);
    let port = served.extension.port();
    drop(served);
    kubectl.run("annotate service metrics-server -n kube-system look=again");
    kubectl.run("wait --for=condition=Available=False apiservice/v1beta1.metrics.k8s.io --timeout=60s");
    let message =
        kubectl.run("get apiservice v1beta1.metrics.k8s.io -o jsonpath={.status.conditions[0].message}");
    let url = format!("https://localhost:{port}/apis/metrics.k8s.io/v1beta1");
    let failing = format!("failing or missing response from {url}: Get {url:?}: dial tcp ");
    let connect_error = format!(":{port}: connect: connection refused");
    assert!(
        message.starts_with(&failing) && message.ends_with(&connect_error),
        "{message}"
    );
    let raw = kubectl.fail("get --raw /apis/metrics.k8s.io/v1beta1/nodes");
    assert!(
        raw.contains("the server is currently unable to handle the request"),
        "{raw}"
    );
    assert!(
        kubectl
            .run("get --raw /metrics")
            .contains(r#"aggregator_unavailable_apiservice{name="v1beta1.metrics.k8s.io"} 1"#)
    );

    // Other resources are served, but discovery of the namespace's content is incomplete.
    kubectl.run("create namespace leaving");
    kubectl.run("create configmap map -n leaving");
    kubectl.run("delete namespace leaving --wait=false");
    let failed = r#"{.status.conditions[?(@.type=="NamespaceDeletionDiscoveryFailure")].reason}"#;
    kubectl.run(&format!(
        "wait --for=jsonpath={failed}=DiscoveryFailed namespace/leaving --timeout=60s"
    ));
    assert_eq!(kubectl.run("get configmaps -n leaving -o name"), "");
    kubectl.run("delete apiservice v1beta1.metrics.k8s.io");
    kubectl.run("wait --for=delete namespace/leaving --timeout=60s");
}
