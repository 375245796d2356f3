//! A small HTTPS server for the tests: a webhook, or an OpenID provider.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Handles a request: its path and body to the status code and the body of the response.
pub(crate) type Handler = dyn Fn(&str, &str) -> (u16, String) + Send + Sync;

/// A server on a free port of 127.0.0.1. Its thread ends with the process.
pub(crate) struct HttpsServer {
    pub(crate) url: String,
    /// The CA of its certificate, PEM.
    pub(crate) authority: String,
}

impl HttpsServer {
    /// Starts a server. The handler is made of its URL, which an OpenID provider publishes.
    pub(crate) fn start(handler: impl FnOnce(&str) -> Box<Handler>) -> Self {
        let (config, authority) = tls();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let handler: Arc<Handler> = handler(&url).into();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, handler) = (config.clone(), handler.clone());
                std::thread::spawn(move || serve(stream, config, &*handler));
            }
        });
        Self { url, authority }
    }

    /// A kubeconfig of this server as a webhook, at this path.
    pub(crate) fn kubeconfig(&self, dir: &std::path::Path, path: &str) -> std::path::PathBuf {
        let authority = dir.join("webhook-ca.crt");
        std::fs::write(&authority, &self.authority).unwrap();
        let file = dir.join("webhook.kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: '{}{path}', certificate-authority: '{}'}}}}]\n\
             users: [{{name: u, user: {{}}}}]\n",
            self.url,
            authority.display()
        );
        std::fs::write(&file, text).unwrap();
        file
    }
}

fn tls() -> (Arc<ServerConfig>, String) {
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = ca.self_signed(&ca_key).unwrap().pem();
    let issuer = Issuer::new(ca, ca_key);
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap().der().clone();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    (Arc::new(config), authority)
}

/// Serves one request of a connection.
fn serve(stream: TcpStream, config: Arc<ServerConfig>, handler: &Handler) {
    let connection = ServerConnection::new(config).unwrap();
    let mut stream = BufReader::new(StreamOwned::new(connection, stream));
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        match stream.read_line(&mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) if line.trim().is_empty() => break,
            Ok(_) => head.push(line.trim().to_owned()),
        }
    }
    let length = head.iter().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.eq_ignore_ascii_case("content-length")).then(|| value.trim().parse().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    if stream.read_exact(&mut body).is_err() {
        return;
    }
    let path = head[0].split(' ').nth(1).unwrap();
    let (code, response) = handler(path, &String::from_utf8(body).unwrap());
    let head = format!(
        "HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        response.len()
    );
    let stream = stream.get_mut();
    let _ = stream.write_all(format!("{head}{response}").as_bytes());
    stream.conn.send_close_notify();
    let _ = stream.flush();
}
