//! Policies and webhooks whose rules name another version of a custom kind than the request has.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::Cluster;
use parking_lot::Mutex;
use serde_json::{Value, json};
use setpoint_admission::{Config, WebhookMetrics, Webhooks};
use setpoint_api::SystemClock;
use setpoint_registry_api::{WebhookClient, WebhookEndpoint, WebhookFuture, WebhookRequest};

const ADMISSION: &str = "admissionregistration.k8s.io";

/// A conversion webhook and an admission webhook in process. Version `v1` of a widget has `spec.size`, version `v2`
/// `spec.amount`. The admission webhook adds 10 to the amount.
#[derive(Debug, Default)]
struct TestWebhooks {
    /// The AdmissionRequests.
    requests: Mutex<Vec<Value>>,
}

impl TestWebhooks {
    fn respond(&self, review: &Value) -> Value {
        let request = &review["request"];
        match review["kind"].as_str().unwrap() {
            "ConversionReview" => {
                let desired = &request["desiredAPIVersion"];
                let objects = request["objects"].as_array().unwrap().iter();
                let converted: Vec<Value> = objects.map(|object| convert(object, desired)).collect();
                json!({"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": converted})
            }
            _ => {
                self.requests.lock().push(request.clone());
                let amount = request["object"]["spec"]["amount"].as_i64().unwrap() + 10;
                let patch = json!([{"op": "replace", "path": "/spec/amount", "value": amount}]);
                json!({
                    "uid": request["uid"], "allowed": true, "patchType": "JSONPatch",
                    "patch": STANDARD.encode(patch.to_string()),
                })
            }
        }
    }
}

impl WebhookClient for TestWebhooks {
    fn post<'a>(&'a self, _endpoint: &'a WebhookEndpoint, request: WebhookRequest) -> WebhookFuture<'a> {
        Box::pin(async move {
            // The response comes later, as over the network.
            tokio::task::yield_now().await;
            let mut review: Value = serde_json::from_slice(&request.body).unwrap();
            review["response"] = self.respond(&review);
            Ok(review.to_string().into())
        })
    }
}

fn convert(object: &Value, desired: &Value) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = desired.clone();
    let (from, to) = match desired.as_str().unwrap().ends_with("/v1") {
        true => ("amount", "size"),
        false => ("size", "amount"),
    };
    let spec = object["spec"].as_object_mut().unwrap();
    if let Some(number) = spec.remove(from) {
        spec.insert(to.to_owned(), number);
    }
    object
}

fn version(name: &str, field: &str) -> Value {
    json!({
        "name": name, "served": true, "storage": name == "v1",
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {field: {"type": "integer"}}},
        }}},
    })
}

/// A cluster that serves widgets in versions `v1` and `v2`.
struct Widgets {
    cluster: Cluster,
    webhooks: Arc<TestWebhooks>,
}

impl Widgets {
    /// Versions without a webhook have the same fields.
    async fn without_conversion() -> Self {
        let versions = [version("v1", "size"), version("v2", "size")];
        Self::start(&versions, json!({"strategy": "None"})).await
    }

    async fn with_webhook() -> Self {
        let versions = [version("v1", "size"), version("v2", "amount")];
        let conversion = json!({"strategy": "Webhook", "webhook": {
            "clientConfig": {"url": "https://test/convert"}, "conversionReviewVersions": ["v1"],
        }});
        Self::start(&versions, conversion).await
    }

    async fn start(versions: &[Value], conversion: Value) -> Self {
        let webhooks = Arc::new(TestWebhooks::default());
        let config = Config {
            webhooks: Some(Webhooks {
                client: webhooks.clone(),
                clock: Arc::new(SystemClock::new()),
                metrics: Arc::new(WebhookMetrics::default()),
                access: None,
            }),
            ..Config::default()
        };
        let cluster = Cluster::with_conversion_webhooks(&config, webhooks.clone()).await;
        let crd = json!({"spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": versions, "conversion": conversion,
        }});
        let path = "customresourcedefinitions.apiextensions.k8s.io /widgets.example.com";
        cluster.create(path, &crd.to_string()).await.unwrap();
        cluster.wait_until_served("widgets.example.com").await;
        Self { cluster, webhooks }
    }

    /// Binds a policy of this kind for widgets of version `v2`.
    async fn bind(&self, kind: &str, mut spec: Value, mut binding: Value) {
        spec["matchConstraints"] = json!({"resourceRules": [rule()]});
        spec["failurePolicy"] = json!("Fail");
        let policy = json!({"spec": spec}).to_string();
        let path = format!("{kind}admissionpolicies.{ADMISSION} /p");
        self.cluster.create(&path, &policy).await.unwrap();
        binding["policyName"] = json!("p");
        let binding = json!({"spec": binding}).to_string();
        let path = format!("{kind}admissionpolicybindings.{ADMISSION} /b");
        self.cluster.create(&path, &binding).await.unwrap();
        self.cluster.wait_for_caches().await;
    }

    /// Creates a widget in version `v1`, then sets its size to 3. Returns both specs, or the first error.
    async fn write(&self) -> String {
        let path = "widgets.example.com default/w";
        let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"size": 2}});
        let created = match self.cluster.create(path, &widget.to_string()).await {
            Ok(created) => created,
            Err(status) => return status.message,
        };
        let mut changed = created.clone();
        changed["spec"]["size"] = json!(3);
        match self.cluster.update(path, "", &changed).await {
            Ok(updated) => format!("{} {}", created["spec"], updated["spec"]),
            Err(status) => status.message,
        }
    }
}

fn rule() -> Value {
    json!({
        "apiGroups": ["example.com"], "apiVersions": ["v2"], "operations": ["CREATE", "UPDATE"],
        "resources": ["widgets"],
    })
}

async fn check_validation(widgets: Widgets, expression: &str, expected: &str) {
    let spec = json!({"validations": [{"expression": expression}]});
    widgets
        .bind("validating", spec, json!({"validationActions": ["Deny"]}))
        .await;
    assert_eq!(widgets.write().await, expected);
}

/// CR4
#[tokio::test]
async fn a_validating_policy_gets_the_version_that_its_rule_names() {
    let admitted = r#"{"size":2} {"size":3}"#;
    let denied = |expression: &str| {
        format!(
            "widgets.example.com \"w\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: {expression}"
        )
    };
    let version = "[object, oldObject].all(o, o == null || o.apiVersion == 'example.com/v2')";
    check_validation(Widgets::without_conversion().await, version, admitted).await;
    let other = "object.apiVersion == 'example.com/v1'";
    check_validation(Widgets::without_conversion().await, other, &denied(other)).await;

    let amounts = "object.spec.amount == (oldObject == null ? 2 : oldObject.spec.amount + 1)";
    check_validation(Widgets::with_webhook().await, amounts, admitted).await;
    let small = "object.spec.amount < 3";
    check_validation(Widgets::with_webhook().await, small, &denied(small)).await;
}

async fn check_mutation(widgets: Widgets, expression: &str, expected: &str) {
    let spec = json!({
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    });
    widgets.bind("mutating", spec, json!({})).await;
    assert_eq!(widgets.write().await, expected);
}

/// CR4
#[tokio::test]
async fn a_mutating_policy_changes_the_version_that_its_rule_names() {
    let patch = |field: &str| {
        format!("[JSONPatch{{op: 'replace', path: '/spec/{field}', value: object.spec.{field} + 10}}]")
    };
    let expected = r#"{"size":12} {"size":13}"#;
    check_mutation(Widgets::without_conversion().await, &patch("size"), expected).await;
    check_mutation(Widgets::with_webhook().await, &patch("amount"), expected).await;
}

/// CR4
#[tokio::test]
async fn an_equivalent_webhook_gets_and_patches_converted_objects() {
    let widgets = Widgets::with_webhook().await;
    let webhook = json!({
        "name": "a.example.com", "rules": [rule()], "matchPolicy": "Equivalent", "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://test/admit"},
        "matchConditions": [{"name": "c", "expression": "object.spec.amount > 0"}],
    });
    let path = format!("mutatingwebhookconfigurations.{ADMISSION} /m");
    let body = json!({"webhooks": [webhook]}).to_string();
    widgets.cluster.create(&path, &body).await.unwrap();
    widgets.cluster.wait_for_caches().await;

    assert_eq!(widgets.write().await, r#"{"size":12} {"size":13}"#);
    let requests = widgets.webhooks.requests.lock();
    let shown = |object: &Value| format!("{} {}", object["apiVersion"], object["spec"]);
    let objects: Vec<String> = requests
        .iter()
        .flat_map(|request| [shown(&request["object"]), shown(&request["oldObject"])])
        .collect();
    assert_eq!(
        objects,
        [
            r#""example.com/v2" {"amount":2}"#,
            "null null",
            r#""example.com/v2" {"amount":3}"#,
            r#""example.com/v2" {"amount":12}"#,
        ]
    );
}
