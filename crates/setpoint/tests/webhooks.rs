//! Admission webhooks over HTTPS: the real binary calls a webhook server of the controller library, in the test's process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster::Cluster;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::ConfigMap;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use setpoint_api::{Status, SystemClock};
use setpoint_client::Client;
use setpoint_runtime::webhook::{Certificate, Webhooks};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A server of two webhooks for config maps: `/defaults` sets `data.set`, `/validate` rejects `data.bad`.
struct WebhookServer {
    address: SocketAddr,
    /// Its self-signed certificate, which is also its CA bundle.
    certificate: String,
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
