//! Webhooks as a server calls them: reviews over HTTPS.

use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::ConfigMap;
use rcgen::{CertificateParams, KeyPair};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use setpoint_api::Status;
use setpoint_runtime::reconcile::Error;
use setpoint_runtime::webhook::{Certificate, Operation, Webhooks};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use crate::{clock, in_time};

/// Webhooks that run, and whom their caller trusts.
struct Running {
    address: std::net::SocketAddr,
    files: tempfile::TempDir,
    stop: CancellationToken,
    task: JoinSet<Result<(), Error>>,
}

impl Running {
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

    /// Another certificate, as somebody puts one there before the last is old.
    fn renew(&self) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(self.path("tls.key"), key.serialize_pem()).unwrap();
        std::fs::write(self.path("tls.crt"), certificate.pem()).unwrap();
    }

    /// The answer to a request, by one who trusts the certificate that is there now.
    async fn ask(&self, line: &str, body: &Value) -> (String, Value) {
        let mut roots = RootCertStore::empty();
        let pem = std::fs::read(self.path("tls.crt")).unwrap();
        roots.add(CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let mut stream = connector.connect(name, stream).await.unwrap();
        let body = body.to_string();
        let message = format!(
            "{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(message.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // The other side may close without a farewell.
        let _ = in_time(stream.read_to_end(&mut answer)).await;
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let code = head.split(' ').nth(1).unwrap().to_owned();
        (code, serde_json::from_str(body).unwrap_or_default())
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
        .validates::<ConfigMap, _>("/validate", |asked| async move {
            let who = asked.user.username.unwrap_or_default();
            if asked.operation == Operation::Delete {
                return Ok(vec![format!("{who} deletes {}", asked.name)]);
            }
            match asked.object.and_then(|map| map.data) {
                None => Err(Status::bad_request("an empty map is of no use")),
                Some(_) => Ok(Vec::new()),
            }
        })
        .mutates::<ConfigMap, _>("/defaults", |asked| async move {
            let mut map = asked.object.unwrap_or_default();
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
async fn a_write_passes_with_warnings_or_is_refused_with_a_status() {
    let running = Running::start(hooks()).await;
    let (code, answer) = running
        .ask(
            "POST /validate",
            &review("CREATE", map(json!({"k": "v"})), Value::Null),
        )
        .await;
    assert_eq!(code, "200");
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answer["kind"], "AdmissionReview");
    assert_eq!(answer["response"], json!({"uid": "u-1", "allowed": true}));
    let (_, answer) = running
        .ask("POST /validate", &review("CREATE", map(Value::Null), Value::Null))
        .await;
    assert_eq!(answer["response"]["allowed"], false);
    assert_eq!(answer["response"]["status"]["code"], 400);
    assert_eq!(
        answer["response"]["status"]["message"],
        "an empty map is of no use"
    );
    let (_, answer) = running
        .ask("POST /validate", &review("DELETE", Value::Null, map(json!({}))))
        .await;
    assert_eq!(answer["response"]["warnings"], json!(["jane deletes a"]));
}

#[tokio::test]
async fn only_what_was_changed_is_told() {
    let running = Running::start(hooks()).await;
    let mut object = map(json!({"k": "v"}));
    object["later"] = json!("a field that the type does not know");
    let (_, answer) = running
        .ask("POST /defaults", &review("CREATE", object, Value::Null))
        .await;
    let response = &answer["response"];
    assert_eq!(response["patchType"], "JSONPatch");
    let patch = STANDARD.decode(response["patch"].as_str().unwrap()).unwrap();
    let patch: Value = serde_json::from_slice(&patch).unwrap();
    assert_eq!(patch, json!([{"op": "add", "path": "/immutable", "value": true}]));
    let mut object = map(json!({}));
    object["immutable"] = json!(false);
    let (_, answer) = running
        .ask("POST /defaults", &review("UPDATE", object.clone(), object))
        .await;
    assert_eq!(answer["response"], json!({"uid": "u-1", "allowed": true}));
}

#[tokio::test]
async fn objects_are_shown_in_the_version_that_is_asked_for() {
    let running = Running::start(hooks()).await;
    let shop =
        |version: &str| json!({"apiVersion": version, "kind": "Shop", "metadata": {"name": "a"}, "spec": {}});
    let mut review = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u-2", "desiredAPIVersion": "example.com/v2",
            "objects": [shop("example.com/v1"), shop("example.com/v2")]},
    });
    let (_, answer) = running.ask("POST /convert", &review).await;
    let expected = json!({
        "uid": "u-2", "convertedObjects": [shop("example.com/v2"), shop("example.com/v2")],
        "result": {"status": "Success"},
    });
    assert_eq!(answer["response"], expected);
    review["request"]["objects"][0]["spec"] = Value::Null;
    let (_, answer) = running.ask("POST /convert", &review).await;
    assert_eq!(
        answer["response"]["result"],
        json!({"status": "Failure", "message": "there is no spec"})
    );
}

#[tokio::test]
async fn what_is_no_review_is_a_bad_request() {
    let running = Running::start(hooks()).await;
    for (line, body, expected) in [
        ("POST /validate", json!({"kind": "Pod"}), "400"),
        ("GET /validate", Value::Null, "405"),
        ("POST /elsewhere", Value::Null, "404"),
    ] {
        assert_eq!(running.ask(line, &body).await.0, expected, "{line}");
    }
}

/// A certificate that was renewed is shown to the next who calls; a stop ends it all.
#[tokio::test]
async fn a_renewed_certificate_is_shown_and_a_stop_closes_the_port() {
    let mut running = Running::start(hooks()).await;
    let object = review("CREATE", map(json!({})), Value::Null);
    assert_eq!(running.ask("POST /defaults", &object).await.0, "200");
    running.renew();
    assert_eq!(running.ask("POST /defaults", &object).await.0, "200");
    running.stop.cancel();
    in_time(running.task.join_next()).await.unwrap().unwrap().unwrap();
    assert!(TcpStream::connect(running.address).await.is_err());
}

#[tokio::test]
async fn without_a_certificate_nothing_runs() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let certificate = Certificate::files("/nowhere/tls.crt", "/nowhere/tls.key");
    let ended = hooks()
        .run(listener, certificate, clock(), CancellationToken::new())
        .await;
    let error = ended.unwrap_err().to_string();
    assert!(error.starts_with("cannot read \"/nowhere/tls.crt\""), "{error}");
}
