//! A real server that forwards to a second real server.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use setpoint_api::SystemClock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::serve::tests::{TestCa, TestServer, check, test_server_with};

const HOST: &str = "things.default.svc";

/// An aggregated API server and the server that forwards to it.
struct Fixture {
    server: TestServer,
    aggregator: Arc<Aggregator>,
    remote: Remote,
    connections: Arc<AtomicUsize>,
    callers: TestCa,
    _running: JoinSet<()>,
}

type TestResponse = Response<BoxBody<Bytes, Infallible>>;

fn json_response(value: &Value) -> TestResponse {
    let mut response = Response::new(Full::from(value.to_string()).boxed());
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert("content-type", json);
    response
}

fn empty(code: StatusCode) -> TestResponse {
    let mut response = Response::new(Full::default().boxed());
    *response.status_mut() = code;
    response
}

/// A request's path and headers, as JSON.
fn echo(request: &Request<Incoming>) -> Value {
    let headers = request.headers().iter();
    let lines: Vec<String> = headers
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap_or_default()))
        .collect();
    json!({"path": request.uri().to_string(), "headers": lines})
}

/// The aggregated API server.
async fn remote_server(mut request: Request<Incoming>) -> Result<TestResponse, Infallible> {
    let resource = json!({"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing",
        "verbs": ["delete", "get", "list"]});
    Ok(match request.uri().path() {
        "/apis/example.org/v1" => json_response(&json!({"kind": "APIResourceList", "apiVersion": "v1",
            "groupVersion": "example.org/v1", "resources": [resource]})),
        "/openapi/v3" => json_response(
            &json!({"paths": {"apis/other.org": {"serverRelativeURL": "/"}, "apis/example.org/v1":
            {"serverRelativeURL": "/openapi/v3/apis/example.org/v1?hash=1"}}}),
        ),
        "/openapi/v2" => json_response(&json!({
            "paths": {"/apis/example.org/v1/things": {"get": {"$ref": "#/definitions/Thing"}}, "/elsewhere": {}},
            "definitions": {"Thing": {"type": "object"}},
        })),
        "/openapi/v3/apis/example.org/v1" => json_response(&json!({"openapi": "3.0.0", "of": "things"})),
        "/apis/example.org/v1/things" if request.uri().query() == Some("watch=true") => watch(),
        "/apis/example.org/v1/things" => json_response(&echo(&request)),
        "/apis/example.org/v1/namespaces/a/things/t/echo" => {
            let upgraded = hyper::upgrade::on(&mut request);
            #[allow(clippy::disallowed_methods, reason = "the connection outlives its request")]
            tokio::spawn(async move {
                let mut stream = TokioIo::new(upgraded.await.unwrap());
                let mut bytes = [0; 4];
                stream.read_exact(&mut bytes).await.unwrap();
                bytes.reverse();
                stream.write_all(&bytes).await.unwrap();
                stream.shutdown().await.unwrap();
            });
            let mut response = empty(StatusCode::SWITCHING_PROTOCOLS);
            let headers = response.headers_mut();
            headers.insert("connection", HeaderValue::from_static("Upgrade"));
            headers.insert("upgrade", HeaderValue::from_static("echo"));
            response
        }
        "/apis/example.org/v1/namespaces/a/things/moved" => {
            let mut response = empty(StatusCode::FOUND);
            let location = HeaderValue::from_static("https://elsewhere");
            response.headers_mut().insert("location", location);
            response
        }
        _ => empty(StatusCode::NOT_FOUND),
    })
}

/// A watch with one event that never ends.
fn watch() -> TestResponse {
    let line = Bytes::from_static(b"{\"type\":\"ADDED\"}\n");
    let first = futures_util::stream::iter([Ok::<_, Infallible>(Frame::data(line))]);
    let all = futures_util::StreamExt::chain(first, futures_util::stream::pending());
    let body = StreamBody::new(SyncStream(Box::pin(all)));
    Response::new(BoxBody::new(body))
}

/// A stream polled by one task only.
struct SyncStream(
    std::pin::Pin<Box<dyn futures_util::Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + Sync>>,
);

impl futures_util::Stream for SyncStream {
    type Item = Result<Frame<Bytes>, Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

/// Serves `remote_server` to clients with a certificate signed by `callers`.
async fn serve_remote(
    own: &TestCa,
    callers: &TestCa,
    running: &mut JoinSet<()>,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let mut roots = RootCertStore::empty();
    roots.add(callers.certificate.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let (certificate, key) = own.sign_for(HOST, "things", "example");
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::<AtomicUsize>::default();
    let counted = connections.clone();
    running.spawn(async move {
        let mut served = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            served.spawn(connection(acceptor.clone(), stream, counted.clone()));
        }
    });
    (address, connections)
}

async fn connection(acceptor: TlsAcceptor, stream: TcpStream, counted: Arc<AtomicUsize>) {
    if let Ok(stream) = acceptor.accept(stream).await {
        counted.fetch_add(1, Ordering::Relaxed);
        let served = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service_fn(remote_server))
            .with_upgrades();
        let _ = served.await;
    }
}

/// A new client certificate of a CA.
fn proxy_identity(authority: &TestCa) -> ProxyClientIdentity {
    let (certificate, key) = authority.sign("front-proxy-client", "setpoint");
    let chain = vec![certificate];
    ProxyClientIdentity { chain, key }
}

async fn fixture() -> Fixture {
    let (own, callers) = (TestCa::new(), TestCa::new());
    let mut running = JoinSet::new();
    let (address, connections) = serve_remote(&own, &callers, &mut running).await;
    let identity = proxy_identity(&callers);
    let backend = BackendAddress {
        secure: true,
        host: "127.0.0.1".to_owned(),
        port: address.port(),
        resolved: Vec::new(),
        node: None,
    };
    let resolve = move |_: &ServiceReference| Ok(backend.clone());
    let aggregator = Aggregator::new(Some(identity), Arc::new(SystemClock::new()), Box::new(resolve));
    running.spawn(aggregator.clone().run(CancellationToken::new()));
    let remote = Remote {
        name: "v1.example.org".to_owned(),
        group: "example.org".into(),
        version: "v1".into(),
        service: ServiceReference {
            namespace: "default".to_owned(),
            name: "things".to_owned(),
            port: 443,
        },
        trust: TlsTrust::CaBundle(own.pem()),
        available: true,
        group_priority: 100,
        version_priority: 10,
    };
    Fixture {
        server: test_server_with(aggregator.clone()).await,
        aggregator,
        remote,
        connections,
        callers,
        _running: running,
    }
}

impl Fixture {
    /// Registers the aggregated API server and waits until its discovery is complete.
    async fn register(&self) {
        self.aggregator.register(vec![self.remote.clone()]);
        let mut changes = self.aggregator.changes();
        let is_known = || {
            let groups = self.aggregator.remote_groups();
            groups
                .find("example.org", "v1")
                .is_some_and(|one| one.openapi_v2().is_some())
        };
        while !is_known() {
            changes.changed().await.unwrap();
        }
    }

    async fn discovery(&self) -> Value {
        let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let response = self
            .server
            .send(&format!("GET /apis HTTP/1.1\nAccept: {aggregated}"))
            .await;
        let body = response.split_once("\r\n\r\n").unwrap().1;
        serde_json::from_str(body).unwrap()
    }
}

/// The versions of a group in an aggregated discovery document.
fn versions_of(discovery: &Value, group: &str) -> Value {
    let groups = discovery["items"].as_array().unwrap();
    let found = groups.iter().find(|one| one["metadata"]["name"] == group);
    found.map_or(Value::Null, |one| one["versions"].clone())
}

#[tokio::test]
async fn a_request_is_forwarded_with_the_users_name() {
    let fixture = fixture().await;
    fixture.register().await;
    let request = "GET /apis/example.org/v1/things?labelSelector=a%3Db&x=1 HTTP/1.1\nX-Remote-User: root\n\
                   X-Remote-Extra-Scope: all\nAuthorization: Basic x\nTe: trailers\nAudit-Id: mine";
    let response = fixture.server.send(request).await;
    check(
        &response,
        200,
        &[
            "audit-id: mine",
            "/apis/example.org/v1/things?labelSelector=a%3Db&x=1",
            "x-remote-user: admin",
            "x-remote-group: system:masters",
            "x-forwarded-for: 127.0.0.1",
        ],
    );
    for left_out in ["root", "x-remote-extra-scope", "authorization", "te: trailers"] {
        assert!(!response.contains(left_out), "{left_out} in {response}");
    }
}

#[tokio::test]
async fn an_unauthorized_request_is_rejected_before_it_is_forwarded() {
    let fixture = fixture().await;
    fixture.register().await;
    let request = "GET /apis/example.org/v1/things HTTP/1.1";
    let anonymous = fixture.server.send_as(None, request).await;
    check(&anonymous, 403, &["things.example.org is forbidden"]);
    let certificate = Some(fixture.server.authority.sign("jane", "people"));
    let jane = fixture.server.send_as(certificate, request).await;
    check(&jane, 403, &["things.example.org is forbidden"]);
}

#[tokio::test]
async fn connections_to_an_aggregated_server_are_reused() {
    let fixture = fixture().await;
    fixture.register().await;
    let before = fixture.connections.load(Ordering::Relaxed);
    for _ in 0..5 {
        check(
            &fixture
                .server
                .send("GET /apis/example.org/v1/things HTTP/1.1")
                .await,
            200,
            &[],
        );
    }
    assert_eq!(fixture.connections.load(Ordering::Relaxed), before + 1);
}

#[tokio::test]
async fn a_replaced_client_certificate_is_presented_on_new_connections() {
    let fixture = fixture().await;
    fixture.register().await;
    let request = "GET /apis/example.org/v1/things HTTP/1.1";
    fixture
        .aggregator
        .replace_identity(proxy_identity(&TestCa::new()));
    check(&fixture.server.send(request).await, 503, &[]);
    fixture
        .aggregator
        .replace_identity(proxy_identity(&fixture.callers));
    check(&fixture.server.send(request).await, 200, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_streams_as_it_comes() {
    let fixture = fixture().await;
    fixture.register().await;
    let mut connection = fixture.server.connect();
    let request = "GET /apis/example.org/v1/things?watch=true HTTP/1.1\r\nHost: x\r\n\r\n";
    connection.send(request.as_bytes()).unwrap();
    connection.receive_until(br#"{"type":"ADDED"}"#).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_becomes_bytes_both_ways() {
    let fixture = fixture().await;
    fixture.register().await;
    let mut connection = fixture.server.connect();
    let path = "/apis/example.org/v1/namespaces/a/things/t/echo";
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
    connection.send(request.as_bytes()).unwrap();
    connection.send(b"abcd").unwrap();
    let head = connection.receive_start("GET").unwrap();
    check(&head.to_text(), 101, &["upgrade: echo"]);
    assert_eq!(connection.receive_to_end().unwrap(), b"dcba");
}

#[tokio::test]
async fn redirects_of_an_aggregated_server_are_rejected() {
    let fixture = fixture().await;
    fixture.register().await;
    let response = fixture
        .server
        .send("GET /apis/example.org/v1/namespaces/a/things/moved HTTP/1.1")
        .await;
    let message = "the backend attempted to redirect this request, which is not permitted";
    check(&response, 502, &[message]);
}

#[tokio::test]
async fn resources_of_an_aggregated_server_are_in_discovery() {
    let fixture = fixture().await;
    assert_eq!(
        versions_of(&fixture.discovery().await, "example.org"),
        Value::Null
    );
    fixture.register().await;
    let versions = versions_of(&fixture.discovery().await, "example.org");
    assert_eq!(
        versions,
        json!([{"version": "v1", "freshness": "Current", "resources": [{
            "resource": "things", "responseKind": {"group": "", "version": "", "kind": "Thing"},
            "scope": "Namespaced", "singularResource": "thing", "verbs": ["delete", "get", "list"]}]}])
    );
    let group = r#"{"name":"example.org","versions":[{"groupVersion":"example.org/v1","version":"v1"}]"#;
    check(&fixture.server.send("GET /apis HTTP/1.1").await, 200, &[group]);
    let preferred = r#""preferredVersion":{"groupVersion":"example.org/v1","version":"v1"}"#;
    check(
        &fixture.server.send("GET /apis/example.org HTTP/1.1").await,
        200,
        &[preferred],
    );
    let list = fixture.server.send("GET /apis/example.org/v1 HTTP/1.1").await;
    check(&list, 200, &["APIResourceList", "Thing"]);
    let unknown = fixture.server.send("GET /apis/example.org/v9 HTTP/1.1").await;
    check(&unknown, 404, &["404 page not found"]);
    let index = fixture.server.send("GET /openapi/v3 HTTP/1.1").await;
    let entry = r#""apis/example.org/v1":{"serverRelativeURL":"/openapi/v3/apis/example.org/v1?hash=1"}"#;
    check(&index, 200, &[entry, "apis/apps/v1"]);
    assert!(!index.contains("other.org"));
    let document = fixture
        .server
        .send("GET /openapi/v3/apis/example.org/v1?hash=1 HTTP/1.1")
        .await;
    check(&document, 200, &[r#""of":"things""#]);
    let v2 = fixture.server.send("GET /openapi/v2 HTTP/1.1").await;
    check(
        &v2,
        200,
        &[r#""/apis/example.org/v1/things""#, r#""Thing":{"type":"object"}"#],
    );
    assert!(!v2.contains("/elsewhere"));
    fixture.aggregator.register(Vec::new());
    assert_eq!(
        versions_of(&fixture.discovery().await, "example.org"),
        Value::Null
    );
}

#[tokio::test]
async fn an_unavailable_server_is_stale_and_affects_no_other() {
    let fixture = fixture().await;
    fixture.aggregator.register(vec![Remote {
        available: false,
        ..fixture.remote.clone()
    }]);
    let discovery = fixture.discovery().await;
    assert_eq!(
        versions_of(&discovery, "example.org"),
        json!([{"version": "v1", "freshness": "Stale"}])
    );
    assert_eq!(versions_of(&discovery, "apps")[0]["freshness"], "Current");
    for path in ["/apis/example.org/v1", "/apis/example.org/v1/things"] {
        let response = fixture.server.send(&format!("GET {path} HTTP/1.1")).await;
        check(&response, 503, &["text/plain", "service unavailable\n"]);
    }
    check(
        &fixture.server.send("GET /api/v1/configmaps HTTP/1.1").await,
        200,
        &[],
    );
}

#[track_caller]
fn check_probe(probed: Result<(), String>, expected: Result<(), &str>) {
    match (probed, expected) {
        (Ok(()), Ok(())) => {}
        (Err(error), Err(expected)) if error.contains(expected) => {}
        (probed, expected) => panic!("{probed:?} is not {expected:?}"),
    }
}

#[tokio::test]
async fn a_probe_checks_certificate_host_and_version() {
    let fixture = fixture().await;
    check_probe(fixture.aggregator.probe(&fixture.remote).await, Ok(()));
    let stranger = Remote {
        trust: TlsTrust::CaBundle(TestCa::new().pem()),
        ..fixture.remote.clone()
    };
    let distrusted = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    check_probe(fixture.aggregator.probe(&stranger).await, Err(distrusted));
    let anyone = Remote {
        trust: TlsTrust::InsecureSkipTlsVerify,
        ..fixture.remote.clone()
    };
    check_probe(fixture.aggregator.probe(&anyone).await, Ok(()));
    let mut elsewhere = fixture.remote.clone();
    elsewhere.service.name = "others".to_owned();
    check_probe(
        fixture.aggregator.probe(&elsewhere).await,
        Err("tls: failed to verify certificate"),
    );
    let mut another = fixture.remote.clone();
    another.version = "v2".into();
    check_probe(
        fixture.aggregator.probe(&another).await,
        Err("bad status from https://127.0.0.1:"),
    );
    let without = Remote {
        trust: TlsTrust::CaBundle(Vec::new()),
        ..fixture.remote.clone()
    };
    check_probe(
        fixture.aggregator.probe(&without).await,
        Err("no certificate in the bundle"),
    );
}

#[tokio::test]
async fn an_aggregator_without_a_client_certificate_fails_the_probe() {
    let fixture = fixture().await;
    let backend = (fixture.aggregator.resolve)(&fixture.remote.service);
    let bare = Aggregator::new(
        None,
        Arc::new(SystemClock::new()),
        Box::new(move |_| backend.clone()),
    );
    let error = bare.probe(&fixture.remote).await.unwrap_err();
    assert!(
        error.starts_with("failing or missing response from https://127.0.0.1:"),
        "{error}"
    );
}

#[tokio::test]
async fn in_process_callers_reach_aggregated_servers() {
    let fixture = fixture().await;
    fixture.register().await;
    let transport = fixture.aggregator.transport();
    let get = |path: &str| {
        let mut request = Request::new(Full::default());
        *request.uri_mut() = format!("http://remote{path}").parse().unwrap();
        let user = Arc::new(setpoint_api::User::new("system:loop", &["loops"]));
        request.extensions_mut().insert(user);
        transport(request)
    };
    let response = get("/apis/example.org/v1/things?limit=5").await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["path"], "/apis/example.org/v1/things?limit=5");
    assert!(
        body["headers"].to_string().contains("x-remote-user: system:loop"),
        "{body}"
    );
    let unknown = get("/apis/example.org/v9/things").await.unwrap_err();
    assert_eq!(unknown.code, 404);
    fixture.aggregator.register(vec![Remote {
        available: false,
        ..fixture.remote.clone()
    }]);
    let unavailable = get("/apis/example.org/v1/things").await.unwrap_err();
    assert_eq!(
        unavailable.message,
        "the server is currently unable to handle the request"
    );
}

#[tokio::test(start_paused = true)]
async fn discovery_is_refreshed_once_a_minute() {
    let requests = Arc::<AtomicUsize>::default();
    let counted = requests.clone();
    let resolve = move |_: &ServiceReference| {
        counted.fetch_add(1, Ordering::Relaxed);
        Err("nowhere".to_owned())
    };
    let aggregator = Aggregator::new(None, Arc::new(SystemClock::new()), Box::new(resolve));
    let mut running = JoinSet::new();
    running.spawn(aggregator.clone().run(CancellationToken::new()));
    let clock = SystemClock::new();
    clock.sleep(Duration::from_secs(600)).await;
    assert_eq!(requests.load(Ordering::Relaxed), 0, "no remote is registered");
    let remote = Remote {
        name: "v1.example.org".to_owned(),
        group: "example.org".into(),
        version: "v1".into(),
        service: ServiceReference {
            namespace: "default".to_owned(),
            name: "things".to_owned(),
            port: 443,
        },
        trust: TlsTrust::InsecureSkipTlsVerify,
        available: true,
        group_priority: 100,
        version_priority: 10,
    };
    aggregator.register(vec![remote]);
    clock.sleep(Duration::from_secs(600)).await;
    // After 1, 2, 4, 8, 16 and 32 seconds, then once a minute.
    let requests = requests.load(Ordering::Relaxed);
    assert!((14..=17).contains(&requests), "{requests}");
}
