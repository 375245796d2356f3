//! The client against real sockets: plain HTTP/1.1 by hand, HTTP/2 over TLS by hyper.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;

use ::http::Version;
use http_body_util::BodyExt;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use setpoint_api::options::{DeleteOptions, ListOptions, WatchOptions};
use setpoint_api::{User, Watch};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::*;
use crate::{Api, Client};

/// How the server responds to a request.
#[derive(Clone)]
enum ScriptedResponse {
    /// Sends this and reads the next request.
    Send(String),
    /// Sends these pieces, one after the other, and closes the connection.
    Cut(Vec<String>),
}

/// A server on a socket that responds by a script.
struct Server {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
    connections: Arc<Mutex<usize>>,
    _tasks: JoinSet<()>,
}

impl Server {
    async fn start(script: Vec<ScriptedResponse>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let script = Arc::new(Mutex::new(VecDeque::from(script)));
        let (requests, connections): (Arc<Mutex<Vec<String>>>, Arc<Mutex<usize>>) = Default::default();
        let mut tasks = JoinSet::new();
        let (log, count) = (requests.clone(), connections.clone());
        tasks.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                *count.lock() += 1;
                serve_connection(stream, &script, &log).await;
            }
        });
        Self {
            address,
            requests,
            connections,
            _tasks: tasks,
        }
    }

    fn maps(&self) -> Api<ConfigMap> {
        let connection = Connection {
            server: self.address.clone(),
            ..Connection::default()
        };
        client(&connection).namespaced("a")
    }
}

fn client(connection: &Connection) -> Client {
    Client::new(
        Arc::new(Http::new(connection).unwrap()),
        Arc::new(User::anonymous()),
    )
}

async fn serve_connection(
    mut stream: TcpStream,
    script: &Mutex<VecDeque<ScriptedResponse>>,
    requests: &Mutex<Vec<String>>,
) {
    while let Some(request) = read_request(&mut stream).await {
        requests.lock().push(request);
        let respond = script.lock().pop_front();
        match respond.unwrap() {
            ScriptedResponse::Send(text) => stream.write_all(text.as_bytes()).await.unwrap(),
            ScriptedResponse::Cut(pieces) => {
                for piece in pieces {
                    stream.write_all(piece.as_bytes()).await.unwrap();
                    stream.flush().await.unwrap();
                    tokio::task::yield_now().await;
                }
                return;
            }
        }
    }
}

/// The first line of a request and its body.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut text = String::new();
    loop {
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes).await.ok()?;
        if read == 0 {
            return None;
        }
        text.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            let line = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1");
            return Some(format!("{line} {body}").trim_end().to_owned());
        }
    }
}

fn respond(code: &str, headers: &str, body: &str) -> ScriptedResponse {
    let length = body.len();
    ScriptedResponse::Send(format!(
        "HTTP/1.1 {code}\r\n{headers}content-length: {length}\r\n\r\n{body}"
    ))
}

const MAP: &str = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"a","uid":"u","resourceVersion":"5"},"data":{"k":"v"}}"#;

#[tokio::test]
async fn an_object_is_requested_and_decoded() {
    let server = Server::start(vec![respond("200 OK", "", MAP)]).await;
    let map = server.maps().get("x").await.unwrap();
    assert_eq!(format!("{map:?}"), "a/x@5");
    assert_eq!(map.to_owned().unwrap().data.unwrap()["k"], "v");
    assert_eq!(*server.requests.lock(), ["GET /api/v1/namespaces/a/configmaps/x"]);
}

#[tokio::test]
async fn a_list_has_its_resource_version() {
    let list = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"x","namespace":"a"}}]}"#;
    let server = Server::start(vec![respond("200 OK", "", list)]).await;
    let listed = server.maps().list(&ListOptions::default()).await.unwrap();
    assert_eq!((listed.items.len(), listed.resource_version.0), (1, 9));
}

#[tokio::test]
async fn an_error_is_the_status_of_the_server() {
    let conflict = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Operation cannot be fulfilled","reason":"Conflict","code":409}"#;
    let server = Server::start(vec![respond("409 Conflict", "", conflict)]).await;
    let mut map = ConfigMap::default();
    map.metadata.name = Some("x".to_owned());
    let status = server.maps().update(&map).await.unwrap_err();
    assert!(status.is_conflict());
    let expected = r#"PUT /api/v1/namespaces/a/configmaps/x {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}"#;
    assert_eq!(*server.requests.lock(), [expected]);
}

#[tokio::test]
async fn a_created_object_may_come_with_warnings() {
    let server = Server::start(vec![respond(
        "201 Created",
        "warning: 299 - \"mind this\"\r\n",
        MAP,
    )])
    .await;
    let response = server
        .maps()
        .dynamic()
        .create_subresource("x", "sub", "{}")
        .await
        .unwrap();
    assert!(response.created);
    assert_eq!(response.warnings, ["mind this"]);
}

#[tokio::test]
async fn a_delete_may_return_no_object() {
    let success = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}"#;
    let server = Server::start(vec![respond("200 OK", "", success)]).await;
    let left = server.maps().delete("x", DeleteOptions::default()).await.unwrap();
    assert!(left.is_none());
}

#[tokio::test]
async fn a_connection_is_used_again_and_replaced_when_the_server_closes_it() {
    let ok = || respond("200 OK", "", MAP);
    let text = |respond| match respond {
        ScriptedResponse::Send(text) => text,
        ScriptedResponse::Cut(_) => unreachable!(),
    };
    let server = Server::start(vec![ok(), ok(), ScriptedResponse::Cut(vec![text(ok())]), ok()]).await;
    let maps = server.maps();
    for _ in 0..4 {
        maps.get("x").await.unwrap();
    }
    assert_eq!((*server.connections.lock(), server.requests.lock().len()), (2, 4));
}

async fn next(watch: &mut Watch) -> Option<String> {
    poll_fn(|cx| watch.as_mut().poll_next(cx))
        .await
        .map(|event| format!("{event:?}"))
}

/// IN12: a watch arrives in pieces, and a cut connection just ends it.
#[tokio::test]
async fn in12_a_watch_is_read_as_it_arrives_and_ends_when_it_is_cut() {
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let line = format!("{{\"type\":\"ADDED\",\"object\":{MAP}}}\n");
    let (first, second) = line.split_at(40);
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
    let pieces = vec![
        head,
        chunk(first),
        chunk(&format!("{second}{line}")),
        chunk("{\"type\":\"MOD"),
    ];
    let server = Server::start(vec![ScriptedResponse::Cut(pieces)]).await;
    let mut watch = server.maps().watch(&WatchOptions::default()).await.unwrap();
    assert_eq!(next(&mut watch).await.as_deref(), Some("Added(a/x@5)"));
    assert_eq!(next(&mut watch).await.as_deref(), Some("Added(a/x@5)"));
    assert_eq!(next(&mut watch).await, None);
}

#[tokio::test]
async fn an_unreachable_server_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let connection = Connection {
        server,
        ..Connection::default()
    };
    let status = client(&connection).all::<ConfigMap>().get("x").await.unwrap_err();
    assert_eq!(status.code, 503);
    assert!(status.message.contains("refused"), "{status}");
}

/// A CA.
struct TestCa(CertifiedIssuer<'static, KeyPair>);

impl TestCa {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "test ca");
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> Vec<u8> {
        self.0.pem().into_bytes()
    }

    /// A certificate and its key, PEM.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

/// A TLS server that responds with a ConfigMap whose data describes the request.
async fn start_tls(ca: &TestCa, tasks: &mut JoinSet<()>) -> (String, Arc<Mutex<usize>>) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(ca.0.der().clone()).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let (certificate, key) = ca.sign("server");
    let chain = rustls_pki_types::CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.allow_unauthenticated().build().unwrap())
        .with_single_cert(
            vec![chain],
            PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}", listener.local_addr().unwrap());
    let accepted: Arc<Mutex<usize>> = Arc::default();
    let count = accepted.clone();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            *count.lock() += 1;
            let acceptor = acceptor.clone();
            connections.spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let has_certificate = stream.get_ref().1.peer_certificates().is_some();
                let service = service_fn(move |request| async move {
                    Ok::<_, Infallible>(describe_request(&request, has_certificate))
                });
                let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                drop(server.serve_connection(TokioIo::new(stream), service).await);
            });
        }
    });
    (address, accepted)
}

fn describe_request(
    request: &HttpRequest<hyper::body::Incoming>,
    certificate: bool,
) -> ::http::Response<Full<Bytes>> {
    let token = request
        .headers()
        .get(header::AUTHORIZATION)
        .map_or("none", |token| token.to_str().unwrap());
    let is_http2 = request.version() == Version::HTTP_2;
    let json = format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"x","uid":"u"}},
            "data":{{"token":"{token}","certificate":"{certificate}","http2":"{is_http2}"}}}}"#
    );
    ::http::Response::new(Full::new(json.into()))
}

/// The request of a client with this connection, as the server describes it.
async fn request_as_seen(connection: &Connection) -> Result<String, Status> {
    let map = client(connection).namespaced::<ConfigMap>("a").get("x").await?;
    let data = map.to_owned()?.data.unwrap();
    Ok(format!(
        "{} {} {}",
        data["http2"], data["certificate"], data["token"]
    ))
}

#[tokio::test]
async fn over_tls_a_client_sends_its_certificate_or_its_token() {
    let (ca, mut tasks) = (TestCa::new(), JoinSet::new());
    let mut connection = Connection {
        server: start_tls(&ca, &mut tasks).await.0,
        authority: Some(ca.pem()),
        ..Connection::default()
    };
    assert_eq!(request_as_seen(&connection).await.unwrap(), "true false none");
    let (chain, key) = ca.sign("admin");
    let (chain, key) = (chain.into_bytes(), key.into_bytes());
    connection.identity = Identity::Certificate { chain, key };
    assert_eq!(request_as_seen(&connection).await.unwrap(), "true true none");
    connection.identity = Identity::Token("secret".to_owned());
    assert_eq!(
        request_as_seen(&connection).await.unwrap(),
        "true false Bearer secret"
    );
}

#[tokio::test]
async fn a_server_of_another_ca_is_rejected_unless_verification_is_off() {
    let mut tasks = JoinSet::new();
    let mut connection = Connection {
        server: start_tls(&TestCa::new(), &mut tasks).await.0,
        authority: Some(TestCa::new().pem()),
        ..Connection::default()
    };
    let status = request_as_seen(&connection).await.unwrap_err();
    assert!(status.message.contains("certificate"), "{status}");
    connection.authority = None;
    let error = Http::new(&connection).unwrap_err().to_string();
    assert!(error.starts_with("no certificate authority for"), "{error}");
    connection.insecure_skip_tls_verify = true;
    assert_eq!(request_as_seen(&connection).await.unwrap(), "true false none");
}

#[tokio::test]
async fn many_requests_share_one_connection_of_http2() {
    let (ca, mut tasks) = (TestCa::new(), JoinSet::new());
    let (server, accepted) = start_tls(&ca, &mut tasks).await;
    let connection = Connection {
        server,
        authority: Some(ca.pem()),
        ..Connection::default()
    };
    let http = Arc::new(Http::new(&connection).unwrap());
    let client = Client::new(http, Arc::new(User::anonymous()));
    client.all::<ConfigMap>().get("x").await.unwrap();
    let mut requests = JoinSet::new();
    for _ in 0..100 {
        let maps = client.all::<ConfigMap>();
        requests.spawn(async move { maps.get("x").await.unwrap().uid().to_owned() });
    }
    while let Some(uid) = requests.join_next().await {
        assert_eq!(uid.unwrap(), "u");
    }
    assert_eq!(*accepted.lock(), 1);
}

/// A body of a few small frames.
struct SmallFrames(usize);

impl hyper::body::Body for SmallFrames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
        let left = self.0;
        self.0 = left.saturating_sub(1);
        let frame = (left > 0).then(|| Ok(hyper::body::Frame::data(Bytes::from_static(b"[]"))));
        std::task::Poll::Ready(frame)
    }
}

/// The responses come at once, in more small frames than the client reads in time.
#[tokio::test]
async fn many_small_responses_at_once_do_not_close_the_connection() {
    const REQUESTS: usize = 200;
    let (client, server) = tokio::io::duplex(1 << 20);
    let all_arrived = Arc::new(tokio::sync::Barrier::new(REQUESTS));
    let service = service_fn(move |_| {
        let all_arrived = all_arrived.clone();
        async move {
            all_arrived.wait().await;
            Ok::<_, Infallible>(::http::Response::new(SmallFrames(3)))
        }
    });
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let server_connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        drop(
            server_connection
                .serve_connection(TokioIo::new(server), service)
                .await,
        );
    });
    let connection = Connection {
        server: "http://server".to_owned(),
        ..Connection::default()
    };
    let connector = connect::Connector::new(&connection).unwrap();
    let connect::PooledConnection::Http2(sender) = connector.handshake_http2(client).await.unwrap() else {
        panic!("the connection is not one of HTTP/2");
    };
    let mut requests = JoinSet::new();
    for _ in 0..REQUESTS {
        let mut sender = sender.clone();
        requests.spawn(async move {
            let request = HttpRequest::get("http://server/x").body(Full::new(Bytes::new()));
            let response = sender.send_request(request.unwrap()).await.unwrap();
            response.into_body().collect().await.unwrap().to_bytes()
        });
    }
    while let Some(body) = requests.join_next().await {
        assert_eq!(body.unwrap(), "[][][]");
    }
}

/// A clock whose sleeps return at once.
#[derive(Debug, Default)]
struct InstantClock(Mutex<u64>);

impl Clock for InstantClock {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_second(i64::try_from(*self.0.lock()).unwrap()).unwrap()
    }

    fn sleep(&self, duration: Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
        *self.0.lock() += duration.as_secs();
        Box::pin(std::future::ready(()))
    }
}

/// Checks how long a client waited in all, how many requests it sent, and the final code, for this script.
async fn check_retries(script: Vec<ScriptedResponse>, expected: (u64, usize, u16)) {
    let server = Server::start(script).await;
    let connection = Connection {
        server: server.address.clone(),
        ..Connection::default()
    };
    let clock = Arc::new(InstantClock::default());
    let http = Http::with_clock(&connection, clock.clone()).unwrap();
    let client = Client::new(Arc::new(http), Arc::new(User::anonymous()));
    let outcome = client.namespaced::<ConfigMap>("a").get("x").await;
    let code = outcome.map_or_else(|status| status.code, |_| 200);
    let (waited, requests) = (*clock.0.lock(), server.requests.lock().len());
    assert_eq!((waited, requests, code), expected);
}

/// IN12: an overloaded server responds with `Retry-After`.
#[tokio::test]
async fn in12_a_request_is_retried_after_the_time_in_retry_after() {
    let busy = |code: &str| respond(code, "retry-after: 3\r\n", "");
    let ok = || respond("200 OK", "", MAP);
    check_retries(
        vec![
            busy("429 Too Many Requests"),
            busy("503 Service Unavailable"),
            ok(),
        ],
        (6, 3, 200),
    )
    .await;
    check_retries(vec![respond("429 Too Many Requests", "", "")], (0, 1, 429)).await;
    check_retries(vec![busy("409 Conflict")], (0, 1, 409)).await;
    check_retries((0..12).map(|_| busy("500 Oops")).collect(), (30, 11, 500)).await;
}

/// CL8: a token file that is rotated.
#[tokio::test]
async fn cl8_a_token_file_is_read_again_when_it_is_old_or_rejected() {
    let (ca, mut tasks, directory) = (TestCa::new(), JoinSet::new(), tempfile::tempdir().unwrap());
    let path = directory.path().join("token");
    std::fs::write(&path, "one\n").unwrap();
    let connection = Connection {
        server: start_tls(&ca, &mut tasks).await.0,
        authority: Some(ca.pem()),
        identity: Identity::TokenFile(path.clone()),
        ..Connection::default()
    };
    let clock = Arc::new(InstantClock::default());
    let http = Http::with_clock(&connection, clock.clone()).unwrap();
    let client = Client::new(Arc::new(http), Arc::new(User::anonymous()));
    let token = async || {
        let map = client.namespaced::<ConfigMap>("a").get("x").await.unwrap();
        map.to_owned().unwrap().data.unwrap()["token"].clone()
    };
    assert_eq!(token().await, "Bearer one");
    std::fs::write(&path, "two\n").unwrap();
    assert_eq!(token().await, "Bearer one");
    *clock.0.lock() += 60;
    assert_eq!(token().await, "Bearer two");
}

#[tokio::test]
async fn cl8_a_plugin_is_run_again_when_the_server_rejects_its_credential() {
    let directory = tempfile::tempdir().unwrap();
    let count = directory.path().join("count");
    let script = format!(
        r#"echo x >> {0}; printf '{{"apiVersion":"v","status":{{"token":"t%s"}}}}' $(wc -l < {0})"#,
        count.display()
    );
    let exec = serde_json::json!({"apiVersion": "v", "command": "/bin/sh", "args": ["-c", script]});
    let server = Server::start(vec![
        respond("200 OK", "", MAP),
        respond("401 Unauthorized", "", ""),
        respond("200 OK", "", MAP),
        respond("200 OK", "", MAP),
    ])
    .await;
    let connection = Connection {
        server: server.address.clone(),
        identity: Identity::Exec(Box::new(serde_json::from_value(exec).unwrap())),
        ..Connection::default()
    };
    let client = client(&connection);
    for _ in 0..3 {
        client.namespaced::<ConfigMap>("a").get("x").await.unwrap();
    }
    assert_eq!(server.requests.lock().len(), 4);
    assert_eq!(std::fs::read_to_string(&count).unwrap().lines().count(), 2);
}

/// A watch in which each event is a gzip member.
#[tokio::test]
async fn a_compressed_watch_is_read_as_it_comes() {
    use std::io::Write;

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connection = Connection {
        server: format!("http://{}", listener.local_addr().unwrap()),
        ..Connection::default()
    };
    let (go_on, mut may_go_on) = tokio::sync::mpsc::channel::<()>(1);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await;
        let head = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        loop {
            let mut member = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            writeln!(member, "{{\"type\":\"ADDED\",\"object\":{MAP}}}").unwrap();
            let member = member.finish().unwrap();
            let mut chunk = format!("{:x}\r\n", member.len()).into_bytes();
            chunk.extend_from_slice(&member);
            chunk.extend_from_slice(b"\r\n");
            stream.write_all(&chunk).await.unwrap();
            if may_go_on.recv().await.is_none() {
                return;
            }
        }
    });
    let maps = client(&connection).namespaced::<ConfigMap>("a");
    let mut watch = maps.watch(&WatchOptions::default()).await.unwrap();
    for _ in 0..3 {
        assert_eq!(next(&mut watch).await.as_deref(), Some("Added(a/x@5)"));
        go_on.send(()).await.unwrap();
    }
    assert_eq!(next(&mut watch).await.as_deref(), Some("Added(a/x@5)"));
    drop(go_on);
    assert_eq!(next(&mut watch).await, None);
}
