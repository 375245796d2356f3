//! The metrics API without metrics-server: the real binary with simulated nodes, the real kubectl.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use cluster::{Cluster, Kubectl, manifest};
use serde_json::{Value, json};

/// A Deployment of pods with these annotations, whose container requests 100m CPU and 64Mi memory.
fn deployment(name: &str, replicas: u32, annotations: Value) -> Value {
    let labels = json!({"app": name});
    let requests = json!({"requests": {"cpu": "100m", "memory": "64Mi"}});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels, "annotations": annotations},
            "spec": {"containers": [{"name": "main", "image": "nginx", "resources": requests},
                {"name": "side", "image": "nginx"}]},
        }},
    })
}

fn create(cluster: &Cluster, kubectl: &Kubectl, object: &Value) {
    let name = object["metadata"]["name"].as_str().unwrap();
    let file = manifest(cluster.dir.path(), &format!("{name}.json"), &object.to_string());
    kubectl.run(&format!("create -f {file}"));
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

#[test]
fn kubectl_top_shows_nodes_pods_and_containers() {
    let cluster = Cluster::new(&["--memory", "--metrics-api", "--nodes", "2"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    create(&cluster, &kubectl, &deployment("web", 1, json!({})));
    kubectl.run("wait --for=jsonpath={.status.readyReplicas}=1 deployment/web --timeout=60s");
    let pod = kubectl.run("get pods -o jsonpath={.items[0].metadata.name}");
    // A container uses half of its requests, one without requests 1m and 1Mi.
    let top = kubectl.run("top pods --no-headers");
    assert_eq!(words(&top), [pod.as_str(), "51m", "33Mi"]);
    let top = kubectl.run(&format!("top pod {pod} --containers --no-headers"));
    assert_eq!(
        words(&top),
        [&pod, "main", "50m", "32Mi", &pod, "side", "1m", "1Mi"]
    );
    let top = kubectl.run("top nodes --no-headers --sort-by=cpu");
    assert_eq!(top.lines().count(), 2, "{top}");
    let first = top.lines().next().unwrap();
    assert_eq!(words(first)[1..], ["51m", "0%", "33Mi", "0%"]);
    assert_eq!(words(&kubectl.run("top pods -l app=web --no-headers")).len(), 3);
    let none = kubectl.outcome("top pods -l app=other --no-headers").1;
    assert!(none.contains("No resources found"), "{none}");
}

#[test]
fn metrics_have_the_form_of_metrics_server() {
    let cluster = Cluster::new(&["--memory", "--metrics-api"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    let resources = kubectl.run("api-resources --api-group=metrics.k8s.io --no-headers");
    let resources: Vec<Vec<&str>> = resources.lines().map(words).collect();
    let version = "metrics.k8s.io/v1beta1";
    assert_eq!(
        resources,
        [
            ["nodes", version, "false", "NodeMetrics"],
            ["pods", version, "true", "PodMetrics"]
        ]
    );
    create(&cluster, &kubectl, &deployment("web", 1, json!({})));
    kubectl.run("wait --for=jsonpath={.status.readyReplicas}=1 deployment/web --timeout=60s");
    let pod = kubectl.run("get pods -o jsonpath={.items[0].metadata.name}");
    let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/{pod}");
    let metrics: Value = serde_json::from_str(&kubectl.run(&format!("get --raw {path}"))).unwrap();
    assert_eq!(metrics["kind"], "PodMetrics");
    assert_eq!(metrics["window"], "15s");
    assert_eq!(metrics["metadata"]["labels"]["app"], "web");
    assert_eq!(
        metrics["containers"][0],
        json!({"name": "main", "usage": {"cpu": "50m", "memory": "32Mi"}})
    );
    let table = kubectl.run("get pods.v1beta1.metrics.k8s.io");
    let lines: Vec<Vec<&str>> = table.lines().map(words).collect();
    assert_eq!(
        lines,
        [
            vec!["NAME", "CPU", "MEMORY", "WINDOW"],
            vec![pod.as_str(), "51m", "33Mi", "15s"]
        ]
    );
    let elsewhere = kubectl.run("get --raw /apis/metrics.k8s.io/v1beta1/namespaces/kube-system/pods");
    let elsewhere: Value = serde_json::from_str(&elsewhere).unwrap();
    assert_eq!(
        (&elsewhere["kind"], &elsewhere["items"]),
        (&json!("PodMetricsList"), &json!([]))
    );
}

#[test]
fn what_has_no_metrics_is_not_found() {
    let cluster = Cluster::new(&["--memory", "--metrics-api", "--controllers", "none"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "unbound"},
        "spec": {"containers": [{"name": "c", "image": "nginx"}], "automountServiceAccountToken": false}});
    create(&cluster, &kubectl, &pod);
    let error = kubectl.fail("top pod unbound");
    assert_eq!(
        error,
        "Error from server (NotFound): podmetrics.metrics.k8s.io \"default/unbound\" not found\n"
    );
    let error = kubectl.fail("top pod absent");
    assert_eq!(error, "Error from server (NotFound): pods \"absent\" not found\n");
    let error = kubectl.fail("get --raw /apis/metrics.k8s.io/v1beta1/nodes/absent");
    assert!(error.contains("\"absent\" not found"), "{error}");
    let error = kubectl.fail("delete pods.v1beta1.metrics.k8s.io unbound");
    assert!(error.contains("MethodNotAllowed"), "{error}");
}

#[test]
fn a_user_who_may_view_a_namespace_may_read_its_metrics() {
    let cluster = Cluster::new(&["--memory", "--metrics-api"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    kubectl.run("create rolebinding viewers --clusterrole=view --user=ann");
    kubectl.run("wait --for=jsonpath={.rules} clusterrole/view --timeout=60s");
    let can = |line: &str| kubectl.outcome(&format!("auth can-i {line}")).1;
    for (line, expected) in [
        ("list pods.metrics.k8s.io --as=ann", "yes"),
        ("list pods.metrics.k8s.io --as=ann -n kube-system", "no"),
        ("list pods.metrics.k8s.io --as=bob", "no"),
    ] {
        let output = can(line);
        assert!(output.lines().any(|word| word == expected), "{line}: {output}");
    }
    let error = kubectl.fail("get --raw /apis/metrics.k8s.io/v1beta1/nodes --as=ann");
    assert!(error.contains("nodes.metrics.k8s.io is forbidden"), "{error}");
    let error = kubectl.fail("top pods --as=bob");
    assert!(error.contains("pods.metrics.k8s.io is forbidden"), "{error}");
}

#[test]
fn an_autoscaler_scales_by_the_usage_of_simulated_pods() {
    let cluster = Cluster::new(&[
        "--metrics-api",
        "--memory",
        "--horizontal-pod-autoscaler-sync-period=1s",
        "--horizontal-pod-autoscaler-cpu-initialization-period=0s",
    ]);
    let Some(kubectl) = cluster.kubectl() else { return };
    // Each container uses 100m, of the 100m that the first requests.
    let usage = json!({"simulated.setpoint.dev/cpu-usage": "100m"});
    let mut web = deployment("web", 2, usage);
    let containers = web.pointer_mut("/spec/template/spec/containers").unwrap();
    containers.as_array_mut().unwrap().truncate(1);
    create(&cluster, &kubectl, &web);
    let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}});
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "scaler"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 4, "metrics": [{"type": "Resource", "resource": cpu}]},
    });
    create(&cluster, &kubectl, &autoscaler);
    kubectl.run("wait --for=jsonpath={.spec.replicas}=4 deployment/web --timeout=60s");
    kubectl.run("wait --for=condition=ScalingActive hpa/scaler --timeout=60s");
}
