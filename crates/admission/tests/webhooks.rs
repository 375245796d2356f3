//! Admission webhooks, called through a client in process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::Cluster;
use parking_lot::Mutex;
use serde_json::{Value, json};
use setpoint_admission::{Config, WebhookMetrics, Webhooks};
use setpoint_api::options::{DeleteOptions, DeletionPropagation, WriteOptions};
use setpoint_api::{Gvr, Key, Payload, Status, SystemClock, Target, User, Verb};
use setpoint_registry_api::{
    WebhookAddress, WebhookClient, WebhookEndpoint, WebhookError, WebhookFuture, WebhookRequest,
};
use setpoint_values::metrics::{MetricsSource, TextEncoder};
use tokio::sync::Barrier;

/// The response to an AdmissionReview: the member `response`, without its uid, or the error of the call.
type Respond = Box<dyn Fn(&str, &Value) -> Result<Value, String> + Send + Sync>;

/// Webhooks in process. The path of the URL names one.
struct TestWebhooks {
    respond: Respond,
    /// The path, the query and the AdmissionRequest of each call.
    calls: Mutex<Vec<(String, String, Value)>>,
    /// Calls wait here for each other.
    barrier: Barrier,
}

impl WebhookClient for TestWebhooks {
    fn post<'a>(&'a self, endpoint: &'a WebhookEndpoint, request: WebhookRequest) -> WebhookFuture<'a> {
        let WebhookAddress::Url(url) = &endpoint.address else {
            panic!("webhooks of these tests have URLs");
        };
        let path = url.strip_prefix("https://test/").unwrap().to_owned();
        let mut review: Value = serde_json::from_slice(&request.body).unwrap();
        let response = (self.respond)(&path, &review["request"]);
        let uid = review["request"]["uid"].clone();
        let call = (path, request.query, review["request"].clone());
        self.calls.lock().push(call);
        Box::pin(async move {
            self.barrier.wait().await;
            let mut response = response.map_err(|message| WebhookError {
                message,
                status: None,
            })?;
            response["uid"] = uid;
            review["response"] = response;
            Ok(review.to_string().into())
        })
    }
}

impl fmt::Debug for TestWebhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestWebhooks").finish_non_exhaustive()
    }
}

impl TestWebhooks {
    /// The calls since the last time: the paths.
    fn paths(&self) -> Vec<String> {
        let calls = self.calls.lock().drain(..).collect::<Vec<_>>();
        calls.into_iter().map(|(path, _, _)| path).collect()
    }

    /// The AdmissionRequest of the only call since the last time.
    fn only_request(&self) -> Value {
        let calls: Vec<_> = self.calls.lock().drain(..).collect();
        assert_eq!(calls.len(), 1, "{calls:?}");
        calls.into_iter().next().unwrap().2
    }
}

struct Fixture {
    cluster: Cluster,
    webhooks: Arc<TestWebhooks>,
    metrics: Arc<WebhookMetrics>,
}

impl Fixture {
    /// A server whose webhooks respond by this function, `together` calls at a time.
    async fn start(
        together: usize,
        respond: impl Fn(&str, &Value) -> Result<Value, String> + Send + Sync + 'static,
    ) -> Self {
        let webhooks = Arc::new(TestWebhooks {
            respond: Box::new(respond),
            calls: Mutex::default(),
            barrier: Barrier::new(together),
        });
        let metrics = Arc::new(WebhookMetrics::default());
        let config = Config {
            webhooks: Some(Webhooks {
                client: webhooks.clone(),
                clock: Arc::new(SystemClock::new()),
                metrics: metrics.clone(),
                access: None,
            }),
            ..Config::default()
        };
        let cluster = Cluster::start(&config).await;
        Self {
            cluster,
            webhooks,
            metrics,
        }
    }

    /// Creates a configuration; each webhook is its path, and further fields.
    async fn configure(&self, kind: &str, name: &str, webhooks: &[(&str, Value)]) {
        let webhooks = webhooks.iter().map(|(path, fields)| webhook(path, fields));
        let body = json!({"webhooks": webhooks.collect::<Vec<_>>()});
        let path = format!("{kind}webhookconfigurations.admissionregistration.k8s.io /{name}");
        self.cluster.create(&path, &body.to_string()).await.unwrap();
        self.cluster.wait_for_caches().await;
    }

    async fn create_map(&self, name: &str) -> Result<Value, Status> {
        let path = format!("configmaps default/{name}");
        self.cluster.create(&path, r#"{"data":{"k":"v"}}"#).await
    }

    async fn call(&self, target: Target, verb: Verb) -> Result<(), Status> {
        let user = User::component("tester");
        self.cluster.call(user, target, verb).await.map(drop)
    }
}

/// A webhook for config maps.
fn webhook(path: &str, fields: &Value) -> Value {
    let mut webhook = json!({
        "name": format!("{path}.example.com"),
        "clientConfig": {"url": format!("https://test/{path}")},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "rules": [rule("", "v1", "configmaps")],
    });
    for (name, value) in fields.as_object().unwrap() {
        webhook[name] = value.clone();
    }
    webhook
}

fn rule(group: &str, version: &str, resource: &str) -> Value {
    json!({"operations": ["*"], "apiGroups": [group], "apiVersions": [version], "resources": [resource]})
}

fn allow() -> Result<Value, String> {
    Ok(json!({"allowed": true}))
}

fn patch(operations: &Value) -> Result<Value, String> {
    let patch = STANDARD.encode(operations.to_string());
    Ok(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}

#[tokio::test]
async fn a_validating_webhook_sees_the_object_and_may_reject_it() {
    let fixture = Fixture::start(1, |_, request| match request["object"]["data"]["k"] == "v" {
        true => {
            Ok(json!({"allowed": false, "status": {"code": 403, "reason": "Forbidden", "message": "no v"}}))
        }
        false => allow(),
    });
    let fixture = fixture.await;
    fixture
        .configure("validating", "a", &[("check", json!({}))])
        .await;
    let status = fixture.create_map("a").await.unwrap_err();
    let message = "admission webhook \"check.example.com\" denied the request: no v";
    assert_eq!((status.code, status.message.as_str()), (403, message));
    let request = fixture.webhooks.only_request();
    assert_eq!(request["operation"], "CREATE");
    assert_eq!(request["userInfo"]["username"], "tester");
    let options = json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"});
    assert_eq!(request["options"], options);
    assert_eq!(request["oldObject"], Value::Null);
    fixture
        .cluster
        .create("configmaps default/b", r#"{"data":{"k":"w"}}"#)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_mutating_webhook_changes_the_object_and_a_later_one_sees_it() {
    let fixture = Fixture::start(1, |path, request| match path {
        "first" => patch(&json!([{"op": "add", "path": "/data/first", "value": "1"}])),
        _ => {
            let seen = request["object"]["data"]["first"].clone();
            patch(
                &json!([{"op": "add", "path": "/data/second", "value": seen}, {"op": "add", "path": "/nonsense", "value": 1}]),
            )
        }
    });
    let fixture = fixture.await;
    fixture.configure("mutating", "b", &[("second", json!({}))]).await;
    fixture.configure("mutating", "a", &[("first", json!({}))]).await;
    let created = fixture.create_map("a").await.unwrap();
    assert_eq!(created["data"], json!({"first": "1", "k": "v", "second": "1"}));
    assert_eq!(created.get("nonsense"), None);
}

#[tokio::test]
async fn a_webhook_is_called_again_if_a_later_one_changes_the_object() {
    let fixture = Fixture::start(1, |path, _| match path {
        "change" => patch(&json!([{"op": "add", "path": "/data/x", "value": "1"}])),
        _ => allow(),
    });
    let fixture = fixture.await;
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    fixture
        .configure(
            "mutating",
            "a",
            &[
                ("early", again.clone()),
                ("once", json!({})),
                ("change", again.clone()),
                ("late", again),
            ],
        )
        .await;
    fixture.create_map("a").await.unwrap();
    assert_eq!(
        fixture.webhooks.paths(),
        ["early", "once", "change", "late", "early"]
    );
}

/// The outcome of a create with one webhook that responds like this: `created`, or the message of the error.
async fn check(kind: &str, fields: Value, response: Result<Value, String>, expected: &str) {
    let fixture = Fixture::start(1, move |_, _| response.clone()).await;
    fixture.configure(kind, "a", &[("hook", fields)]).await;
    let outcome = match fixture.create_map("a").await {
        Ok(_) => "created".to_owned(),
        Err(status) => status.message,
    };
    assert_eq!(outcome, expected);
}

#[tokio::test]
async fn the_failure_policy_decides_if_a_webhook_cannot_be_called() {
    const FAILED: &str = "Internal error occurred: failed calling webhook \"hook.example.com\": ";
    let down = || Err("Post \"https://test/hook\": EOF".to_owned());
    let failed = format!("{FAILED}failed to call webhook: Post \"https://test/hook\": EOF");
    for kind in ["mutating", "validating"] {
        check(kind, json!({}), down(), &failed).await;
        check(kind, json!({"failurePolicy": "Ignore"}), down(), "created").await;
    }
    let other_type = Ok(json!({"allowed": true, "patch": "W10=", "patchType": "Merge"}));
    check("mutating", json!({}), other_type, "created").await;
    let typed = Ok(json!({"allowed": true, "patchType": "JSONPatch"}));
    let why = "received invalid webhook response: validating webhook may not return response.patchType";
    check("validating", json!({}), typed, &format!("{FAILED}{why}")).await;
}

#[tokio::test]
async fn a_patch_that_cannot_be_applied_fails_the_request_whatever_the_policy() {
    let ignores = json!({"failurePolicy": "Ignore"});
    let missing = patch(&json!([{"op": "add", "path": "/a/b", "value": 1}]));
    let message =
        "Internal error occurred: add operation does not apply: doc is missing path: \"/a/b\": missing value";
    check("mutating", ignores.clone(), missing, message).await;
    let invalid = patch(&json!([{"op": "add", "path": "/data", "value": "text"}]));
    let message = "Internal error occurred: json: cannot unmarshal string into Go struct field ConfigMap.data of type map[string]string";
    check("mutating", ignores, invalid, message).await;
}

#[tokio::test]
async fn a_webhook_with_side_effects_is_not_called_in_a_dry_run() {
    let fixture = Fixture::start(1, |_, _| allow()).await;
    fixture.configure("validating", "a", &[("hook", json!({}))]).await;
    let dry_run = WriteOptions {
        dry_run: true,
        ..WriteOptions::default()
    };
    let target = || Target::in_namespace(Gvr::new("", "v1", "configmaps"), "default");
    let body = || Payload::json(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#);
    fixture
        .call(target(), Verb::Create(body(), dry_run))
        .await
        .unwrap();
    let request = fixture.webhooks.only_request();
    assert_eq!(request["dryRun"], true);
    assert_eq!(request["options"]["dryRun"], json!(["All"]));
}

#[tokio::test]
async fn validating_webhooks_are_called_at_the_same_time() {
    let fixture = Fixture::start(2, |path, _| {
        Ok(json!({"allowed": path == "one", "warnings": [path]}))
    })
    .await;
    fixture
        .configure("validating", "a", &[("one", json!({})), ("two", json!({}))])
        .await;
    let status = fixture.create_map("a").await.unwrap_err();
    let message = "admission webhook \"two.example.com\" denied the request without explanation";
    assert_eq!(status.message, message);
    assert_eq!(status.warnings, ["one", "two"]);
}

#[tokio::test]
async fn an_update_and_a_deletion_have_the_old_object() {
    let fixture = Fixture::start(1, |_, _| allow()).await;
    let created = fixture.create_map("a").await.unwrap();
    fixture.configure("validating", "a", &[("hook", json!({}))]).await;
    let mut changed = created.clone();
    changed["data"]["k"] = "w".into();
    let updated = fixture
        .cluster
        .update("configmaps default/a", "", &changed)
        .await
        .unwrap();
    let request = fixture.webhooks.only_request();
    assert_eq!(request["oldObject"], created);
    assert_eq!(request["object"]["data"]["k"], "w");
    fixture.cluster.delete("configmaps default/a").await.unwrap();
    let request = fixture.webhooks.only_request();
    assert_eq!(
        (&request["object"], &request["oldObject"]),
        (&Value::Null, &updated)
    );
    assert_eq!(request["options"]["kind"], "DeleteOptions");
}

#[tokio::test]
async fn a_patch_of_a_deletion_is_an_error() {
    let fixture = Fixture::start(1, |_, _| patch(&json!([{"op": "remove", "path": "/data"}]))).await;
    fixture.create_map("a").await.unwrap();
    fixture.configure("mutating", "a", &[("hook", json!({}))]).await;
    let status = fixture.cluster.delete("configmaps default/a").await.unwrap_err();
    let message = "Internal error occurred: admission webhook \"hook.example.com\" attempted to modify the object, which is not supported for this operation";
    assert_eq!(status.message, message);
}

#[tokio::test]
async fn an_equivalent_version_is_converted_for_the_webhook_and_back() {
    let fixture = Fixture::start(1, |_, request| {
        assert_eq!(request["kind"]["version"], "v2");
        assert_eq!(request["requestKind"]["version"], "v1");
        assert_eq!(request["object"]["apiVersion"], "autoscaling/v2");
        let target = json!({"type": "Utilization", "averageUtilization": 77});
        let metric = json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
        patch(&json!([{"op": "replace", "path": "/spec/metrics", "value": metric}]))
    });
    let fixture = fixture.await;
    let rules = json!({"rules": [rule("autoscaling", "v2", "horizontalpodautoscalers")]});
    fixture.configure("mutating", "a", &[("hook", rules)]).await;
    let body = json!({"spec": {
        "maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "targetCPUUtilizationPercentage": 50,
    }});
    let path = "horizontalpodautoscalers.autoscaling default/web";
    let created = fixture.cluster.create(path, &body.to_string()).await.unwrap();
    assert_eq!(created["apiVersion"], "autoscaling/v1");
    assert_eq!(created["spec"]["targetCPUUtilizationPercentage"], 77);
}

#[tokio::test]
async fn a_scale_is_sent_instead_of_its_object() {
    let fixture = Fixture::start(1, |_, _| {
        patch(&json!([{"op": "replace", "path": "/spec/replicas", "value": 5}]))
    });
    let fixture = fixture.await;
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let body =
        json!({"spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let path = "deployments.apps default/web";
    fixture.cluster.create(path, &body.to_string()).await.unwrap();
    let rules = json!({"rules": [rule("apps", "v1", "deployments/scale")]});
    fixture.configure("mutating", "a", &[("hook", rules)]).await;
    let scale = r#"{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"web","namespace":"default"},"spec":{"replicas":3}}"#;
    let target = Target::object(Gvr::new("apps", "v1", "deployments"), &Key::new("default", "web"));
    let verb = Verb::Update(Payload::json(scale), WriteOptions::default());
    fixture.call(target.subresource("scale"), verb).await.unwrap();
    let request = fixture.webhooks.only_request();
    assert_eq!(
        request["kind"],
        json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
    );
    assert_eq!(request["object"]["spec"]["replicas"], 3);
    assert_eq!(request["oldObject"]["spec"]["replicas"], 1);
    let stored = fixture.cluster.get(path).await.unwrap();
    assert_eq!(stored["spec"]["replicas"], 5);
}

#[tokio::test]
async fn configurations_of_webhooks_are_never_sent() {
    let fixture = Fixture::start(1, |_, _| Ok(json!({"allowed": false}))).await;
    let rules = json!({"rules": [rule("*", "*", "*")]});
    fixture.configure("validating", "a", &[("hook", rules)]).await;
    let path = "validatingwebhookconfigurations.admissionregistration.k8s.io /a";
    fixture.cluster.delete(path).await.unwrap();
    assert!(fixture.webhooks.paths().is_empty());
}

#[tokio::test]
async fn match_conditions_select_requests() {
    let fixture = Fixture::start(1, |_, _| Ok(json!({"allowed": false}))).await;
    let only = |expression: &str| json!({"matchConditions": [{"name": "c", "expression": expression}]});
    fixture
        .configure(
            "validating",
            "a",
            &[("hook", only("object.metadata.name == 'b'"))],
        )
        .await;
    fixture.create_map("a").await.unwrap();
    fixture.create_map("b").await.unwrap_err();
    fixture
        .configure(
            "validating",
            "b",
            &[("other", only("object.data.missing == 'x'"))],
        )
        .await;
    let status = fixture.create_map("c").await.unwrap_err();
    let message = "configmaps \"c\" is forbidden: expression 'object.data.missing == 'x'' resulted in error: no such key: missing";
    assert_eq!((status.code, status.message.as_str()), (403, message));
}

#[tokio::test]
async fn invalid_managed_fields_are_restored_with_a_warning() {
    let fixture = Fixture::start(1, |_, _| {
        patch(
            &json!([{"op": "add", "path": "/metadata/managedFields", "value": [{"manager": "x", "operation": "Y"}]}]),
        )
    });
    let fixture = fixture.await;
    fixture.configure("mutating", "a", &[("hook", json!({}))]).await;
    let target = Target::in_namespace(Gvr::new("", "v1", "configmaps"), "default");
    let body =
        Payload::json(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}"#);
    let verb = Verb::Create(body, WriteOptions::default());
    let created = fixture
        .cluster
        .call(User::component("tester"), target, verb)
        .await;
    let created = created.unwrap();
    assert!(
        created.warnings[0].ends_with("operation must be `Apply` or `Update`"),
        "{:?}",
        created.warnings
    );
    let keys: Vec<&str> = created
        .audit_annotations
        .iter()
        .map(|one| one.key.as_str())
        .collect();
    assert_eq!(
        keys,
        [
            "patch.webhook.admission.k8s.io/round_0_index_0",
            "mutation.webhook.admission.k8s.io/round_0_index_0"
        ]
    );
}

#[tokio::test]
async fn a_deletion_of_a_collection_reviews_every_object() {
    let fixture = Fixture::start(1, |_, _| allow()).await;
    fixture.create_map("a").await.unwrap();
    fixture.create_map("b").await.unwrap();
    fixture.configure("validating", "a", &[("hook", json!({}))]).await;
    let target = Target::in_namespace(Gvr::new("", "v1", "configmaps"), "default");
    let verb = Verb::DeleteCollection(DeleteOptions::default(), Default::default());
    fixture.call(target, verb).await.unwrap();
    assert_eq!(fixture.webhooks.paths(), ["hook", "hook"]);
}

#[tokio::test]
async fn calls_are_counted() {
    let fixture = Fixture::start(1, |_, _| Ok(json!({"allowed": false}))).await;
    fixture.configure("validating", "a", &[("hook", json!({}))]).await;
    fixture.create_map("a").await.unwrap_err();
    let mut text = TextEncoder::default();
    fixture.metrics.write(&mut text);
    let text = text.into_string();
    for line in [
        r#"apiserver_admission_webhook_rejection_count{name="hook.example.com",type="validating",operation="CREATE",error_type="no_error",rejection_code="400"} 1"#,
        r#"apiserver_admission_webhook_request_total{name="hook.example.com",type="validating",operation="CREATE",code="400",rejected="true"} 1"#,
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[tokio::test]
async fn an_unknown_field_of_a_custom_object_is_dropped_after_validating_webhooks() {
    let fixture = Fixture::start(1, |path, _| match path {
        "mutate" => patch(&json!([{"op": "add", "path": "/spec", "value": {"size": 1, "unknown": 2}}])),
        _ => allow(),
    });
    let fixture = fixture.await;
    let spec = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let crd = json!({"spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
    }});
    let path = "customresourcedefinitions.apiextensions.k8s.io /widgets.example.com";
    fixture.cluster.create(path, &crd.to_string()).await.unwrap();
    fixture.cluster.wait_until_served("widgets.example.com").await;
    let rules = json!({"rules": [rule("example.com", "v1", "widgets")]});
    fixture
        .configure("mutating", "m", &[("mutate", rules.clone())])
        .await;
    fixture.configure("validating", "v", &[("validate", rules)]).await;

    let path = "widgets.example.com default/a";
    let body = json!({"apiVersion": "example.com/v1", "kind": "Widget"}).to_string();
    let created = fixture.cluster.create(path, &body).await.unwrap();
    let update = fixture.cluster.update(path, "", &created).await.unwrap();
    let reviews: Vec<_> = fixture.webhooks.calls.lock().drain(..).collect();
    let reviewed = reviews.iter().filter(|(path, _, _)| path == "validate");
    let specs: Vec<&Value> = reviewed
        .map(|(_, _, request)| &request["object"]["spec"])
        .collect();
    let unpruned = json!({"size": 1, "unknown": 2});
    assert_eq!(specs, [&unpruned, &unpruned]);
    assert_eq!(created["spec"], json!({"size": 1}));
    assert_eq!(update["spec"], json!({"size": 1}));
}

#[tokio::test]
async fn the_options_of_a_deletion_have_the_form_that_the_caller_used() {
    let fixture = Fixture::start(1, |_, _| allow()).await;
    fixture.configure("validating", "a", &[("hook", json!({}))]).await;
    let orphan = DeleteOptions {
        propagation_policy: Some(DeletionPropagation::Orphan),
        ..DeleteOptions::default()
    };
    let older = DeleteOptions {
        orphan_dependents: Some(true),
        ..orphan.clone()
    };
    for (name, options, expected) in [
        ("a", orphan, json!({"propagationPolicy": "Orphan"})),
        ("b", older, json!({"orphanDependents": true})),
    ] {
        fixture.create_map(name).await.unwrap();
        fixture.webhooks.only_request();
        let target = Target::object(Gvr::new("", "v1", "configmaps"), &Key::new("default", name));
        fixture.call(target, Verb::Delete(options)).await.unwrap();
        let mut sent = fixture.webhooks.only_request()["options"].take();
        let fields = sent.as_object_mut().unwrap();
        fields.retain(|name, _| !matches!(name.as_str(), "kind" | "apiVersion"));
        assert_eq!(sent, expected);
    }
}

#[tokio::test]
async fn a_binding_has_the_manager_of_its_fields() {
    let fixture = Fixture::start(1, |_, _| allow()).await;
    let pod = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}}).to_string();
    fixture.cluster.create("pods default/web", &pod).await.unwrap();
    let rules = json!({"rules": [rule("", "v1", "pods/binding")]});
    fixture.configure("validating", "a", &[("hook", rules)]).await;
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n1"},
    });
    let target = Target::object(Gvr::new("", "v1", "pods"), &Key::new("default", "web"));
    let options = WriteOptions {
        field_manager: Some("binder".to_owned()),
        ..WriteOptions::default()
    };
    let verb = Verb::Create(Payload::json(binding.to_string()), options);
    fixture.call(target.subresource("binding"), verb).await.unwrap();
    let request = fixture.webhooks.only_request();
    let entry = &request["object"]["metadata"]["managedFields"][0];
    assert_eq!(entry["manager"], "binder");
    assert_eq!(entry["subresource"], "binding");
    assert_eq!(entry["fieldsV1"], json!({"f:target": {}}));
    let pod = fixture.cluster.get("pods default/web").await.unwrap();
    let managers = pod["metadata"]["managedFields"].as_array().unwrap();
    assert!(
        managers.iter().all(|entry| entry["subresource"] != "binding"),
        "{managers:?}"
    );
}
