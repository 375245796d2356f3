//! Calls of a real HTTPS server, whose behaviour depends on the path.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::{SignedDuration, Timestamp};
use rustls::ServerConfig;
use setpoint_api::SystemClock;
use setpoint_registry_api::WebhookAddress;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::connect::BackendAddress;
use crate::serve::tests::{Pair, TestCa};

/// A webhook server, with a certificate for this host.
struct Server {
    address: SocketAddr,
    authority: TestCa,
    connections: Arc<AtomicUsize>,
    _running: JoinSet<()>,
}

async fn start(host: &str) -> Server {
    let authority = TestCa::new();
    start_with(authority.sign_for(host, "webhook", "tests"), authority).await
}

async fn start_with((certificate, key): Pair, authority: TestCa) -> Server {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::default());
    let accepted = connections.clone();
    let mut running = JoinSet::new();
    running.spawn(async move {
        let mut served = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            let accepted = accepted.clone();
            served.spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                accepted.fetch_add(1, Ordering::Relaxed);
                let service = service_fn(respond);
                let http = hyper::server::conn::http1::Builder::new();
                let _ = http.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    Server {
        address,
        authority,
        connections,
        _running: running,
    }
}

/// The calls of `/retry`.
static RETRIED: AtomicUsize = AtomicUsize::new(0);

/// Responds as the path specifies: `/503/text`, `/echo`, `/retry/text`, `/large`, `/never`, `/close`.
async fn respond(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, std::io::Error> {
    let path = request.uri().path().to_owned();
    let mut parts = path.trim_start_matches('/').splitn(2, '/');
    let (first, rest) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let header = |name: &str| request.headers()[name].to_str().unwrap_or_default().to_owned();
    match first {
        "echo" => {
            let (host, agent) = (header("host"), header("user-agent"));
            let text = format!("{} {} {host} {agent}", request.method(), request.uri());
            Ok(Response::new(Full::from(text)))
        }
        "large" => Ok(Response::new(Full::from(vec![b' '; MAX_RESPONSE_BYTES + 1]))),
        "retry" => {
            let mut response = Response::new(Full::from(rest.to_owned()));
            if RETRIED.fetch_add(1, Ordering::Relaxed) < 2 {
                *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
                response
                    .headers_mut()
                    .insert(RETRY_AFTER, HeaderValue::from_static("0"));
            }
            Ok(response)
        }
        "never" => std::future::pending().await,
        "close" => Err(std::io::Error::other("closed")),
        code => {
            let mut response = Response::new(Full::from(rest.to_owned()));
            *response.status_mut() = code.parse().unwrap();
            Ok(response)
        }
    }
}

impl Server {
    fn by_url(&self, path: &str) -> WebhookEndpoint {
        WebhookEndpoint {
            address: WebhookAddress::Url(format!("https://{}{path}", self.address)),
            ca_bundle: self.authority.pem().into(),
        }
    }

    fn by_service(&self, name: &str, path: &str) -> WebhookEndpoint {
        WebhookEndpoint {
            address: WebhookAddress::Service {
                namespace: "team".to_owned(),
                name: name.to_owned(),
                path: path.to_owned(),
                port: 443,
            },
            ca_bundle: self.authority.pem().into(),
        }
    }

    fn client(&self) -> Arc<HttpsWebhookClient> {
        self.client_with(ProxyConfig::default(), Arc::new(SystemClock::new()))
    }

    /// A client that resolves the Service `policy` to this server.
    fn client_with(&self, proxies: ProxyConfig, clock: Arc<dyn Clock>) -> Arc<HttpsWebhookClient> {
        let address = self.address;
        let resolve: ServiceResolver = Box::new(move |service| match service.name.as_str() {
            "policy" => Ok(BackendAddress {
                secure: true,
                host: address.ip().to_string(),
                port: address.port(),
                resolved: Vec::new(),
                node: None,
            }),
            name => Err(format!("service {name:?} not found")),
        });
        HttpsWebhookClient::new(resolve, clock, proxies)
    }
}

fn request() -> WebhookRequest {
    WebhookRequest {
        body: Bytes::from_static(b"{}"),
        query: "timeout=10s".to_owned(),
        timeout: Duration::from_secs(10),
    }
}

/// Calls an endpoint: the body of the response, or the message of the error. `ADDRESS` stands for that of the server.
async fn call(server: &Server, endpoint: &WebhookEndpoint) -> String {
    let outcome = server.client().post(endpoint, request()).await;
    let text = match outcome {
        Ok(body) => String::from_utf8(body.to_vec()).unwrap(),
        Err(error) => error.message,
    };
    text.replace(&server.address.to_string(), "ADDRESS")
}

#[tokio::test]
async fn a_webhook_is_called_by_url_or_at_an_endpoint_of_its_service() {
    let server = start("127.0.0.1").await;
    let called = call(&server, &server.by_url("/echo//a/")).await;
    let agent = "kube-apiserver-admission";
    assert_eq!(called, format!("POST /echo/a?timeout=10s ADDRESS {agent}"));
    let server = start("policy.team.svc").await;
    let called = call(&server, &server.by_service("policy", "/echo")).await;
    assert_eq!(
        called,
        format!("POST /echo?timeout=10s policy.team.svc:443 {agent}")
    );
}

#[tokio::test]
async fn a_connection_is_reused() {
    let server = start("127.0.0.1").await;
    let client = server.client();
    for _ in 0..3 {
        let body = client.post(&server.by_url("/200/fine"), request()).await.unwrap();
        assert_eq!(body, "fine");
        // The connection returns to the pool in a task of its own.
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
    }
    assert_eq!(server.connections.load(Ordering::Relaxed), 1);
}

/// A clock that a test sets forward.
#[derive(Debug)]
struct ForwardClock {
    clock: SystemClock,
    seconds: AtomicI64,
}

impl Clock for ForwardClock {
    fn now(&self) -> Timestamp {
        self.clock.now() + SignedDuration::from_secs(self.seconds.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
        self.clock.sleep(duration)
    }
}

#[tokio::test]
async fn a_connection_that_was_idle_for_long_is_not_reused() {
    let server = start("127.0.0.1").await;
    let clock = Arc::new(ForwardClock {
        clock: SystemClock::new(),
        seconds: AtomicI64::new(0),
    });
    let client = server.client_with(ProxyConfig::default(), clock.clone());
    for (seconds, connections) in [(0, 1), (60, 1), (120, 1), (211, 2)] {
        clock.seconds.store(seconds, Ordering::Relaxed);
        client.post(&server.by_url("/200/fine"), request()).await.unwrap();
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        assert_eq!(
            server.connections.load(Ordering::Relaxed),
            connections,
            "after {seconds} s"
        );
    }
}

#[tokio::test]
async fn a_call_is_repeated_if_the_response_has_retry_after() {
    let server = start("127.0.0.1").await;
    assert_eq!(call(&server, &server.by_url("/retry/fine")).await, "fine");
    assert_eq!(RETRIED.load(Ordering::Relaxed), 3);
}

/// An HTTP proxy that connects every tunnel to this address. Returns its own address and the first line of requests.
async fn start_proxy(target: SocketAddr, tasks: &mut JoinSet<()>) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let requests = Arc::new(Mutex::new(Vec::new()));
    let received = requests.clone();
    tasks.spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        received.lock().push(head.lines().next().unwrap().to_owned());
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let mut backend = TcpStream::connect(target).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut stream, &mut backend).await;
    });
    (address, requests)
}

#[tokio::test]
async fn a_webhook_by_url_is_called_through_the_proxy_of_the_environment() {
    let server = start("hook.test").await;
    let mut tasks = JoinSet::new();
    let (proxy, requests) = start_proxy(server.address, &mut tasks).await;
    let variable = |name: &str| (name == "HTTPS_PROXY").then(|| format!("http://{proxy}"));
    let proxies = ProxyConfig::from_env(variable).unwrap();
    let client = server.client_with(proxies, Arc::new(SystemClock::new()));
    let endpoint = WebhookEndpoint {
        address: WebhookAddress::Url("https://hook.test/200/fine".to_owned()),
        ca_bundle: server.authority.pem().into(),
    };
    let body = client.post(&endpoint, request()).await.unwrap();
    assert_eq!(body, "fine");
    assert_eq!(*requests.lock(), ["CONNECT hook.test:443 HTTP/1.1"]);
}

#[track_caller]
fn check_text(actual: String, expected: &str) {
    assert_eq!(actual, expected);
}

#[tokio::test]
async fn a_response_that_is_no_success_is_an_error_with_the_text_of_its_code() {
    let server = start("127.0.0.1").await;
    for (path, expected) in [
        ("/404/x", "the server could not find the requested resource"),
        ("/400/x", "the server rejected our request for an unknown reason"),
        ("/403/go", "go"),
        (
            "/500/oops",
            "an error on the server (\"oops\") has prevented the request from succeeding",
        ),
        ("/503/x", "the server is currently unable to handle the request"),
        (
            "/302/x",
            "the server responded with the status code 302 but did not return more information",
        ),
        (
            "/500/%7B%22status%22:%22Failure%22%7D",
            "an error on the server (\"%7B%22status%22:%22Failure%22%7D\") has prevented the request from succeeding",
        ),
    ] {
        check_text(call(&server, &server.by_url(path)).await, expected);
    }
}

#[tokio::test]
async fn a_failed_call_has_the_text_of_go() {
    let server = start("127.0.0.1").await;
    let post = |path: &str| format!("Post \"https://ADDRESS{path}?timeout=10s\": ");
    check_text(
        call(&server, &server.by_url("/close")).await,
        &(post("/close") + "EOF"),
    );
    let trusts_another = WebhookEndpoint {
        ca_bundle: TestCa::new().pem().into(),
        ..server.by_url("/echo")
    };
    let unknown = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    check_text(call(&server, &trusts_another).await, &(post("/echo") + unknown));
    let by_service = call(&server, &server.by_service("policy", "/echo")).await;
    let url = "Post \"https://policy.team.svc:443/echo?timeout=10s\": ";
    let names = "tls: failed to verify certificate: x509: certificate is not valid for any names, but wanted to match policy.team.svc";
    check_text(by_service, &format!("{url}{names}"));
    let gone = call(&server, &server.by_service("gone", "")).await;
    check_text(
        gone,
        "Post \"https://gone.team.svc:443/?timeout=10s\": service \"gone\" not found",
    );
    let closed_port = WebhookEndpoint {
        address: WebhookAddress::Url("https://127.0.0.1:1/x".to_owned()),
        ..server.by_url("")
    };
    check_text(
        call(&server, &closed_port).await,
        "Post \"https://127.0.0.1:1/x?timeout=10s\": dial tcp 127.0.0.1:1: connect: connection refused",
    );
}

#[tokio::test]
async fn a_certificate_for_another_name_is_reported_as_such() {
    let server = start("other.team.svc").await;
    let called = call(&server, &server.by_service("policy", "/echo")).await;
    assert!(
        called.ends_with("x509: certificate is valid for other.team.svc, not policy.team.svc"),
        "{called}"
    );
    let by_url = call(&server, &server.by_url("/echo")).await;
    assert!(
        by_url.ends_with(
            "x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"
        ),
        "{by_url}"
    );
}

#[tokio::test]
async fn a_response_is_bounded_in_size() {
    let server = start("127.0.0.1").await;
    let called = call(&server, &server.by_url("/large")).await;
    assert!(
        called.contains("Original error: the response is larger than"),
        "{called}"
    );
}

#[tokio::test]
async fn a_call_ends_with_its_timeout() {
    let server = start("127.0.0.1").await;
    let soon = WebhookRequest {
        timeout: Duration::from_millis(1),
        ..request()
    };
    let error = server
        .client()
        .post(&server.by_url("/never"), soon)
        .await
        .unwrap_err();
    assert!(error.message.ends_with("context deadline exceeded"), "{error}");
}

#[tokio::test]
async fn a_self_signed_certificate_in_the_bundle_is_trusted() {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap();
    let pem = certificate.pem();
    let key = rustls_pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let server = start_with((certificate.der().clone(), key), TestCa::new()).await;
    let endpoint = WebhookEndpoint {
        ca_bundle: pem.into(),
        ..server.by_url("/200/fine")
    };
    check_text(call(&server, &endpoint).await, "fine");
}
