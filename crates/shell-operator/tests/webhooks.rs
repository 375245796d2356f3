//! Webhook bindings: registration on a cluster, and reviews over HTTPS as an API server sends them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fixture::Fixture;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use setpoint_api::{Clock, Gvr, SystemClock};
use setpoint_pki::WebhookPki;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A server of webhooks, as a configuration names it.
struct Endpoint {
    address: SocketAddr,
    authority: Vec<u8>,
    server_name: &'static str,
}

impl Endpoint {
    /// Posts a body to a path. Returns the status line's code and the body.
    async fn post(&self, path: &str, body: &Value) -> (u16, String) {
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.send(&request).await
    }

    async fn send(&self, request: &str) -> (u16, String) {
        let response = self.exchange(request).await.unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        let code = head.split_whitespace().nth(1).unwrap().parse().unwrap();
        (code, body.to_owned())
    }

    /// Sends the bytes of a request without a client certificate. Returns those of the response.
    async fn exchange(&self, request: &str) -> std::io::Result<String> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(&self.authority).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from(self.server_name).unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut response = Vec::new();
        match stream.read_to_end(&mut response).await {
            // The server closes the connection without a TLS alert.
            Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => Err(error),
            _ => Ok(String::from_utf8(response).unwrap()),
        }
    }

    /// The response of a review.
    async fn review(&self, path: &str, body: &Value) -> Value {
        let (code, body) = self.post(path, body).await;
        assert_eq!(code, 200, "{body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        body["response"].clone()
    }
}

/// Waits for a value.
async fn eventually<T>(find: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..600 {
        if let Some(found) = find().await {
            return found;
        }
        SystemClock::new().sleep(Duration::from_millis(50)).await;
    }
    panic!("it has not happened within 30 seconds");
}

fn admission_review() -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u1", "operation": "CREATE", "object": {"metadata": {"name": "a"}}, "oldObject": null},
    })
}

const CONFIG: &str = "configVersion: v1
kubernetes:
- {name: maps, kind: ConfigMap, nameSelector: {matchNames: [a]}, jqFilter: .data.k, keepFullObjectsInMemory: false, executeHookOnSynchronization: false, executeHookOnEvent: []}
kubernetesValidating:
- name: deny.example.com
  includeSnapshotsFrom: [maps]
  labelSelector: {matchLabels: {a: b}}
  rules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
kubernetesMutating:
- name: deny.example.com
  failurePolicy: Fail
  timeoutSeconds: 3
  rules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [pods]}]";

/// Validation is denied, mutation patches, a request of the name `fails` fails, one of the name `silent` has no response.
const SCRIPT: &str = r#"
case "$(cat "$BINDING_CONTEXT_PATH")" in
*'"name":"fails"'*) exit 1 ;;
*'"name":"silent"'*) ;;
*'"type":"Validating"'*) echo '{"allowed":false,"message":"not today","warnings":["w"]}' > "$VALIDATING_RESPONSE_PATH" ;;
*) echo '{"allowed":true,"patch":"W10="}' > "$ADMISSION_RESPONSE_PATH" ;;
esac"#;

/// TO8
#[tokio::test(flavor = "multi_thread")]
async fn admission_bindings_are_registered_and_their_hooks_respond_to_reviews() {
    let mut fixture = Fixture::new().await;
    fixture.create("a", "1").await;
    fixture.hook("deny.sh", CONFIG, SCRIPT);
    fixture.start().await;
    let validating = fixture.client.all::<ValidatingWebhookConfiguration>();
    let mutating = fixture.client.all::<MutatingWebhookConfiguration>();
    let mutating = eventually(async || mutating.get("test-hooks").await.ok()).await;
    let mutating = mutating.to_owned().unwrap().webhooks.unwrap().remove(0);
    let stored = validating.get("test-hooks").await.unwrap().to_owned().unwrap();
    let webhook = stored.webhooks.unwrap().remove(0);
    assert_eq!(webhook.failure_policy.as_deref(), Some("Ignore"));
    assert_eq!(mutating.failure_policy.as_deref(), Some("Fail"));
    assert_eq!(mutating.timeout_seconds, Some(3));
    let service = webhook.client_config.service.unwrap();
    assert_eq!(
        (
            service.namespace.as_str(),
            service.name.as_str(),
            service.path.as_deref()
        ),
        ("default", "admission", Some("/hooks/deny-example-com"))
    );
    let mutating_path = mutating.client_config.service.unwrap().path.unwrap();
    assert_eq!(mutating_path, "/hooks/deny-example-com/mutating");
    let endpoint = Endpoint {
        address: fixture.admission,
        authority: webhook.client_config.ca_bundle.unwrap().0,
        server_name: "admission.default.svc",
    };
    let response = endpoint
        .review("/hooks/deny-example-com", &admission_review())
        .await;
    assert_eq!(
        response,
        json!({"uid": "u1", "allowed": false, "status": {"metadata": {}, "code": 403, "message": "not today"}, "warnings": ["w"]})
    );
    let response = endpoint.review(&mutating_path, &admission_review()).await;
    assert_eq!(
        response,
        json!({"uid": "u1", "allowed": true, "patch": "W10=", "patchType": "JSONPatch"})
    );
    let runs = fixture.runs("deny.sh", 2).await;
    let request = &admission_review()["request"];
    assert_eq!(
        runs[0],
        json!([{"binding": "deny.example.com", "review": {"request": request}, "snapshots": {"maps": [{"filterResult": "1"}]}, "type": "Validating"}])
    );
    assert_eq!(
        runs[1],
        json!([{"binding": "deny.example.com", "review": {"request": request}, "type": "Mutating"}])
    );
    let (code, _) = endpoint
        .send("GET /healthz HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
        .await;
    assert_eq!(code, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_denied_if_its_hook_fails_or_writes_no_response() {
    let mut fixture = Fixture::new().await;
    fixture.hook("deny.sh", CONFIG, SCRIPT);
    fixture.start().await;
    let authority = fixture.directory.path().join("tmp/admission-certs/ca.crt");
    let authority = eventually(async || fs::read(&authority).ok()).await;
    let endpoint = Endpoint {
        address: fixture.admission,
        authority,
        server_name: "admission.default.svc.cluster.local",
    };
    eventually(async || TcpStream::connect(endpoint.address).await.ok()).await;
    let review = |name: &str| {
        let mut review = admission_review();
        review["request"]["object"]["metadata"]["name"] = name.into();
        review
    };
    let failed = endpoint.review("/hooks/deny-example-com", &review("fails")).await;
    assert_eq!(
        failed,
        json!({"uid": "u1", "allowed": false, "status": {"metadata": {}, "code": 403, "message": "Hook failed"}})
    );
    let silent = endpoint
        .review("/hooks/deny-example-com", &review("silent"))
        .await;
    assert_eq!(silent["status"]["code"], 500);
    assert_eq!(silent["allowed"], false);
    let (code, text) = endpoint.post("/hooks/deny-example-com", &json!({})).await;
    assert_eq!((code, text.as_str()), (400, "Missing parameters: request"));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_client_cas_a_client_needs_a_certificate() {
    let mut fixture = Fixture::new().await;
    let clients = fixture.directory.path().join("clients");
    fs::create_dir(&clients).unwrap();
    let pki = WebhookPki::generate(&["client".to_owned()], SystemClock::new().now()).unwrap();
    pki.write(&clients).unwrap();
    fixture.client_authorities = vec![clients.join("ca.crt")];
    fixture.hook("deny.sh", CONFIG, SCRIPT);
    fixture.start().await;
    let authority = fixture.directory.path().join("tmp/admission-certs/ca.crt");
    let authority = eventually(async || fs::read(&authority).ok()).await;
    let endpoint = Endpoint {
        address: fixture.admission,
        authority,
        server_name: "admission.default.svc",
    };
    eventually(async || TcpStream::connect(endpoint.address).await.ok()).await;
    let response = endpoint
        .exchange("GET /healthz HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
        .await;
    let error = response.unwrap_err().to_string();
    assert!(error.contains("CertificateRequired"), "{error}");
}

/// Versions v1, v2 and v3 of one kind; v1 is stored.
fn crd() -> Value {
    let version = |name: &str| {
        json!({
            "name": name, "served": true, "storage": name == "v1",
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "books.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "books", "kind": "Book"},
            "versions": [version("v1"), version("v2"), version("v3")],
        },
    })
}

/// Starts hooks that convert from v1 to v2 and from v2 to v3. Returns their server, once the CRD names it.
async fn start_conversions(fixture: &mut Fixture) -> Endpoint {
    let crds = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let crds = fixture.client.dynamic(crds, "");
    crds.create(crd().to_string()).await.unwrap();
    let config = |rule: &str| {
        format!(
            "configVersion: v1\nkubernetesCustomResourceConversion:\n- {{name: convert, crdName: books.example.com, conversions: [{rule}]}}"
        )
    };
    fixture.hook(
        "1-to-2.sh",
        &config("{fromVersion: v1, toVersion: v2}"),
        r#"echo '{"convertedObjects":[{"apiVersion":"example.com/v2","kind":"Book"}]}' > "$CONVERSION_RESPONSE_PATH""#,
    );
    fixture.hook(
        "2-to-3.sh",
        &config("{fromVersion: example.com/v2, toVersion: example.com/v3}"),
        r#"if grep -q '"title":"broken"' "$BINDING_CONTEXT_PATH"; then echo '{"failedMessage":"it is broken"}'; else
        echo '{"convertedObjects":[{"apiVersion":"example.com/v3","kind":"Book"}]}'; fi > "$CONVERSION_RESPONSE_PATH""#,
    );
    fixture.start().await;
    let conversion = eventually(async || {
        let stored = crds.get("books.example.com").await.unwrap();
        let crd: Value = serde_json::from_slice(stored.json()).unwrap();
        let conversion = crd["spec"]["conversion"].clone();
        (conversion["strategy"] == "Webhook").then_some(conversion)
    })
    .await;
    let client_config = &conversion["webhook"]["clientConfig"];
    assert_eq!(
        client_config["service"],
        json!({"namespace": "default", "name": "conversion", "path": "/books.example.com", "port": 443})
    );
    let authority: ByteString = serde_json::from_value(client_config["caBundle"].clone()).unwrap();
    Endpoint {
        address: fixture.conversion,
        authority: authority.0,
        server_name: "conversion.default.svc",
    }
}

fn conversion_review(object: &Value, desired: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u1", "desiredAPIVersion": desired, "objects": [object]},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversion_runs_the_hooks_of_its_path_one_after_another() {
    let mut fixture = Fixture::new().await;
    let endpoint = start_conversions(&mut fixture).await;
    let first = json!({"apiVersion": "example.com/v1", "kind": "Book"});
    let review = conversion_review(&first, "example.com/v3");
    let response = endpoint.review("/books.example.com", &review).await;
    assert_eq!(
        response,
        json!({"uid": "u1", "convertedObjects": [{"apiVersion": "example.com/v3", "kind": "Book"}], "result": {"metadata": {}, "status": "Success"}})
    );
    let runs = fixture.runs("1-to-2.sh", 1).await;
    assert_eq!(
        runs[0],
        json!([{"binding": "convert", "fromVersion": "v1", "review": {"request": review["request"]}, "toVersion": "v2", "type": "Conversion"}])
    );
    let runs = fixture.runs("2-to-3.sh", 1).await;
    let second = &runs[0][0]["review"]["request"]["objects"][0];
    assert_eq!(second["apiVersion"], "example.com/v2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_conversion_has_the_message_of_the_hook() {
    let mut fixture = Fixture::new().await;
    let endpoint = start_conversions(&mut fixture).await;
    let failures = [
        (
            json!({"apiVersion": "example.com/v2", "title": "broken"}),
            "example.com/v3",
            "it is broken",
        ),
        (
            json!({"apiVersion": "example.com/v3"}),
            "example.com/v1",
            "Conversion books.example.com to example.com/v1 was not successful",
        ),
    ];
    for (object, desired, message) in failures {
        let review = conversion_review(&object, desired);
        let response = endpoint.review("/books.example.com", &review).await;
        assert_eq!(
            response["result"],
            json!({"metadata": {}, "status": "Failure", "message": message})
        );
    }
}
