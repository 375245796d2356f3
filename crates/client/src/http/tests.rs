//! The client against real sockets: plain HTTP/1.1 by hand, HTTP/2 over TLS by hyper.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;

use ::http::Version;
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
use crate::{Client, Handle};

/// What the server does with a request it has read.
#[derive(Clone)]
enum Answer {
    /// Sends this and reads the next request.
    Send(String),
    /// Sends these pieces, one after the other, and closes the connection.
    Cut(Vec<String>),
}

/// A server on a socket that answers by a script.
struct Server {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
    connections: Arc<Mutex<usize>>,
    _tasks: JoinSet<()>,
}

impl Server {
    async fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
        let (asked, connections): (Arc<Mutex<Vec<String>>>, Arc<Mutex<usize>>) = Default::default();
        let mut tasks = JoinSet::new();
        let (log, count) = (asked.clone(), connections.clone());
        tasks.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                *count.lock() += 1;
                converse(stream, &answers, &log).await;
            }
        });
        Self {
            address,
            asked,
            connections,
            _tasks: tasks,
        }
    }

    fn maps(&self) -> Handle<ConfigMap> {
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

async fn converse(mut stream: TcpStream, answers: &Mutex<VecDeque<Answer>>, asked: &Mutex<Vec<String>>) {
    while let Some(request) = read_request(&mut stream).await {
        asked.lock().push(request);
        let answer = answers.lock().pop_front();
        match answer.unwrap() {
            Answer::Send(text) => stream.write_all(text.as_bytes()).await.unwrap(),
            Answer::Cut(pieces) => {
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

fn answer(code: &str, headers: &str, body: &str) -> Answer {
    let length = body.len();
    Answer::Send(format!(
        "HTTP/1.1 {code}\r\n{headers}content-length: {length}\r\n\r\n{body}"
    ))
}

const MAP: &str = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"a","uid":"u","resourceVersion":"5"},"data":{"k":"v"}}"#;

#[tokio::test]
async fn an_object_is_asked_for_and_decoded() {
    let server = Server::start(vec![answer("200 OK", "", MAP)]).await;
    let map = server.maps().get("x").await.unwrap();
    assert_eq!(format!("{map:?}"), "a/x@5");
    assert_eq!(map.to_owned().unwrap().data.unwrap()["k"], "v");
    assert_eq!(*server.asked.lock(), ["GET /api/v1/namespaces/a/configmaps/x"]);
}

#[tokio::test]
async fn a_list_has_its_revision() {
    let list = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"x","namespace":"a"}}]}"#;
    let server = Server::start(vec![answer("200 OK", "", list)]).await;
    let listed = server.maps().list(&ListOptions::default()).await.unwrap();
    assert_eq!((listed.items.len(), listed.resource_version.0), (1, 9));
}

#[tokio::test]
async fn a_refusal_is_the_servers_own_status() {
    let conflict = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Operation cannot be fulfilled","reason":"Conflict","code":409}"#;
    let server = Server::start(vec![answer("409 Conflict", "", conflict)]).await;
    let mut map = ConfigMap::default();
    map.metadata.name = Some("x".to_owned());
    let status = server.maps().update(&map).await.unwrap_err();
    assert!(status.is_conflict());
    let expected = r#"PUT /api/v1/namespaces/a/configmaps/x {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}"#;
    assert_eq!(*server.asked.lock(), [expected]);
}

#[tokio::test]
async fn a_created_object_may_come_with_warnings() {
    let server = Server::start(vec![answer(
        "201 Created",
        "warning: 299 - \"mind this\"\r\n",
        MAP,
    )])
    .await;
    let response = server
        .maps()
        .dynamic()
        .create_sub("x", "sub", "{}")
        .await
        .unwrap();
    assert!(response.created);
    assert_eq!(response.warnings, ["mind this"]);
}

#[tokio::test]
async fn a_delete_may_leave_nothing_to_show() {
    let success = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}"#;
    let server = Server::start(vec![answer("200 OK", "", success)]).await;
    let left = server.maps().delete("x", DeleteOptions::default()).await.unwrap();
    assert!(left.is_none());
}

#[tokio::test]
async fn a_connection_is_used_again_and_replaced_when_the_server_closes_it() {
    let ok = || answer("200 OK", "", MAP);
    let text = |answer| match answer {
        Answer::Send(text) => text,
        Answer::Cut(_) => unreachable!(),
    };
    let server = Server::start(vec![ok(), ok(), Answer::Cut(vec![text(ok())]), ok()]).await;
    let maps = server.maps();
    for _ in 0..4 {
        maps.get("x").await.unwrap();
    }
    assert_eq!((*server.connections.lock(), server.asked.lock().len()), (2, 4));
}

async fn next(watch: &mut Watch) -> Option<String> {
    poll_fn(|cx| watch.as_mut().poll_next(cx))
        .await
        .map(|event| format!("{event:?}"))
}

/// IN12: a watch comes in pieces, and when the connection is cut it just ends.
#[tokio::test]
async fn in12_a_watch_is_read_as_it_comes_and_ends_when_it_is_cut() {
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
    let server = Server::start(vec![Answer::Cut(pieces)]).await;
    let mut watch = server.maps().watch(&WatchOptions::default()).await.unwrap();
    assert_eq!(next(&mut watch).await.as_deref(), Some("Added(a/x@5)"));
    assert_eq!(next(&mut watch).await.as_deref(), Some("Added(a/x@5)"));
    assert_eq!(next(&mut watch).await, None);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
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

/// An authority and what it signed.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "test authority");
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

/// A server over TLS that tells in the data of a config map what it saw.
async fn start_tls(authority: &Authority, tasks: &mut JoinSet<()>) -> (String, Arc<Mutex<usize>>) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(authority.0.der().clone()).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let (certificate, key) = authority.sign("server");
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
                let shown = stream.get_ref().1.peer_certificates().is_some();
                let service =
                    service_fn(move |request| async move { Ok::<_, Infallible>(tell(&request, shown)) });
                let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                drop(server.serve_connection(TokioIo::new(stream), service).await);
            });
        }
    });
    (address, accepted)
}

fn tell(request: &HttpRequest<hyper::body::Incoming>, certificate: bool) -> ::http::Response<Full<Bytes>> {
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

/// What the server saw of a client with this identity.
async fn seen(connection: &Connection) -> Result<String, Status> {
    let map = client(connection).namespaced::<ConfigMap>("a").get("x").await?;
    let data = map.to_owned()?.data.unwrap();
    Ok(format!(
        "{} {} {}",
        data["http2"], data["certificate"], data["token"]
    ))
}

#[tokio::test]
async fn over_tls_a_client_shows_its_certificate_or_its_token() {
    let (authority, mut tasks) = (Authority::new(), JoinSet::new());
    let mut connection = Connection {
        server: start_tls(&authority, &mut tasks).await.0,
        authority: Some(authority.pem()),
        ..Connection::default()
    };
    assert_eq!(seen(&connection).await.unwrap(), "true false none");
    let (chain, key) = authority.sign("admin");
    let (chain, key) = (chain.into_bytes(), key.into_bytes());
    connection.identity = Identity::Certificate { chain, key };
    assert_eq!(seen(&connection).await.unwrap(), "true true none");
    connection.identity = Identity::Token("secret".to_owned());
    assert_eq!(seen(&connection).await.unwrap(), "true false Bearer secret");
}

#[tokio::test]
async fn a_server_of_another_authority_is_refused_unless_the_user_says_so() {
    let mut tasks = JoinSet::new();
    let mut connection = Connection {
        server: start_tls(&Authority::new(), &mut tasks).await.0,
        authority: Some(Authority::new().pem()),
        ..Connection::default()
    };
    let status = seen(&connection).await.unwrap_err();
    assert!(status.message.contains("certificate"), "{status}");
    connection.authority = None;
    let refused = Http::new(&connection).unwrap_err().to_string();
    assert!(refused.starts_with("no certificate authority for"), "{refused}");
    connection.insecure_skip_tls_verify = true;
    assert_eq!(seen(&connection).await.unwrap(), "true false none");
}

#[tokio::test]
async fn many_requests_share_one_connection_of_http2() {
    let (authority, mut tasks) = (Authority::new(), JoinSet::new());
    let (server, accepted) = start_tls(&authority, &mut tasks).await;
    let connection = Connection {
        server,
        authority: Some(authority.pem()),
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

/// A clock whose time passes at once, so that nobody waits for real.
#[derive(Debug, Default)]
struct Hasty(Mutex<u64>);

impl Clock for Hasty {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_second(i64::try_from(*self.0.lock()).unwrap()).unwrap()
    }

    fn sleep(&self, duration: Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
        *self.0.lock() += duration.as_secs();
        Box::pin(std::future::ready(()))
    }
}

/// How long a client waited in all, how often it asked, and the code it ended with, if the server answers so.
async fn check_retries(answers: Vec<Answer>, expected: (u64, usize, u16)) {
    let server = Server::start(answers).await;
    let connection = Connection {
        server: server.address.clone(),
        ..Connection::default()
    };
    let clock = Arc::new(Hasty::default());
    let http = Http::with_clock(&connection, clock.clone()).unwrap();
    let client = Client::new(Arc::new(http), Arc::new(User::anonymous()));
    let outcome = client.namespaced::<ConfigMap>("a").get("x").await;
    let code = outcome.map_or_else(|status| status.code, |_| 200);
    let (waited, asked) = (*clock.0.lock(), server.asked.lock().len());
    assert_eq!((waited, asked, code), expected);
}

/// IN12: a server that has too much to do says when to come back.
#[tokio::test]
async fn in12_a_busy_server_is_asked_again_when_it_says_so() {
    let busy = |code: &str| answer(code, "retry-after: 3\r\n", "");
    let ok = || answer("200 OK", "", MAP);
    check_retries(
        vec![
            busy("429 Too Many Requests"),
            busy("503 Service Unavailable"),
            ok(),
        ],
        (6, 3, 200),
    )
    .await;
    check_retries(vec![answer("429 Too Many Requests", "", "")], (0, 1, 429)).await;
    check_retries(vec![busy("409 Conflict")], (0, 1, 409)).await;
    check_retries((0..12).map(|_| busy("500 Oops")).collect(), (30, 11, 500)).await;
}

/// CL8: a token that somebody keeps current in a file.
#[tokio::test]
async fn cl8_a_token_file_is_read_again_when_it_is_old_or_refused() {
    let (authority, mut tasks, directory) = (Authority::new(), JoinSet::new(), tempfile::tempdir().unwrap());
    let path = directory.path().join("token");
    std::fs::write(&path, "one\n").unwrap();
    let connection = Connection {
        server: start_tls(&authority, &mut tasks).await.0,
        authority: Some(authority.pem()),
        identity: Identity::TokenFile(path.clone()),
        ..Connection::default()
    };
    let clock = Arc::new(Hasty::default());
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
async fn cl8_a_plugin_is_run_again_when_the_server_refuses_what_it_printed() {
    let directory = tempfile::tempdir().unwrap();
    let count = directory.path().join("count");
    let script = format!(
        r#"echo x >> {0}; printf '{{"apiVersion":"v","status":{{"token":"t%s"}}}}' $(wc -l < {0})"#,
        count.display()
    );
    let exec = serde_json::json!({"apiVersion": "v", "command": "/bin/sh", "args": ["-c", script]});
    let server = Server::start(vec![
        answer("200 OK", "", MAP),
        answer("401 Unauthorized", "", ""),
        answer("200 OK", "", MAP),
        answer("200 OK", "", MAP),
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
    assert_eq!(server.asked.lock().len(), 4);
    assert_eq!(std::fs::read_to_string(&count).unwrap().lines().count(), 2);
}

/// A watch whose events come as gzip members of their own.
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
