//! A real server on a real port, with a function as its `Serve`.

mod access;
mod encodings;
mod limits;
mod views;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use setpoint_api::call::Encoding;
use setpoint_api::{Event, Gvr, List, Payload, ServeFuture, Status, SystemClock, Verb};
use setpoint_client::kubeconfig::{self, Connection};
use setpoint_codec::protobuf::{self, TypeMeta, envelope, frame};
use setpoint_conformance::wire::{self, Caller, Endpoint};
use setpoint_schema::{Pack, Shape};

use super::*;
use crate::aggregate::Aggregator;
use crate::filters::flow_control::FlowControlConfig;
use crate::health::Check;
use crate::respond::tests::stored;
use crate::tls::{ClientAuthorities, Identity};
use crate::view::{Config, View};

/// A certificate authority.
pub(crate) struct TestCa {
    pub(crate) certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

pub(crate) type Pair = (CertificateDer<'static>, PrivateKeyDer<'static>);

impl TestCa {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self {
            certificate,
            issuer: Issuer::new(params, key),
        }
    }

    pub(crate) fn pem(&self) -> Vec<u8> {
        let text = STANDARD.encode(&self.certificate);
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n").into_bytes()
    }

    pub(crate) fn sign(&self, name: &str, organization: &str) -> Pair {
        self.sign_for("localhost", name, organization)
    }

    pub(crate) fn sign_for(&self, host: &str, name: &str, organization: &str) -> Pair {
        let mut params = CertificateParams::new([host.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params
            .distinguished_name
            .push(DnType::OrganizationName, organization);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        (certificate, PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }
}

/// The `Serve` of the server: one object, a list of it, or a watch that sends it and never ends.
fn api(request: setpoint_api::Request) -> ServeFuture<'static> {
    use setpoint_api::{Body, Response};
    let body = match request.verb {
        Verb::Get(_) if request.target.name.as_deref() == Some("m") => Ok(Body::Object(stored("m", 1))),
        Verb::List(_) => Ok(Body::List(List {
            items: vec![stored("m", 1)],
            ..List::default()
        })),
        Verb::Watch(_) => {
            let first = futures_util::stream::iter([Event::Added(stored("m", 1))]);
            let events: setpoint_api::Watch = Box::pin(futures_util::StreamExt::chain(
                first,
                futures_util::stream::pending(),
            ));
            Ok(Body::Watch(events))
        }
        Verb::Create(payload, _) if payload.encoding == Encoding::Protobuf => {
            decoded(&payload).map(|json| Body::Json(json.into()))
        }
        Verb::Create(payload, _) => Ok(Body::Json(payload.bytes)),
        Verb::Delete(_) => panic!("delete is not implemented"),
        _ => Err(Status::not_found(
            &Gvr::new("", "v1", "configmaps").group_resource(),
            "x",
        )),
    };
    Box::pin(async { body.map(Response::new) })
}

fn map_shape() -> &'static Shape {
    Pack::builtin().shape_of("", "v1", "ConfigMap").unwrap()
}

/// A request body as JSON.
fn decoded(payload: &Payload) -> Result<Vec<u8>, Status> {
    let read = setpoint_codec::decode(
        &payload.bytes,
        payload.encoding,
        map_shape(),
        setpoint_codec::FieldValidation::Strict,
    );
    read.map(|decoded| setpoint_codec::json::write(&decoded.tree))
        .map_err(|error| Status::bad_request(error.to_string()))
}

pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) authority: TestCa,
    tls: Arc<DynamicTls>,
    stop: CancellationToken,
    running: JoinSet<Result<(), Error>>,
}

/// A new serving certificate of a CA that also signs client certificates.
fn identity(authority: &TestCa) -> Identity {
    let (certificate, key) = authority.sign("server", "setpoint");
    Identity {
        chain: vec![certificate],
        key,
        named: Vec::new(),
        client_ca: vec![authority.certificate.clone()],
        proxy_ca: Vec::new(),
    }
}

fn config(authority: &TestCa) -> Config {
    let kinds = Arc::new(setpoint_kinds::builtin());
    Config {
        serve: Arc::new(api),
        kinds: Box::new(move || kinds.clone()),
        authenticate: Box::new(setpoint_auth::authenticate::without_tokens()),
        authorize: Box::new(setpoint_auth::authorize::without_rbac()),
        issuer: None,
        clock: Arc::new(SystemClock::new()),
        client_authorities: ClientAuthorities::new(std::slice::from_ref(&authority.certificate), &[])
            .unwrap(),
        request_headers: None,
        audit: None,
        connect: Box::new(crate::Network::default()),
        aggregator: Aggregator::none(Arc::new(SystemClock::new())),
        admit_connect: None,
        flow_control: FlowControlConfig::default(),
        checks: vec![Check::live("ping", || Ok(()))],
        metrics_sources: Vec::new(),
        custom_routes: Vec::new(),
        max_memory: 0,
        address: "127.0.0.1:1".parse().unwrap(),
        origin: None,
    }
}

async fn test_server() -> TestServer {
    test_server_with(Aggregator::none(Arc::new(SystemClock::new()))).await
}

/// A server with this aggregator.
pub(crate) async fn test_server_with(aggregator: Arc<Aggregator>) -> TestServer {
    let authority = TestCa::new();
    let config = Config {
        aggregator,
        ..config(&authority)
    };
    start(authority, config).await
}

async fn start(authority: TestCa, config: Config) -> TestServer {
    let tls = DynamicTls::new(identity(&authority)).unwrap();
    start_with_views(authority, config, tls, |view| Arc::new(view)).await
}

/// A server of the views that `views` adds to the one of this configuration.
async fn start_with_views(
    authority: TestCa,
    config: Config,
    tls: Arc<DynamicTls>,
    views: impl FnOnce(Arc<View>) -> Arc<dyn Views>,
) -> TestServer {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let config = Config {
        client_authorities: tls.client_authorities(),
        address: listener.local_addr(),
        ..config
    };
    let (clock, view) = (config.clock.clone(), View::new(config));
    let server = Server::new(views(view.clone()), listener, tls.clone(), clock);
    let (address, stop, mut running) = (server.local_addr(), CancellationToken::new(), JoinSet::new());
    running.spawn(server.run(stop.clone()));
    let view_stop = stop.clone();
    running.spawn(async move {
        view.run(view_stop).await;
        Ok(())
    });
    TestServer {
        address,
        authority,
        tls,
        stop,
        running,
    }
}

impl TestServer {
    /// The server for a client with this certificate.
    fn endpoint(&self, certificate: Option<Pair>) -> Endpoint {
        Endpoint::new(&self.connection(certificate)).unwrap()
    }

    fn connection(&self, certificate: Option<Pair>) -> Connection {
        let identity = certificate.map(|(certificate, key)| kubeconfig::Identity::Certificate {
            chain: pem("CERTIFICATE", &certificate),
            key: pem("PRIVATE KEY", key.secret_der()),
        });
        Connection {
            server: format!("https://{}", self.address),
            server_name: Some("localhost".to_owned()),
            authority: Some(pem("CERTIFICATE", &self.authority.certificate)),
            identity: identity.unwrap_or_default(),
            ..Connection::default()
        }
    }

    /// A connection of an administrator. It blocks, so the test needs a runtime with further threads for the server.
    pub(crate) fn connect(&self) -> wire::Connection {
        let admin = self.authority.sign("admin", "system:masters");
        self.endpoint(Some(admin)).connect(&Caller::Owner).unwrap()
    }

    /// Sends a request as an administrator and reads the whole response.
    pub(crate) async fn send(&self, request: &str) -> String {
        self.send_as(Some(self.authority.sign("admin", "system:masters")), request)
            .await
    }

    /// The response as text; empty if the server closed the connection without one.
    pub(crate) async fn send_as(&self, certificate: Option<Pair>, request: &str) -> String {
        let response = self.round_trip(certificate, request).await;
        response.map_or_else(|_| String::new(), |response| response.to_text())
    }

    /// Requests protobuf as an administrator; returns the response as text, and its body.
    async fn send_for_protobuf(&self, request: &str) -> (String, Vec<u8>) {
        let (line, rest) = request.split_once(" HTTP/1.1").unwrap();
        let request =
            format!("{line} HTTP/1.1\nAccept: application/vnd.kubernetes.protobuf,application/json{rest}");
        let admin = self.authority.sign("admin", "system:masters");
        let response = self.round_trip(Some(admin), &request).await.unwrap();
        (response.to_text(), response.body)
    }

    /// Sends a request over a new connection, on a thread of its own: the client blocks.
    async fn round_trip(&self, certificate: Option<Pair>, request: &str) -> io::Result<wire::Response> {
        let (endpoint, request) = (self.endpoint(certificate), parse_request(request));
        let sent = move || endpoint.connect(&Caller::Owner)?.round_trip(&request);
        tokio::task::spawn_blocking(sent).await.unwrap()
    }
}

/// Parses a request line, header lines, and a body after an empty line.
fn parse_request(text: &str) -> wire::Request {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut lines = head.lines();
    let (method, path) = lines.next().and_then(|line| line.split_once(' ')).unwrap();
    let request = wire::Request {
        body: (!body.is_empty()).then(|| body.as_bytes().to_vec()),
        ..wire::Request::new(method, path.strip_suffix(" HTTP/1.1").unwrap())
    };
    lines.fold(request, |request, line| {
        let (name, value) = line.split_once(": ").unwrap();
        request.header(name, value)
    })
}

fn pem(label: &str, der: &[u8]) -> Vec<u8> {
    let text = STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n").into_bytes()
}

#[track_caller]
pub(crate) fn check(response: &str, code: u16, expected: &[&str]) {
    assert!(response.starts_with(&format!("HTTP/1.1 {code} ")), "{response}");
    for text in expected {
        assert!(response.contains(text), "no {text} in {response}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_certificate_is_served_to_new_connections_and_open_ones_go_on() {
    let mut server = test_server().await;
    let request = parse_request("GET /healthz HTTP/1.1");
    let mut open = server.connect();
    assert_eq!(open.round_trip(&request).unwrap().status, 200);
    let next = TestCa::new();
    let client_ca = vec![server.authority.certificate.clone(), next.certificate.clone()];
    let replaced = Identity {
        client_ca,
        ..identity(&next)
    };
    server.tls.replace(replaced).unwrap();
    assert_eq!(open.round_trip(&request).unwrap().status, 200);
    let old_admin = server.authority.sign("admin", "system:masters");
    assert_eq!(server.send("GET /healthz HTTP/1.1").await, "");
    server.authority = next;
    check(&server.send("GET /healthz HTTP/1.1").await, 200, &["ok"]);
    let list = "GET /api/v1/configmaps HTTP/1.1";
    check(
        &server.send_as(Some(old_admin), list).await,
        200,
        &["ConfigMapList"],
    );
}

#[tokio::test]
async fn an_administrator_reads_objects_and_lists() {
    let server = test_server().await;
    let response = server
        .send("GET /api/v1/namespaces/a/configmaps/m HTTP/1.1")
        .await;
    check(
        &response,
        200,
        &[
            "content-type: application/json",
            "cache-control: no-cache, private",
            "\"name\":\"m\"",
        ],
    );
    let response = server
        .send("GET /api/v1/configmaps HTTP/1.1\nAudit-Id: mine")
        .await;
    check(&response, 200, &["audit-id: mine", "\"kind\":\"ConfigMapList\""]);
}

#[tokio::test]
async fn anonymous_clients_only_see_health_and_version() {
    let server = test_server().await;
    let response = server.send_as(None, "GET /api/v1/configmaps HTTP/1.1").await;
    check(
        &response,
        403,
        &["configmaps is forbidden: User \\\"system:anonymous\\\" cannot list resource"],
    );
    check(
        &server.send_as(None, "GET /livez HTTP/1.1").await,
        200,
        &["\r\n\r\nok"],
    );
    check(
        &server.send_as(None, "GET /version HTTP/1.1").await,
        200,
        &["\"major\": \"1\""],
    );
    check(&server.send_as(None, "GET /metrics HTTP/1.1").await, 403, &[]);
}

#[tokio::test]
async fn an_administrator_may_impersonate_a_user_with_fewer_permissions() {
    let server = test_server().await;
    let response = server
        .send("GET /api/v1/configmaps HTTP/1.1\nImpersonate-User: alice")
        .await;
    check(&response, 403, &["User \\\"alice\\\" cannot list resource"]);
    let response = server
        .send("GET /api/v1/configmaps HTTP/1.1\nImpersonate-Group: devs")
        .await;
    check(&response, 400, &["without impersonating a user name"]);
    let response = server
        .send_as(None, "GET /api/v1/configmaps HTTP/1.1\nImpersonate-User: admin")
        .await;
    check(
        &response,
        403,
        &["User \\\"system:anonymous\\\" cannot impersonate-on:user-info:list resource"],
    );
}

#[tokio::test]
async fn a_certificate_of_another_ca_is_unauthorized() {
    let server = test_server().await;
    let foreign = TestCa::new().sign("admin", "system:masters");
    let response = server
        .send_as(Some(foreign), "GET /api/v1/configmaps HTTP/1.1")
        .await;
    check(&response, 401, &["\"message\":\"Unauthorized\""]);
}

#[tokio::test]
async fn unknown_paths_are_not_found_in_three_ways() {
    let server = test_server().await;
    check(
        &server.send("GET /bogus HTTP/1.1").await,
        404,
        &["text/plain; charset=utf-8", "404 page not found\n"],
    );
    check(
        &server.send("GET /apis/bogus.io/v1/things HTTP/1.1").await,
        404,
        &["404 page not found\n"],
    );
    for path in [
        "/api/v1/bogus",
        "/api/v2",
        "/api/v1/configmaps/x",
        "/api/v1/namespaces/a/configmaps/x/status",
    ] {
        let response = server.send(&format!("GET {path} HTTP/1.1")).await;
        check(
            &response,
            404,
            &["the server could not find the requested resource"],
        );
    }
    check(
        &server
            .send("GET /api/v1/namespaces/a/configmaps/x HTTP/1.1")
            .await,
        404,
        &["configmaps \\\"x\\\" not found"],
    );
}

#[tokio::test]
async fn methods_that_do_not_fit_are_not_allowed() {
    let server = test_server().await;
    for request in [
        "POST /api/v1/namespaces/a/configmaps/x",
        "PUT /api/v1/namespaces/a/configmaps",
        "PATCH /api/v1/namespaces/a/configmaps",
        "POST /api/v1/configmaps",
        "OPTIONS /api/v1/namespaces/a/configmaps",
        "PUT /api",
    ] {
        let response = server.send(&format!("{request} HTTP/1.1")).await;
        check(
            &response,
            405,
            &["the server does not allow this method on the requested resource"],
        );
    }
    check(
        &server.send("HEAD /api/v1/namespaces/a/configmaps HTTP/1.1").await,
        405,
        &[],
    );
}

#[tokio::test]
async fn bodies_must_be_of_a_known_type_and_size() {
    let server = test_server().await;
    let create = "POST /api/v1/namespaces/a/configmaps HTTP/1.1\nContent-Type: ";
    check(
        &server.send(&format!("{create}text/plain\n\n{{}}")).await,
        415,
        &["accepted media types include"],
    );
    check(
        &server
            .send(&format!("{create}application/json\n\n{{\"a\":1}}"))
            .await,
        200,
        &["{\"a\":1}"],
    );
    let long = "x".repeat(3 * 1024 * 1024 + 1);
    let response = server.send(&format!("{create}application/json\n\n{long}")).await;
    assert!(
        response.is_empty() || response.starts_with("HTTP/1.1 413 "),
        "{response}"
    );
}

#[tokio::test]
async fn an_error_is_seen_by_a_client_that_is_still_sending() {
    let server = test_server().await;
    let long = "x".repeat(2 * 1024 * 1024);
    let response = server
        .send(&format!("POST /api/v1/namespaces/a/bogus HTTP/1.1\n\n{long}"))
        .await;
    check(
        &response,
        404,
        &["the server could not find the requested resource"],
    );
}

#[tokio::test]
async fn a_panic_costs_one_request_only() {
    let server = test_server().await;
    let response = server
        .send("DELETE /api/v1/namespaces/a/configmaps/m HTTP/1.1")
        .await;
    check(&response, 500, &["This request caused apiserver to panic"]);
    check(&server.send("GET /livez HTTP/1.1").await, 200, &["ok"]);
}

/// IN18
#[tokio::test(flavor = "multi_thread")]
async fn in18_a_watch_streams_lines_and_ends_when_the_server_stops() {
    let mut server = test_server().await;
    let mut connection = server.connect();
    let request = b"GET /api/v1/configmaps?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n";
    connection.send(request).unwrap();
    connection.receive_until(b"\"type\":\"ADDED\"").unwrap();
    server.stop.cancel();
    let rest = connection.receive_to_end().unwrap();
    assert!(
        String::from_utf8_lossy(&rest).ends_with("0\r\n\r\n"),
        "the stream ends with an empty chunk"
    );
    assert!(server.running.join_next().await.unwrap().unwrap().is_ok());
}

#[tokio::test]
async fn requests_are_counted() {
    let server = test_server().await;
    server
        .send("GET /api/v1/namespaces/a/configmaps/m HTTP/1.1")
        .await;
    let response = server.send("GET /metrics HTTP/1.1").await;
    let labels =
        "verb=\"GET\",group=\"\",version=\"v1\",resource=\"configmaps\",subresource=\"\",scope=\"resource\"";
    check(
        &response,
        200,
        &[&format!(
            "apiserver_request_total{{{labels},component=\"apiserver\",dry_run=\"\",code=\"200\"}} 1\n"
        )],
    );
}

#[tokio::test]
async fn a_port_in_use_is_named_in_the_error() {
    let server = test_server().await;
    let error = Listener::bind(server.address).await.unwrap_err();
    let message = error.to_string();
    assert!(
        message.starts_with(&format!("cannot listen on {}: ", server.address)),
        "{message}"
    );
}

#[tokio::test]
async fn openapi_has_the_encodings_that_clients_accept() {
    let server = test_server().await;
    let v2 = server.send("GET /openapi/v2 HTTP/1.1").await;
    check(
        &v2,
        200,
        &["content-type: application/json", "etag: \"", "vary: Accept"],
    );
    let accept = "Accept: application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let binary = server.send(&format!("GET /openapi/v2 HTTP/1.1\n{accept}")).await;
    check(
        &binary,
        200,
        &["content-type: application/com.github.proto-openapi.spec.v2.v1.0+protobuf"],
    );
    let rejected = server
        .send("GET /openapi/v3/api/v1 HTTP/1.1\nAccept: text/html")
        .await;
    check(&rejected, 406, &[]);
    check(
        &server.send("GET /openapi/v3/bogus HTTP/1.1").await,
        404,
        &["content-length: 0"],
    );
}

#[tokio::test]
async fn an_openapi_document_under_its_hash_is_immutable() {
    let server = test_server().await;
    let index = server.send("GET /openapi/v3 HTTP/1.1").await;
    let url = index
        .split('"')
        .find(|text| text.starts_with("/openapi/v3/api/v1?hash="))
        .unwrap();
    let cached = server.send(&format!("GET {url} HTTP/1.1")).await;
    check(&cached, 200, &["cache-control: public, immutable", "expires: "]);
    let (_, hash) = url.split_once('=').unwrap();
    let known = server
        .send(&format!("GET {url} HTTP/1.1\nIf-None-Match: \"{hash}\""))
        .await;
    check(&known, 304, &[]);
    let stale = server.send("GET /openapi/v3/api/v1?hash=00 HTTP/1.1").await;
    check(&stale, 301, &[&format!("location: {url}")]);
}
