//! A real server before another real server.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
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
use crate::serve::tests::{Authority, Cluster, check, cluster_before};

const HOST: &str = "things.default.svc";

/// The other server, and the one before it.
struct Both {
    cluster: Cluster,
    aggregator: Arc<Aggregator>,
    remote: Remote,
    connections: Arc<AtomicUsize>,
    _running: JoinSet<()>,
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

fn document(value: &Value) -> Answer {
    let mut answer = Response::new(Full::from(value.to_string()).boxed());
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert("content-type", json);
    answer
}

fn empty(code: StatusCode) -> Answer {
    let mut answer = Response::new(Full::default().boxed());
    *answer.status_mut() = code;
    answer
}

/// What came with a request: its path, and those headers that say for whom it is and how it came.
fn echo(request: &Request<Incoming>) -> Value {
    let headers = request.headers().iter();
    let shown: Vec<String> = headers
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap_or_default()))
        .collect();
    json!({"path": request.uri().to_string(), "headers": shown})
}

/// The other server.
async fn other(mut request: Request<Incoming>) -> Result<Answer, Infallible> {
    let resource = json!({"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing",
        "verbs": ["delete", "get", "list"]});
    Ok(match request.uri().path() {
        "/apis/example.org/v1" => document(&json!({"kind": "APIResourceList", "apiVersion": "v1",
            "groupVersion": "example.org/v1", "resources": [resource]})),
        "/openapi/v3" => document(
            &json!({"paths": {"apis/other.org": {"serverRelativeURL": "/"}, "apis/example.org/v1":
            {"serverRelativeURL": "/openapi/v3/apis/example.org/v1?hash=1"}}}),
        ),
        "/openapi/v2" => document(&json!({
            "paths": {"/apis/example.org/v1/things": {"get": {"$ref": "#/definitions/Thing"}}, "/elsewhere": {}},
            "definitions": {"Thing": {"type": "object"}},
        })),
        "/openapi/v3/apis/example.org/v1" => document(&json!({"openapi": "3.0.0", "of": "things"})),
        "/apis/example.org/v1/things" if request.uri().query() == Some("watch=true") => watch(),
        "/apis/example.org/v1/things" => document(&echo(&request)),
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
            let mut answer = empty(StatusCode::SWITCHING_PROTOCOLS);
            let headers = answer.headers_mut();
            headers.insert("connection", HeaderValue::from_static("Upgrade"));
            headers.insert("upgrade", HeaderValue::from_static("echo"));
            answer
        }
        "/apis/example.org/v1/namespaces/a/things/moved" => {
            let mut answer = empty(StatusCode::FOUND);
            let place = HeaderValue::from_static("https://elsewhere");
            answer.headers_mut().insert("location", place);
            answer
        }
        _ => empty(StatusCode::NOT_FOUND),
    })
}

/// One event, and then nothing for ever.
fn watch() -> Answer {
    let line = Bytes::from_static(b"{\"type\":\"ADDED\"}\n");
    let first = futures_util::stream::iter([Ok::<_, Infallible>(Frame::data(line))]);
    let all = futures_util::StreamExt::chain(first, futures_util::stream::pending());
    let body = StreamBody::new(SyncStream(Box::pin(all)));
    Response::new(BoxBody::new(body))
}

/// A stream that is only ever polled by one.
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

/// Serves the other server to whoever shows a certificate of `callers`.
async fn serve_other(
    own: &Authority,
    callers: &Authority,
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
            .serve_connection(TokioIo::new(stream), service_fn(other))
            .with_upgrades();
        let _ = served.await;
    }
}

fn pem(authority: &Authority) -> Vec<u8> {
    let text = STANDARD.encode(&authority.certificate);
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n").into_bytes()
}

async fn both() -> Both {
    let (own, callers) = (Authority::new(), Authority::new());
    let mut running = JoinSet::new();
    let (address, connections) = serve_other(&own, &callers, &mut running).await;
    let (certificate, key) = callers.sign("front-proxy-client", "setpoint");
    let identity = Identity {
        chain: vec![certificate],
        key,
    };
    let place = Place {
        secure: true,
        host: "127.0.0.1".to_owned(),
        port: address.port(),
        node: None,
    };
    let resolve = move |_: &Backend| Ok(place.clone());
    let aggregator = Aggregator::new(Some(identity), Arc::new(SystemClock::new()), Box::new(resolve));
    running.spawn(aggregator.clone().run(CancellationToken::new()));
    let remote = Remote {
        name: "v1.example.org".to_owned(),
        group: "example.org".into(),
        version: "v1".into(),
        service: Backend {
            namespace: "default".to_owned(),
            name: "things".to_owned(),
            port: 443,
        },
        trust: Trust::Authorities(pem(&own)),
        available: true,
        group_priority: 100,
        version_priority: 10,
    };
    Both {
        cluster: cluster_before(aggregator.clone()).await,
        aggregator,
        remote,
        connections,
        _running: running,
    }
}

impl Both {
    /// Registers the other server and waits until it has said all about what it serves.
    async fn register(&self) {
        self.aggregator.register(vec![self.remote.clone()]);
        let mut changes = self.aggregator.changes();
        let is_known = || {
            let others = self.aggregator.others();
            others
                .find("example.org", "v1")
                .is_some_and(|one| one.second().is_some())
        };
        while !is_known() {
            changes.changed().await.unwrap();
        }
    }

    async fn discovery(&self) -> Value {
        let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let answer = self
            .cluster
            .ask(&format!("GET /apis HTTP/1.1\nAccept: {aggregated}"))
            .await;
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        serde_json::from_str(body).unwrap()
    }
}

/// The versions of a group in a document of everything.
fn versions_of(discovery: &Value, group: &str) -> Value {
    let groups = discovery["items"].as_array().unwrap();
    let found = groups.iter().find(|one| one["metadata"]["name"] == group);
    found.map_or(Value::Null, |one| one["versions"].clone())
}

#[tokio::test]
async fn a_request_is_passed_on_in_the_callers_name() {
    let both = both().await;
    both.register().await;
    let request = "GET /apis/example.org/v1/things?labelSelector=a%3Db&x=1 HTTP/1.1\nX-Remote-User: root\n\
                   X-Remote-Extra-Scope: all\nAuthorization: Basic x\nTe: trailers\nAudit-Id: mine";
    let answer = both.cluster.ask(request).await;
    check(
        &answer,
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
        assert!(!answer.contains(left_out), "{left_out} in {answer}");
    }
}

#[tokio::test]
async fn who_may_not_ask_is_refused_here() {
    let both = both().await;
    both.register().await;
    let request = "GET /apis/example.org/v1/things HTTP/1.1";
    let nobody = both.cluster.ask_as(None, request).await;
    check(&nobody, 403, &["things.example.org is forbidden"]);
    let somebody = Some(both.cluster.authority.sign("jane", "people"));
    let jane = both.cluster.ask_as(somebody, request).await;
    check(&jane, 403, &["things.example.org is forbidden"]);
}

#[tokio::test]
async fn connections_to_another_server_are_kept() {
    let both = both().await;
    both.register().await;
    let before = both.connections.load(Ordering::Relaxed);
    for _ in 0..5 {
        check(
            &both.cluster.ask("GET /apis/example.org/v1/things HTTP/1.1").await,
            200,
            &[],
        );
    }
    assert_eq!(both.connections.load(Ordering::Relaxed), before + 1);
}

#[tokio::test]
async fn a_watch_streams_as_it_comes() {
    let both = both().await;
    both.register().await;
    let admin = both.cluster.authority.sign("admin", "system:masters");
    let mut stream = both.cluster.connect(Some(admin)).await;
    let request = "GET /apis/example.org/v1/things?watch=true HTTP/1.1\r\nHost: x\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let (mut read, mut buffer) = (String::new(), [0; 1024]);
    while !read.contains(r#"{"type":"ADDED"}"#) {
        let count = stream.read(&mut buffer).await.unwrap();
        assert_ne!(count, 0, "ended after {read}");
        read.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
}

#[tokio::test]
async fn an_upgrade_becomes_bytes_both_ways() {
    let both = both().await;
    both.register().await;
    let admin = both.cluster.authority.sign("admin", "system:masters");
    let mut stream = both.cluster.connect(Some(admin)).await;
    let path = "/apis/example.org/v1/namespaces/a/things/t/echo";
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.write_all(b"abcd").await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    check(&answer, 101, &["upgrade: echo"]);
    assert!(answer.ends_with("\r\n\r\ndcba"), "{answer}");
}

#[tokio::test]
async fn a_server_may_not_send_callers_elsewhere() {
    let both = both().await;
    both.register().await;
    let answer = both
        .cluster
        .ask("GET /apis/example.org/v1/namespaces/a/things/moved HTTP/1.1")
        .await;
    let told = "the backend attempted to redirect this request, which is not permitted";
    check(&answer, 502, &[told]);
}

#[tokio::test]
async fn what_another_server_serves_is_discovered() {
    let both = both().await;
    assert_eq!(versions_of(&both.discovery().await, "example.org"), Value::Null);
    both.register().await;
    let versions = versions_of(&both.discovery().await, "example.org");
    assert_eq!(
        versions,
        json!([{"version": "v1", "freshness": "Current", "resources": [{
            "resource": "things", "responseKind": {"group": "", "version": "", "kind": "Thing"},
            "scope": "Namespaced", "singularResource": "thing", "verbs": ["delete", "get", "list"]}]}])
    );
    let group = r#"{"name":"example.org","versions":[{"groupVersion":"example.org/v1","version":"v1"}]"#;
    check(&both.cluster.ask("GET /apis HTTP/1.1").await, 200, &[group]);
    let preferred = r#""preferredVersion":{"groupVersion":"example.org/v1","version":"v1"}"#;
    check(
        &both.cluster.ask("GET /apis/example.org HTTP/1.1").await,
        200,
        &[preferred],
    );
    let list = both.cluster.ask("GET /apis/example.org/v1 HTTP/1.1").await;
    check(&list, 200, &["APIResourceList", "Thing"]);
    let unknown = both.cluster.ask("GET /apis/example.org/v9 HTTP/1.1").await;
    check(&unknown, 404, &["404 page not found"]);
    let index = both.cluster.ask("GET /openapi/v3 HTTP/1.1").await;
    let place = r#""apis/example.org/v1":{"serverRelativeURL":"/openapi/v3/apis/example.org/v1?hash=1"}"#;
    check(&index, 200, &[place, "apis/apps/v1"]);
    assert!(!index.contains("other.org"));
    let document = both
        .cluster
        .ask("GET /openapi/v3/apis/example.org/v1?hash=1 HTTP/1.1")
        .await;
    check(&document, 200, &[r#""of":"things""#]);
    let second = both.cluster.ask("GET /openapi/v2 HTTP/1.1").await;
    check(
        &second,
        200,
        &[r#""/apis/example.org/v1/things""#, r#""Thing":{"type":"object"}"#],
    );
    assert!(!second.contains("/elsewhere"));
    both.aggregator.register(Vec::new());
    assert_eq!(versions_of(&both.discovery().await, "example.org"), Value::Null);
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_stale_and_harms_nobody() {
    let both = both().await;
    both.aggregator.register(vec![Remote {
        available: false,
        ..both.remote.clone()
    }]);
    let discovery = both.discovery().await;
    assert_eq!(
        versions_of(&discovery, "example.org"),
        json!([{"version": "v1", "freshness": "Stale"}])
    );
    assert_eq!(versions_of(&discovery, "apps")[0]["freshness"], "Current");
    for path in ["/apis/example.org/v1", "/apis/example.org/v1/things"] {
        let answer = both.cluster.ask(&format!("GET {path} HTTP/1.1")).await;
        check(&answer, 503, &["text/plain", "service unavailable\n"]);
    }
    check(
        &both.cluster.ask("GET /api/v1/configmaps HTTP/1.1").await,
        200,
        &[],
    );
}

#[track_caller]
fn check_probe(probed: Result<(), String>, expected: Result<(), &str>) {
    match (probed, expected) {
        (Ok(()), Ok(())) => {}
        (Err(why), Err(part)) if why.contains(part) => {}
        (probed, expected) => panic!("{probed:?} is not {expected:?}"),
    }
}

#[tokio::test]
async fn whether_a_server_answers_is_asked_with_all_that_counts() {
    let both = both().await;
    check_probe(both.aggregator.probe(&both.remote).await, Ok(()));
    let stranger = Remote {
        trust: Trust::Authorities(pem(&Authority::new())),
        ..both.remote.clone()
    };
    let distrusted = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    check_probe(both.aggregator.probe(&stranger).await, Err(distrusted));
    let anyone = Remote {
        trust: Trust::Anyone,
        ..both.remote.clone()
    };
    check_probe(both.aggregator.probe(&anyone).await, Ok(()));
    let mut elsewhere = both.remote.clone();
    elsewhere.service.name = "others".to_owned();
    check_probe(
        both.aggregator.probe(&elsewhere).await,
        Err("tls: failed to verify certificate"),
    );
    let mut another = both.remote.clone();
    another.version = "v2".into();
    check_probe(
        both.aggregator.probe(&another).await,
        Err("bad status from https://127.0.0.1:"),
    );
    let without = Remote {
        trust: Trust::Authorities(Vec::new()),
        ..both.remote.clone()
    };
    check_probe(
        both.aggregator.probe(&without).await,
        Err("no certificate in the bundle"),
    );
}

#[tokio::test]
async fn nobody_is_passed_on_without_the_proxys_certificate() {
    let both = both().await;
    let place = (both.aggregator.resolve)(&both.remote.service);
    let bare = Aggregator::new(
        None,
        Arc::new(SystemClock::new()),
        Box::new(move |_| place.clone()),
    );
    let refused = bare.probe(&both.remote).await.unwrap_err();
    assert!(
        refused.starts_with("failing or missing response from https://127.0.0.1:"),
        "{refused}"
    );
}

#[tokio::test]
async fn parts_of_the_process_reach_other_servers_too() {
    let both = both().await;
    both.register().await;
    let carry = both.aggregator.carrier();
    let ask = |path: &str| {
        let mut request = Request::new(Full::default());
        *request.uri_mut() = format!("http://carried{path}").parse().unwrap();
        let user = Arc::new(setpoint_api::User::new("system:loop", &["loops"]));
        request.extensions_mut().insert(user);
        carry(request)
    };
    let answer = ask("/apis/example.org/v1/things?limit=5").await.unwrap();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["path"], "/apis/example.org/v1/things?limit=5");
    assert!(
        body["headers"].to_string().contains("x-remote-user: system:loop"),
        "{body}"
    );
    let unknown = ask("/apis/example.org/v9/things").await.unwrap_err();
    assert_eq!(unknown.code, 404);
    both.aggregator.register(vec![Remote {
        available: false,
        ..both.remote.clone()
    }]);
    let unavailable = ask("/apis/example.org/v1/things").await.unwrap_err();
    assert_eq!(
        unavailable.message,
        "the server is currently unable to handle the request"
    );
}

#[tokio::test(start_paused = true)]
async fn servers_are_asked_again_once_a_minute() {
    let asked = Arc::<AtomicUsize>::default();
    let counted = asked.clone();
    let resolve = move |_: &Backend| {
        counted.fetch_add(1, Ordering::Relaxed);
        Err("nowhere".to_owned())
    };
    let aggregator = Aggregator::new(None, Arc::new(SystemClock::new()), Box::new(resolve));
    let mut running = JoinSet::new();
    running.spawn(aggregator.clone().run(CancellationToken::new()));
    let clock = SystemClock::new();
    clock.sleep(Duration::from_secs(600)).await;
    assert_eq!(asked.load(Ordering::Relaxed), 0, "nobody is registered");
    let both = Remote {
        name: "v1.example.org".to_owned(),
        group: "example.org".into(),
        version: "v1".into(),
        service: Backend {
            namespace: "default".to_owned(),
            name: "things".to_owned(),
            port: 443,
        },
        trust: Trust::Anyone,
        available: true,
        group_priority: 100,
        version_priority: 10,
    };
    aggregator.register(vec![both]);
    clock.sleep(Duration::from_secs(600)).await;
    // After 1, 2, 4, 8, 16 and 32 seconds, then once a minute.
    let asked = asked.load(Ordering::Relaxed);
    assert!((14..=17).contains(&asked), "{asked}");
}
