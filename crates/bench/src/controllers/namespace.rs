//! A namespace of ten thousand objects of built-in and custom kinds, deleted.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{api_client::ApiClient, create};
use crate::{
    api::{
        Setting,
        server::{Server, ServerComponents, new_dir},
    },
    report::{Measurement, Report},
};

const NAMESPACE: &str = "/api/v1/namespaces/full";
const SETTLE: Duration = Duration::from_secs(3);

pub(crate) async fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let count = setting.full_or_quick(10_000, 1_000);
    let dir = new_dir(setting)?;
    let server = Server::setpoint(setting, dir.path(), ServerComponents::All).await?;
    let mut client = ApiClient::new(&server).await?;
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    client.send_ok("POST", crds, &crd().to_string()).await?;
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "full"}}).to_string();
    client.send_ok("POST", "/api/v1/namespaces", &namespace).await?;
    let widgets = "/apis/example.com/v1/namespaces/full/widgets";
    client.wait_until(widgets, |status, _| status == 200).await?;
    for (path, body, share) in objects() {
        create(setting, &server, (&path, &body.to_string()), count * share / 100).await?;
    }
    sleep(SETTLE).await;
    let (before, cpu, start) = (server.memory()?, server.cpu_time()?, Instant::now());
    client.send_ok("DELETE", NAMESPACE, "").await?;
    client.wait_until(NAMESPACE, |status, _| status == 404).await?;
    let wall = start.elapsed();
    let cpu = (server.cpu_time()? - cpu).as_secs_f64() * 1e6 / count as f64;
    for (path, ..) in objects() {
        client.wait_for_count(&path, 0).await?;
    }
    let line = Measurement::new("controllers", "namespace_deleted", wall.as_secs_f64(), "s");
    report.add(line.cpu(cpu).operations(count));
    let added = server.memory()?.peak.saturating_sub(before.resident) as f64 / 1e6;
    report.add(Measurement::new("controllers", "namespace_memory_added", added, "MB").operations(count));
    server.stop().await
}

/// Where to create what, and how many of a hundred.
fn objects() -> Vec<(String, Value, u64)> {
    let meta = json!({"name": "x-########"});
    let template = json!({
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "main", "image": "example.com/app:1"}]},
    });
    let core = |plural: &str| format!("/api/v1/namespaces/full/{plural}");
    let apps = |plural: &str| format!("/apis/apps/v1/namespaces/full/{plural}");
    let selector = json!({"matchLabels": {"app": "x"}});
    vec![
        (
            core("configmaps"),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"key": "value"}}),
            40,
        ),
        (
            core("secrets"),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"key": "value"}}),
            15,
        ),
        (
            core("services"),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}}),
            5,
        ),
        (
            core("pods"),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {
                "schedulerName": "absent", "containers": template["spec"]["containers"]}}),
            10,
        ),
        (
            apps("deployments"),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {
                "replicas": 0, "selector": selector, "template": template}}),
            5,
        ),
        (
            "/apis/example.com/v1/namespaces/full/widgets".to_owned(),
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": meta, "spec": {"size": 1}}),
            25,
        ),
    ]
}

fn crd() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}
