//! A CRD with two versions, and the webhook that converts between them, in process.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use setpoint_api::call::Body;
use setpoint_api::options::{GetOptions, ListOptions, PatchType, WatchOptions, WriteOptions};
use setpoint_api::{Gvr, Key, List, Status, Stored, Target, Verb, Watch};
use setpoint_registry_api::{WebhookClient, WebhookEndpoint, WebhookError, WebhookFuture, WebhookRequest};

use crate::cluster::{Cluster, payload, value};

pub(crate) const CRDS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// A conversion webhook: version `v1` has `spec.address`, version `v2` has `spec.host` and `spec.port`.
#[derive(Debug, Default)]
pub(crate) struct TestWebhook {
    behavior: Mutex<Behavior>,
    /// The desired version of each review, and the names of its objects.
    reviews: Mutex<Vec<(String, Vec<String>)>>,
    /// The reviews as they were sent.
    bodies: Mutex<Vec<Value>>,
}

/// What the webhook does.
#[derive(Debug, Clone, Default)]
pub(crate) enum Behavior {
    #[default]
    Convert,
    /// Converts, and then changes the response.
    Change(fn(&mut Value)),
    /// Fails without a response.
    Unreachable,
    /// Never responds.
    Hang,
}

impl TestWebhook {
    pub(crate) fn set(&self, behavior: Behavior) {
        *self.behavior.lock() = behavior;
    }

    /// The reviews since the last call: `v1: a b`.
    pub(crate) fn take_reviews(&self) -> Vec<String> {
        self.bodies.lock().clear();
        let reviews = std::mem::take(&mut *self.reviews.lock());
        let text = |(version, names): (String, Vec<String>)| format!("{version}: {}", names.join(" "));
        reviews.into_iter().map(text).collect()
    }

    pub(crate) fn last_body(&self) -> Value {
        self.bodies.lock().last().cloned().unwrap()
    }

    fn respond(&self, body: &[u8], change: fn(&mut Value)) -> Vec<u8> {
        let review: Value = serde_json::from_slice(body).unwrap();
        let desired = review["request"]["desiredAPIVersion"].as_str().unwrap();
        let objects = review["request"]["objects"].as_array().unwrap();
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let version = desired.rsplit('/').next().unwrap().to_owned();
        self.reviews
            .lock()
            .push((version, objects.iter().map(name).collect()));
        self.bodies.lock().push(review.clone());
        let converted: Vec<Value> = objects.iter().map(|object| convert(object, desired)).collect();
        let mut response = json!({
            "apiVersion": review["apiVersion"], "kind": "ConversionReview",
            "response": {
                "uid": review["request"]["uid"],
                "result": {"status": "Success"},
                "convertedObjects": converted,
            },
        });
        change(&mut response);
        serde_json::to_vec(&response).unwrap()
    }
}

impl WebhookClient for TestWebhook {
    fn post<'a>(&'a self, _endpoint: &'a WebhookEndpoint, request: WebhookRequest) -> WebhookFuture<'a> {
        let behavior = self.behavior.lock().clone();
        Box::pin(async move {
            match behavior {
                Behavior::Convert => Ok(self.respond(&request.body, |_| {}).into()),
                Behavior::Change(change) => Ok(self.respond(&request.body, change).into()),
                Behavior::Unreachable => Err(WebhookError {
                    message: "connection refused".to_owned(),
                    status: None,
                }),
                Behavior::Hang => std::future::pending().await,
            }
        })
    }
}

/// Changes every converted object of a response.
pub(crate) fn each(response: &mut Value, change: impl Fn(&mut Value)) {
    let objects = response["response"]["convertedObjects"].as_array_mut();
    objects.unwrap().iter_mut().for_each(change);
}

fn convert(object: &Value, desired: &str) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = json!(desired);
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return object;
    };
    if desired.ends_with("/v1") {
        let (host, port) = (spec.remove("host"), spec.remove("port"));
        if let (Some(host), Some(port)) = (host, port) {
            let address = format!("{}:{}", host.as_str().unwrap(), port.as_str().unwrap());
            spec.insert("address".to_owned(), json!(address));
        }
    } else if let Some(address) = spec.remove("address") {
        let (host, port) = address.as_str().unwrap().split_once(':').unwrap();
        spec.insert("host".to_owned(), json!(host));
        spec.insert("port".to_owned(), json!(port));
    }
    object
}

fn version(name: &str, storage: &str, fields: &[&str]) -> Value {
    let mut properties =
        json!({"replicas": {"type": "integer"}, "size": {"type": "string", "default": name}});
    for field in fields {
        properties[field] = json!({"type": "string"});
    }
    json!({
        "name": name, "served": true, "storage": name == storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": properties},
            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
        }}},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        "selectableFields": [{"jsonPath": format!(".spec.{}", fields[0])}],
    })
}

/// The CRD of widgets, stored in a version.
pub(crate) fn crd(storage: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", storage, &["address"]), version("v2", storage, &["host", "port"])],
            "conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": {"url": "https://example.com/convert"}, "conversionReviewVersions": ["v1"],
            }},
        },
    })
}

/// A cluster with widgets that are stored as `v2`.
pub(crate) struct Widgets {
    pub(crate) cluster: Cluster,
    pub(crate) webhook: Arc<TestWebhook>,
}

impl Widgets {
    pub(crate) async fn start() -> Self {
        Self::of(crd("v2")).await
    }

    /// Widgets of this CRD.
    pub(crate) async fn of(crd: Value) -> Self {
        let webhook = Arc::new(TestWebhook::default());
        let cluster = Cluster::with_webhooks(webhook.clone()).await;
        cluster.create(&crd.to_string()).await.unwrap();
        let widgets = Self { cluster, webhook };
        widgets.wait_until_served("v2").await;
        widgets
    }

    /// Waits until widgets are stored in this version.
    async fn wait_until_served(&self, storage: &str) {
        for _ in 0..1000 {
            let kinds = self.cluster.registry.kinds();
            let mut widgets = kinds.iter().filter(|kind| kind.info().gvk.kind == "Widget");
            if widgets.any(|kind| kind.info().storage.version == storage) {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("widgets are never stored as {storage}");
    }

    /// Changes the storage version.
    pub(crate) async fn store_as(&self, storage: &str) {
        let stored = value(&self.cluster.get(CRDS, "widgets.example.com").await.unwrap());
        let mut crd = crd(storage);
        crd["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
        self.cluster.update(&crd, "").await.unwrap();
        self.wait_until_served(storage).await;
    }

    pub(crate) async fn call(&self, target: Target, verb: Verb) -> Result<Value, Status> {
        let response = self.cluster.call(target, verb).await?;
        Ok(match response.body {
            Body::Object(object) => value(&object),
            Body::Json(json) => serde_json::from_slice(&json).unwrap(),
            Body::Status(status) => json!({"status": status.status}),
            other => panic!("{other:?} is no object"),
        })
    }

    pub(crate) async fn create(&self, version: &str, name: &str, spec: Value) -> Result<Value, Status> {
        let body = payload(&widget(version, name, spec));
        self.call(all(version), Verb::Create(body, tester())).await
    }

    pub(crate) async fn get(&self, version: &str, name: &str) -> Result<Value, Status> {
        self.call(one(version, name), Verb::Get(GetOptions::default()))
            .await
    }

    pub(crate) async fn patch(&self, target: Target, patch: PatchType, body: Value) -> Result<Value, Status> {
        let verb = Verb::Patch(patch, payload(&body), tester());
        self.call(target, verb).await
    }

    /// The `spec` of an object in a version.
    pub(crate) async fn spec(&self, version: &str, name: &str) -> Value {
        self.get(version, name).await.unwrap()["spec"].clone()
    }

    pub(crate) async fn list(&self, version: &str, options: ListOptions) -> Result<List, Status> {
        match self.cluster.call(all(version), Verb::List(options)).await?.body {
            Body::List(list) => Ok(list),
            other => panic!("{other:?} is no list"),
        }
    }

    pub(crate) async fn watch(&self, version: &str, options: WatchOptions) -> Watch {
        let response = self.cluster.call(all(version), Verb::Watch(options)).await;
        match response.unwrap().body {
            Body::Watch(watch) => watch,
            other => panic!("{other:?} is no watch"),
        }
    }

    /// The object as it is stored.
    pub(crate) fn stored(&self, name: &str) -> Value {
        let key = format!("/registry/widgets.example.com/default/{name}");
        let record = self.cluster.registry.store().snapshot().get(key.as_bytes());
        serde_json::from_slice(&record.unwrap().value).unwrap()
    }
}

pub(crate) fn widget(version: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("example.com/{version}"), "kind": "Widget",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec,
    })
}

pub(crate) fn all(version: &str) -> Target {
    Target::in_namespace(Gvr::new("example.com", version, "widgets"), "default")
}

pub(crate) fn one(version: &str, name: &str) -> Target {
    let resource = Gvr::new("example.com", version, "widgets");
    Target::object(resource, &Key::new("default", name))
}

pub(crate) fn tester() -> WriteOptions {
    manager("tester")
}

pub(crate) fn manager(name: &str) -> WriteOptions {
    WriteOptions {
        field_manager: Some(name.to_owned()),
        ..WriteOptions::default()
    }
}

/// The names of the objects of a list, and their specs.
pub(crate) fn specs(list: &List) -> Vec<String> {
    let text = |object: &Arc<Stored>| format!("{} {}", object.key().name(), value(object)["spec"]);
    list.items.iter().map(text).collect()
}
