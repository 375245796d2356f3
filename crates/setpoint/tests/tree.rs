//! `setpoint tree` on the command line, against a running cluster.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use cluster::{Cluster, manifest};
use serde_json::{Value, json};
use setpoint_api::Gvr;
use setpoint_api::options::DeleteOptions;
use setpoint_client::{Client, Kubeconfig, Patch};

fn tree(cluster: &Cluster, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_setpoint"));
    command
        .env("KUBECONFIG", cluster.kubeconfig())
        .arg("tree")
        .args(line.split_whitespace());
    command
}

/// Its standard output. It must succeed without warnings.
#[track_caller]
fn run(cluster: &Cluster, line: &str) -> String {
    let output = tree(cluster, line).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && stderr.is_empty(), "{line}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// A running `setpoint tree --watch`. It is killed on drop.
struct TreeWatch {
    process: Child,
    lines: Box<dyn Iterator<Item = String>>,
}

impl TreeWatch {
    fn start(cluster: &Cluster, line: &str) -> Self {
        let mut process = tree(cluster, line).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let lines = Box::new(lines.map_while(Result::ok));
        Self { process, lines }
    }

    /// The first printed tree that matches.
    #[track_caller]
    fn until(&mut self, is_it: impl Fn(&[String]) -> bool) -> Vec<String> {
        loop {
            let drawn: Vec<String> = self.lines.by_ref().take_while(|line| !line.is_empty()).collect();
            assert!(!drawn.is_empty(), "it ended before it was so");
            if is_it(&drawn) {
                return drawn;
            }
        }
    }
}

impl Drop for TreeWatch {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn deployment(replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "nginx"}]},
        }},
    })
}

async fn create(client: &Client, resource: Gvr, namespace: &str, object: &Value) -> String {
    let created = client
        .dynamic(resource, namespace)
        .create(object.to_string())
        .await;
    created.unwrap().uid().to_owned()
}

/// TO6
#[tokio::test]
async fn to6_a_deployments_sets_and_pods_are_printed_as_they_become_ready() {
    let cluster = Cluster::new(&["--memory", "--nodes", "2"]);
    let client = cluster.client();
    let deployments = Gvr::new("apps", "v1", "deployments");
    create(&client, deployments.clone(), "default", &deployment(2)).await;
    let mut live = TreeWatch::start(&cluster, "deployment/web --watch");
    let ready = |count: &'static str, pods: usize| {
        move |drawn: &[String]| {
            let up = drawn
                .iter()
                .filter(|line| line.contains("─Pod/") && line.contains(" True "));
            drawn[1].starts_with("Deployment/web") && drawn[1].contains(count) && up.count() == pods
        }
    };
    let drawn = live.until(ready("2/2", 2));
    assert!(
        drawn[0].starts_with("NAME ") && drawn[2].starts_with("└─ReplicaSet/web-"),
        "{drawn:?}"
    );
    assert!(
        drawn[3].starts_with("  ├─Pod/web-") && drawn[4].starts_with("  └─Pod/web-"),
        "{drawn:?}"
    );
    let scaled = Patch::merge(&json!({"spec": {"replicas": 12}})).unwrap();
    client
        .dynamic(deployments.clone(), "default")
        .patch("web", &scaled)
        .await
        .unwrap();
    live.until(ready("12/12", 12));

    let once = run(&cluster, "deploy web");
    assert_eq!(once.lines().count(), 15, "{once}");
    assert!(
        once.contains("Deployment/web") && once.contains("12/12"),
        "{once}"
    );

    let deployments = client.dynamic(deployments, "default");
    deployments.delete("web", DeleteOptions::default()).await.unwrap();
    assert!(
        !live.process.wait().unwrap().success(),
        "a tree without a root ends"
    );
}

/// The kubeconfig of a user with access to apps only.
async fn viewer(cluster: &Cluster) -> String {
    let client = cluster.client();
    let rules =
        json!([{"apiGroups": ["example.com"], "resources": ["apps"], "verbs": ["get", "list", "watch"]}]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "viewer"}, "rules": rules});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "viewer"}, "subjects": [{"kind": "User", "name": "viewer"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "viewer"}});
    let resource = |plural| Gvr::new("rbac.authorization.k8s.io", "v1", plural);
    create(&client, resource("clusterroles"), "", &role).await;
    create(&client, resource("clusterrolebindings"), "", &binding).await;
    let mut config = Kubeconfig::read(&cluster.kubeconfig()).unwrap();
    config.users[0]
        .user
        .other
        .insert("as".to_owned(), json!("viewer"));
    manifest(cluster.dir.path(), "viewer", &config.to_yaml().unwrap())
}

/// TO6: custom kinds that were just created, with cluster-scoped owners.
#[tokio::test]
async fn to6_custom_kinds_are_printed_with_what_they_own() {
    let cluster = Cluster::new(&["--memory", "--controllers", "none", "--nodes", "0"]);
    let client = cluster.client();
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "apps.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "apps", "kind": "App"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
    });
    let definitions = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    create(&client, definitions.clone(), "", &definition).await;
    assert!(run(&cluster, "crd/apps.example.com").contains("CustomResourceDefinition/apps.example.com"));
    let conditions = json!([{"type": "Ready", "status": "False", "reason": "Installing"}]);
    let app = json!({"apiVersion": "example.com/v1", "kind": "App", "metadata": {"name": "shop"},
        "status": {"conditions": conditions}});
    let apps = client.dynamic(Gvr::new("example.com", "v1", "apps"), "");
    let uid = loop {
        // It is served shortly after the CustomResourceDefinition is created.
        match apps.create(app.to_string()).await {
            Ok(app) => break app.uid().to_owned(),
            Err(status) => assert!(status.is_not_found(), "{status}"),
        }
    };
    let owners = json!([{"apiVersion": "example.com/v1", "kind": "App", "name": "shop", "uid": uid}]);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "ownerReferences": owners}});
    create(&client, Gvr::new("", "v1", "configmaps"), "default", &map).await;
    let drawn = run(&cluster, "apps.example.com/shop");
    let lines: Vec<Vec<&str>> = drawn
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["NAMESPACE", "NAME", "READY", "REASON", "AGE"]);
    assert_eq!(lines[1][..3], ["App/shop", "False", "Installing"]);
    assert_eq!(lines[2][..3], ["default", "└─ConfigMap/settings", "-"]);

    let mut blind = tree(&cluster, "apps.example.com/shop --kubeconfig");
    let blind = blind.arg(viewer(&cluster).await).output().unwrap();
    let stderr = String::from_utf8_lossy(&blind.stderr).into_owned();
    assert!(
        stderr.starts_with("warning: Forbidden: ") && stderr.contains("configmaps"),
        "{stderr}"
    );
    let drawn = String::from_utf8_lossy(&blind.stdout).into_owned();
    assert!(
        drawn.contains("App/shop") && !drawn.contains("ConfigMap"),
        "{drawn}"
    );

    let missing = tree(&cluster, "app/none").output().unwrap();
    let stderr = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert_eq!(stderr, "error: apps.example.com \"none\" not found\n");
}
