//! Webhooks as an API server calls them: reviews over HTTPS.

use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::ConfigMap;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use setpoint_api::Status;
use setpoint_client::kubeconfig::Connection;
use setpoint_conformance::wire::{Endpoint, Request};
use setpoint_runtime::reconcile::Error;
use setpoint_runtime::webhook::{Certificate, Operation, Webhooks};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{clock, in_time, send};

/// A running webhook server, and the directory of its certificate.
struct WebhookServer {
    address: std::net::SocketAddr,
    files: tempfile::TempDir,
    stop: CancellationToken,
    task: JoinSet<Result<(), Error>>,
}

impl WebhookServer {
    async fn start(hooks: Webhooks) -> Self {
        let files = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let mut running = Self {
            address,
            files,
            stop: stop.clone(),
            task: JoinSet::new(),
        };
        running.renew();
        let certificate = Certificate::files(running.path("tls.crt"), running.path("tls.key"));
        running
            .task
            .spawn(hooks.run(listener, certificate, clock(), stop));
        running
    }

    fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// Writes a new certificate, as a renewal does.
    fn renew(&self) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(self.path("tls.key"), key.serialize_pem()).unwrap();
        std::fs::write(self.path("tls.crt"), certificate.pem()).unwrap();
    }

    /// The response to a request of a client that trusts the current certificate.
    async fn send(&self, line: &str, body: &Value) -> (u16, Value) {
        let endpoint = Endpoint::new(&Connection {
            server: format!("https://{}", self.address),
            server_name: Some("localhost".to_owned()),
            authority: Some(std::fs::read(self.path("tls.crt")).unwrap()),
            ..Connection::default()
        });
        let (method, path) = line.split_once(' ').unwrap();
        let request = Request::new(method, path).body("application/json", body.to_string());
        let response = send(endpoint.unwrap(), request).await;
        (response.status, response.json().unwrap_or_default())
    }
}

fn review(operation: &str, object: Value, old: Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u-1", "operation": operation, "name": "a", "namespace": "default",
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "userInfo": {"username": "jane"}, "object": object, "oldObject": old,
        },
    })
}

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

fn hooks() -> Webhooks {
    Webhooks::new()
        .validates::<ConfigMap, _>("/validate", |request| async move {
            let who = request.user.username.unwrap_or_default();
            if request.operation == Operation::Delete {
                return Ok(vec![format!("{who} deletes {}", request.name)]);
            }
            match request.object.and_then(|map| map.data) {
                None => Err(Status::bad_request("an empty map is of no use")),
                Some(_) => Ok(Vec::new()),
            }
        })
        .mutates::<ConfigMap, _>("/defaults", |request| async move {
            let mut map = request.object.unwrap_or_default();
            map.immutable.get_or_insert(true);
            Ok(map)
        })
        .converts("/convert", |mut object, version| {
            if object["spec"].is_null() {
                return Err("there is no spec".to_owned());
            }
            object["apiVersion"] = json!(version);
            Ok(object)
        })
}

#[tokio::test]
async fn a_write_is_allowed_with_warnings_or_rejected_with_a_status() {
    let running = WebhookServer::start(hooks()).await;
    let (code, response) = running
        .send(
            "POST /validate",
            &review("CREATE", map(json!({"k": "v"})), Value::Null),
        )
        .await;
    assert_eq!(code, 200);
    assert_eq!(response["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(response["kind"], "AdmissionReview");
    assert_eq!(response["response"], json!({"uid": "u-1", "allowed": true}));
    let (_, response) = running
        .send("POST /validate", &review("CREATE", map(Value::Null), Value::Null))
        .await;
    assert_eq!(response["response"]["allowed"], false);
    assert_eq!(response["response"]["status"]["code"], 400);
    assert_eq!(
        response["response"]["status"]["message"],
        "an empty map is of no use"
    );
    let (_, response) = running
        .send("POST /validate", &review("DELETE", Value::Null, map(json!({}))))
        .await;
    assert_eq!(response["response"]["warnings"], json!(["jane deletes a"]));
}

#[tokio::test]
async fn only_changes_are_in_the_patch() {
    let running = WebhookServer::start(hooks()).await;
    let mut object = map(json!({"k": "v"}));
    object["later"] = json!("a field that the type does not know");
    let (_, response) = running
        .send("POST /defaults", &review("CREATE", object, Value::Null))
        .await;
    let response = &response["response"];
    assert_eq!(response["patchType"], "JSONPatch");
    let patch = STANDARD.decode(response["patch"].as_str().unwrap()).unwrap();
    let patch: Value = serde_json::from_slice(&patch).unwrap();
    assert_eq!(patch, json!([{"op": "add", "path": "/immutable", "value": true}]));
    let mut object = map(json!({}));
    object["immutable"] = json!(false);
    let (_, response) = running
        .send("POST /defaults", &review("UPDATE", object.clone(), object))
        .await;
    assert_eq!(response["response"], json!({"uid": "u-1", "allowed": true}));
}

#[tokio::test]
async fn objects_are_converted_to_the_desired_version() {
    let running = WebhookServer::start(hooks()).await;
    let site =
        |version: &str| json!({"apiVersion": version, "kind": "Site", "metadata": {"name": "a"}, "spec": {}});
    let mut review = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u-2", "desiredAPIVersion": "example.com/v2",
            "objects": [site("example.com/v1"), site("example.com/v2")]},
    });
    let (_, response) = running.send("POST /convert", &review).await;
    let expected = json!({
        "uid": "u-2", "convertedObjects": [site("example.com/v2"), site("example.com/v2")],
        "result": {"status": "Success"},
    });
    assert_eq!(response["response"], expected);
    review["request"]["objects"][0]["spec"] = Value::Null;
    let (_, response) = running.send("POST /convert", &review).await;
    assert_eq!(
        response["response"]["result"],
        json!({"status": "Failure", "message": "there is no spec"})
    );
}

#[tokio::test]
async fn an_invalid_review_is_a_bad_request() {
    let running = WebhookServer::start(hooks()).await;
    for (line, body, expected) in [
        ("POST /validate", json!({"kind": "Pod"}), 400),
        ("GET /validate", Value::Null, 405),
        ("POST /elsewhere", Value::Null, 404),
    ] {
        assert_eq!(running.send(line, &body).await.0, expected, "{line}");
    }
}

/// A renewed certificate is used for new connections; a stop closes the server.
#[tokio::test]
async fn a_renewed_certificate_is_served_and_a_stop_closes_the_port() {
    let mut running = WebhookServer::start(hooks()).await;
    let object = review("CREATE", map(json!({})), Value::Null);
    assert_eq!(running.send("POST /defaults", &object).await.0, 200);
    running.renew();
    assert_eq!(running.send("POST /defaults", &object).await.0, 200);
    running.stop.cancel();
    in_time(running.task.join_next()).await.unwrap().unwrap().unwrap();
    assert!(TcpStream::connect(running.address).await.is_err());
}

#[tokio::test]
async fn without_a_certificate_the_server_does_not_start() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let certificate = Certificate::files("/nowhere/tls.crt", "/nowhere/tls.key");
    let ended = hooks()
        .run(listener, certificate, clock(), CancellationToken::new())
        .await;
    let error = ended.unwrap_err().to_string();
    assert!(error.starts_with("cannot read \"/nowhere/tls.crt\""), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_complete_its_handshake_is_disconnected() {
    let server = WebhookServer::start(hooks()).await;
    let mut client = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
}
