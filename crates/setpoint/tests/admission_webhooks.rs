//! Admission webhooks over HTTPS: the real binary calls a webhook server of the controller library, in the test's process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster::Cluster;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Status, SystemClock};
use setpoint_client::{Api, Client};
use setpoint_runtime::webhook::{Certificate, Webhooks};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How often a request is repeated until a configuration is in force.
const ATTEMPTS: usize = 500;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(20);

/// A server of two webhooks for config maps, `/defaults` sets `data.set`, `/validate` rejects `data.bad`; and of `/record`,
/// which allows everything and records it.
struct WebhookServer {
    address: SocketAddr,
    /// Its self-signed certificate, which is also its CA bundle.
    certificate: String,
    /// The reviews of `/record`.
    recorded: mpsc::Receiver<Value>,
    _dir: TempDir,
    _running: JoinSet<()>,
}

async fn start() -> WebhookServer {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    let dir = tempfile::tempdir().unwrap();
    let (chain_path, key_path) = (dir.path().join("tls.crt"), dir.path().join("tls.key"));
    std::fs::write(&chain_path, &certificate).unwrap();
    std::fs::write(&key_path, key.serialize_pem()).unwrap();
    let (sender, recorded) = mpsc::channel(16);
    let hooks = Webhooks::new()
        .mutates::<ConfigMap, _>("/defaults", |request| async move {
            let mut map = request.object.unwrap_or_default();
            let data = map.data.get_or_insert_default();
            data.insert("set".to_owned(), "yes".to_owned());
            Ok(map)
        })
        .validates::<ConfigMap, _>("/validate", |request| async move {
            let data = request.object.and_then(|map| map.data).unwrap_or_default();
            match data.contains_key("bad") {
                true => Err(Status::bad_request("bad is forbidden")),
                false => Ok(vec!["be careful".to_owned()]),
            }
        })
        .responds("/record", move |body| {
            let sender = sender.clone();
            async move {
                let review: Value = serde_json::from_slice(&body).unwrap();
                let response = json!({"uid": review["request"]["uid"], "allowed": true});
                let response = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
                sender.send(review).await.unwrap();
                Ok(response.to_string().into_bytes())
            }
        });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut running = JoinSet::new();
    let files = Certificate::files(chain_path, key_path);
    running.spawn(async move {
        let clock = Arc::new(SystemClock::new());
        hooks
            .run(listener, files, clock, CancellationToken::new())
            .await
            .unwrap();
    });
    WebhookServer {
        address,
        certificate,
        recorded,
        _dir: dir,
        _running: running,
    }
}

impl WebhookServer {
    /// The webhooks of a configuration: one, with this path.
    fn configuration(&self, path: &str) -> Value {
        json!({
            "metadata": {"name": "test"},
            "webhooks": [{
                "name": "test.example.com",
                "clientConfig": {
                    "url": format!("https://{}{path}", self.address),
                    "caBundle": STANDARD.encode(&self.certificate),
                },
                "rules": [{
                    "operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                }],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }],
        })
    }

    async fn configure(&self, client: &Client) {
        let mutating: MutatingWebhookConfiguration =
            serde_json::from_value(self.configuration("/defaults")).unwrap();
        let validating: ValidatingWebhookConfiguration =
            serde_json::from_value(self.configuration("/validate")).unwrap();
        client
            .all::<MutatingWebhookConfiguration>()
            .create(&mutating)
            .await
            .unwrap();
        client
            .all::<ValidatingWebhookConfiguration>()
            .create(&validating)
            .await
            .unwrap();
    }
}

/// Repeats a create until the webhooks reject it. As in Kubernetes, a configuration is in force soon after the response to its
/// create, not with it. The configurations are in force in the order of their creation, the validating one last.
async fn wait_until_rejected(maps: &Api<ConfigMap>, map: &ConfigMap) {
    let name = map.metadata.name.as_deref().unwrap();
    for _ in 0..ATTEMPTS {
        if maps.create(map).await.is_err() {
            return;
        }
        maps.delete(name, DeleteOptions::default()).await.unwrap();
        tokio::time::sleep(BETWEEN_ATTEMPTS).await;
    }
    panic!("the webhooks are not called");
}

fn config_map(name: &str, key: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {key: "v"}})).unwrap()
}

#[tokio::test]
async fn webhooks_are_called_over_https_and_a_stopped_one_fails_requests() {
    let cluster = Cluster::new(&["--memory"]);
    let client = cluster.client();
    let webhooks = start().await;
    webhooks.configure(&client).await;
    let maps = client.namespaced::<ConfigMap>("default");
    wait_until_rejected(&maps, &config_map("b", "bad")).await;
    let created = maps.create(&config_map("a", "k")).await.unwrap();
    assert_eq!(created.to_owned().unwrap().data.as_ref().unwrap()["set"], "yes");
    let rejected = maps.create(&config_map("b", "bad")).await.unwrap_err();
    assert_eq!(
        (rejected.code, rejected.message.as_str()),
        (
            400,
            "admission webhook \"test.example.com\" denied the request: bad is forbidden"
        )
    );
    let address = webhooks.address;
    drop(webhooks);
    let failed = maps.create(&config_map("c", "k")).await.unwrap_err();
    let message = format!(
        "Internal error occurred: failed calling webhook \"test.example.com\": failed to call webhook: Post \"https://{address}/defaults?timeout=10s\": dial tcp {address}: connect: connection refused"
    );
    assert_eq!((failed.code, failed.message), (500, message));
}

#[tokio::test]
async fn a_webhook_gets_a_token_request_with_its_account_and_its_audiences() {
    let cluster = Cluster::new(&["--memory"]);
    let client = cluster.client();
    let mut webhooks = start().await;
    let mut configuration = webhooks.configuration("/record");
    configuration["webhooks"][0]["rules"][0]["resources"] = json!(["serviceaccounts/token"]);
    let configuration: ValidatingWebhookConfiguration = serde_json::from_value(configuration).unwrap();
    let configurations = client.all::<ValidatingWebhookConfiguration>();
    configurations.create(&configuration).await.unwrap();
    let accounts = client.namespaced::<ServiceAccount>("default");
    let account = serde_json::from_value(json!({"metadata": {"name": "robot"}})).unwrap();
    let uid = accounts.create(&account).await.unwrap().stored().uid().to_owned();
    let request = json!({"spec": {"expirationSeconds": 1200}});
    let mut review = None;
    for _ in 0..ATTEMPTS {
        let token = accounts.create_subresource("robot", "token", &request).await;
        token.unwrap();
        review = webhooks.recorded.try_recv().ok();
        if review.is_some() {
            break;
        }
        tokio::time::sleep(BETWEEN_ATTEMPTS).await;
    }
    let review = review.expect("the webhook is called once its configuration is in force");
    let object = &review["request"]["object"];
    let (metadata, spec) = (&object["metadata"], &object["spec"]);
    assert_eq!(metadata["name"], "robot");
    assert_eq!(metadata["namespace"], "default");
    assert_eq!(metadata["uid"], uid.as_str());
    assert!(metadata["creationTimestamp"].is_string());
    let managers = &metadata["managedFields"][0];
    assert_eq!(managers["subresource"], "token");
    assert_eq!(
        managers["fieldsV1"],
        json!({"f:spec": {"f:expirationSeconds": {}}})
    );
    assert_eq!(spec["expirationSeconds"], 1200);
    assert!(!spec["audiences"].as_array().unwrap().is_empty());
}
