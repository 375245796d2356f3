//! A server behind the API server, as extensions of Kubernetes are: HTTPS on a port of its own, with a certificate of its
//! own authority, for callers whom the API server names and who come with the API server's certificate.

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

/// A running extension. It ends when it is dropped.
#[derive(Debug)]
pub struct Extension {
    address: SocketAddr,
    authority: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    _running: JoinSet<()>,
}

/// A request that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The path with its query.
    pub path: String,
    /// Whom the API server names as the caller.
    pub user: String,
    /// The caller's groups.
    pub groups: Vec<String>,
}

/// Answers a path with a document; with nothing where there is none.
pub type Answers = Arc<dyn Fn(&Asked) -> Option<Value> + Send + Sync>;

impl Extension {
    /// Starts an extension under the name of its service, `NAME.NAMESPACE.svc`. Only who shows a certificate of
    /// `callers`, an authority in PEM, is let in.
    pub async fn start(host: &str, callers: &str, answers: Answers) -> Self {
        let (authority, config) = identity(host, callers);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("there is a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let mut running = JoinSet::new();
        let seen = asked.clone();
        running.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(acceptor.clone(), stream, answers.clone(), seen.clone()));
            }
        });
        Self {
            address,
            authority,
            asked,
            _running: running,
        }
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Who vouches for it, in PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Everything it was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }
}

/// An authority made for one extension, and what the extension shows.
fn identity(host: &str, callers: &str) -> (String, ServerConfig) {
    let promise = "a certificate can be made";
    let own = KeyPair::generate().expect(promise);
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&own).expect(promise).pem();
    let issuer = Issuer::new(params, own);
    let key = KeyPair::generate().expect(promise);
    let params = CertificateParams::new([host.to_owned()]).expect(promise);
    let certificate = params.signed_by(&key, &issuer).expect(promise).der().clone();
    let mut roots = RootCertStore::empty();
    for callers in CertificateDer::pem_slice_iter(callers.as_bytes()) {
        roots
            .add(callers.expect("it is PEM"))
            .expect("it is a certificate");
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

/// Answers the requests of one connection, one after the other.
async fn serve(acceptor: TlsAcceptor, stream: TcpStream, answers: Answers, seen: Arc<Mutex<Vec<Asked>>>) {
    let Ok(mut stream) = acceptor.accept(stream).await else {
        return;
    };
    let mut read = Vec::new();
    loop {
        while let Some((asked, length)) = parse(&read) {
            read.drain(..length);
            let answer = answers(&asked);
            seen.lock().push(asked);
            if stream.write_all(&written(answer)).await.is_err() {
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

/// The first request in what was read, and how long it is. Requests have no bodies here.
fn parse(read: &[u8]) -> Option<(Asked, usize)> {
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
    Some((Asked { path, user, groups }, length))
}

fn written(answer: Option<Value>) -> Vec<u8> {
    let (code, body) = match answer {
        Some(document) => ("200 OK", document.to_string()),
        None => ("404 Not Found", "404 page not found\n".to_owned()),
    };
    let length = body.len();
    format!("HTTP/1.1 {code}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}
