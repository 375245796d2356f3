//! [`ExtensionApiServer`]: an aggregated API server: HTTPS on a port of its own, with a certificate of its own CA, for
//! requests that the aggregator proxies with its client certificate and `X-Remote-*` headers.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// A running extension API server. It ends when this is dropped.
#[derive(Debug)]
pub struct ExtensionApiServer {
    address: SocketAddr,
    authority: String,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
    _running: JoinSet<()>,
}

/// A request that it received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedRequest {
    /// The path with its query.
    pub path: String,
    /// The user in `X-Remote-User`.
    pub user: String,
    /// The groups in `X-Remote-Group`.
    pub groups: Vec<String>,
}

/// Returns the response body for a request; `None` for a 404.
pub type Responder = Arc<dyn Fn(&ReceivedRequest) -> Option<Value> + Send + Sync>;

impl ExtensionApiServer {
    /// Starts a server under the host name of its service, `NAME.NAMESPACE.svc`. Only client certificates of the CA
    /// `callers`, in PEM, are accepted.
    pub async fn start(host: &str, callers: &str, responder: Responder) -> Self {
        let (authority, config) = identity(host, callers);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("there is a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let requests = Arc::<Mutex<Vec<ReceivedRequest>>>::default();
        let mut running = JoinSet::new();
        let log = requests.clone();
        running.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(acceptor.clone(), stream, responder.clone(), log.clone()));
            }
        });
        Self {
            address,
            authority,
            requests,
            _running: running,
        }
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Its CA, in PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The requests received so far.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().clone()
    }
}

/// A new CA, and a TLS configuration with a serving certificate of it.
fn identity(host: &str, callers: &str) -> (String, ServerConfig) {
    let expectation = "a certificate can be generated";
    let own = KeyPair::generate().expect(expectation);
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&own).expect(expectation).pem();
    let issuer = Issuer::new(params, own);
    let key = KeyPair::generate().expect(expectation);
    let params = CertificateParams::new([host.to_owned()]).expect(expectation);
    let certificate = params.signed_by(&key, &issuer).expect(expectation).der().clone();
    let mut roots = RootCertStore::empty();
    for callers in CertificateDer::pem_slice_iter(callers.as_bytes()) {
        roots
            .add(callers.expect("the CA is PEM"))
            .expect("the CA is a certificate");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the usual versions")
        .with_client_cert_verifier(verifier.build().expect("there is an authority"))
        .with_single_cert(
            vec![certificate],
            PrivateKeyDer::try_from(key.serialize_der()).expect("it is a key"),
        );
    (authority, config.expect("the key is that of the certificate"))
}

/// Serves the requests of one connection, one after the other.
async fn serve(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    responder: Responder,
    log: Arc<Mutex<Vec<ReceivedRequest>>>,
) {
    let Ok(mut stream) = acceptor.accept(stream).await else {
        return;
    };
    let mut read = Vec::new();
    loop {
        while let Some((requests, length)) = parse(&read) {
            read.drain(..length);
            let body = responder(&requests);
            log.lock().push(requests);
            if stream.write_all(&encode_response(body)).await.is_err() {
                return;
            }
        }
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => read.extend_from_slice(&buffer[..count]),
        }
    }
}

/// The first request in the bytes read, and its length. Requests have no bodies here.
fn parse(read: &[u8]) -> Option<(ReceivedRequest, usize)> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    let length = match request.parse(read) {
        Ok(httparse::Status::Complete(length)) => length,
        _ => return None,
    };
    let path = request.path.unwrap_or_default().to_owned();
    let named = |name: &'static str| {
        let own = request.headers.iter();
        let own = own.filter(move |header| header.name.eq_ignore_ascii_case(name));
        own.map(|header| String::from_utf8_lossy(header.value).into_owned())
    };
    let user = named("x-remote-user").next().unwrap_or_default();
    let groups = named("x-remote-group").collect();
    Some((ReceivedRequest { path, user, groups }, length))
}

fn encode_response(body: Option<Value>) -> Vec<u8> {
    let (code, body) = match body {
        Some(document) => ("200 OK", document.to_string()),
        None => ("404 Not Found", "404 page not found\n".to_owned()),
    };
    let length = body.len();
    format!("HTTP/1.1 {code}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}
