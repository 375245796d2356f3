//! A conversion webhook over HTTPS: the real binary, and the webhook server of our library in the test's process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster::Cluster;
use futures_util::StreamExt;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use setpoint_api::options::{ListOptions, WatchOptions};
use setpoint_api::{Event, Gvr, Stored, SystemClock};
use setpoint_client::{Client, Patch};
use setpoint_runtime::webhook::{Certificate, Webhooks};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A running conversion webhook: `v1` has `spec.name`, `v2` has `spec.title`.
struct ConversionServer {
    url: String,
    ca_bundle: String,
    _files: TempDir,
    _task: JoinSet<()>,
}

impl ConversionServer {
    async fn start() -> Self {
        let files = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let path = |name: &str| files.path().join(name);
        std::fs::write(path("tls.key"), key.serialize_pem()).unwrap();
        std::fs::write(path("tls.crt"), certificate.pem()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = Certificate::files(path("tls.crt"), path("tls.key"));
        let hooks = Webhooks::new().converts("/convert", convert);
        let (clock, stop) = (Arc::new(SystemClock::new()), CancellationToken::new());
        let mut task = JoinSet::new();
        task.spawn(async move { hooks.run(listener, served, clock, stop).await.unwrap() });
        Self {
            url: format!("https://localhost:{port}/convert"),
            ca_bundle: STANDARD.encode(certificate.pem()),
            _files: files,
            _task: task,
        }
    }

    fn crd(&self) -> Value {
        let version = |name: &str, field: &str| {
            json!({
                "name": name, "served": true, "storage": name == "v2",
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {field: {"type": "string"}}},
                }}},
            })
        };
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "books.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "books", "kind": "Book"},
                "versions": [version("v1", "name"), version("v2", "title")],
                "conversion": {"strategy": "Webhook", "webhook": {
                    "conversionReviewVersions": ["v1"],
                    "clientConfig": {"url": self.url, "caBundle": self.ca_bundle},
                }},
            },
        })
    }
}

fn convert(mut object: Value, desired: &str) -> Result<Value, String> {
    let (from, to) = match desired {
        "example.com/v1" => ("title", "name"),
        _ => ("name", "title"),
    };
    object["apiVersion"] = json!(desired);
    let spec = object["spec"].as_object_mut().ok_or("there is no spec")?;
    if let Some(value) = spec.remove(from) {
        spec.insert(to.to_owned(), value);
    }
    Ok(object)
}

fn spec(object: &Stored) -> Value {
    let object: Value = serde_json::from_slice(object.json()).unwrap();
    object["spec"].clone()
}

/// Creates the CRD and waits until its kind is served.
async fn serve(client: &Client, crd: &Value) {
    let resource = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let crds = client.dynamic(resource, "");
    let mut changes = crds.watch(&WatchOptions::default()).await.unwrap();
    crds.create(crd.to_string()).await.unwrap();
    while let Some(event) = changes.next().await {
        if let Event::Modified(crd) = event {
            let crd: Value = serde_json::from_slice(crd.json()).unwrap();
            let conditions = crd["status"]["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            if conditions
                .iter()
                .any(|one| one["type"] == "Established" && one["status"] == "True")
            {
                return;
            }
        }
    }
    panic!("the CRD is never established");
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_read_written_and_watched_in_every_version_over_https() {
    let webhook = ConversionServer::start().await;
    let cluster = Cluster::new(&["--memory", "--controllers", "none"]);
    let client = cluster.client();
    serve(&client, &webhook.crd()).await;
    let of = |version: &str| client.dynamic(Gvr::new("example.com", version, "books"), "default");
    let mut events = of("v1").watch(&WatchOptions::default()).await.unwrap();
    let book = json!({
        "apiVersion": "example.com/v1", "kind": "Book",
        "metadata": {"name": "a", "namespace": "default"}, "spec": {"name": "Emma"},
    });
    let created = of("v1").create(book.to_string()).await.unwrap();
    assert_eq!(spec(&created), json!({"name": "Emma"}));
    let stored = of("v2").get("a").await.unwrap();
    assert_eq!(spec(&stored), json!({"title": "Emma"}));
    let patch = Patch::merge(&json!({"spec": {"title": "Persuasion"}})).unwrap();
    of("v2").patch("a", &patch).await.unwrap();
    let list = of("v1").list(&ListOptions::default()).await.unwrap();
    assert_eq!(
        list.items.iter().map(|book| spec(book)).collect::<Vec<_>>(),
        [json!({"name": "Persuasion"})]
    );
    let Some(Event::Added(added)) = events.next().await else {
        panic!("the book is added first");
    };
    assert_eq!(spec(&added), json!({"name": "Emma"}));
    let Some(Event::Modified(changed)) = events.next().await else {
        panic!("the book is changed then");
    };
    assert_eq!(spec(&changed), json!({"name": "Persuasion"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_is_gone_is_named_in_the_error() {
    let webhook = ConversionServer::start().await;
    let cluster = Cluster::new(&["--memory", "--controllers", "none"]);
    let client = cluster.client();
    serve(&client, &webhook.crd()).await;
    let of = |version: &str| client.dynamic(Gvr::new("example.com", version, "books"), "default");
    let book = json!({
        "apiVersion": "example.com/v2", "kind": "Book",
        "metadata": {"name": "a", "namespace": "default"}, "spec": {"title": "Emma"},
    });
    of("v2").create(book.to_string()).await.unwrap();
    let url = webhook.url.clone();
    drop(webhook);
    let failed = of("v1").get("a").await.unwrap_err();
    let expected =
        format!("conversion webhook for example.com/v2, Kind=Book failed: Post \"{url}?timeout=30s\": ");
    assert!(failed.message.contains(&expected), "{}", failed.message);
    assert!(of("v2").get("a").await.is_ok());
}
