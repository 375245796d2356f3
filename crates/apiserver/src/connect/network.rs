//! Backends reached over the network.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{BackendAddress, Connect, ConnectFuture, Connection};
use crate::aggregate::{ProxyClientIdentity, TlsTrust, client_tls};

/// Connects by TCP, with TLS if the backend is secure.
#[derive(Clone)]
pub struct Network {
    kubelet: Arc<ClientConfig>,
    /// For pods and services: their certificates are not verified, and they get no client certificate.
    proxied: Arc<ClientConfig>,
}

/// TLS for connections to kubelets. By default, as in Kubernetes, no client certificate is presented and the kubelet's
/// serving certificate is not verified.
#[derive(Debug, Default)]
pub struct KubeletTls {
    /// The CA bundle that verifies kubelets' serving certificates, PEM.
    pub authority: Option<Vec<u8>>,
    /// The client certificate that kubelets authenticate.
    pub identity: Option<ProxyClientIdentity>,
}

// === impl Network ===

impl Network {
    /// A network with this TLS configuration for kubelets, or why it cannot be used.
    pub fn new(kubelet: KubeletTls) -> Result<Self, String> {
        let trust = match kubelet.authority {
            Some(pem) => TlsTrust::CaBundle(pem),
            None => TlsTrust::InsecureSkipTlsVerify,
        };
        Ok(Self {
            kubelet: Arc::new(client_tls::config(&trust, kubelet.identity.as_ref())?),
            proxied: Arc::new(client_tls::config(&TlsTrust::InsecureSkipTlsVerify, None)?),
        })
    }

    fn tls(&self, backend: &BackendAddress) -> TlsConnector {
        let config = match backend.node {
            Some(_) => &self.kubelet,
            None => &self.proxied,
        };
        TlsConnector::from(config.clone())
    }
}

impl Default for Network {
    fn default() -> Self {
        Self::new(KubeletTls::default()).expect("a configuration without certificates is valid")
    }
}

impl Connect for Network {
    fn connect(&self, backend: BackendAddress) -> ConnectFuture {
        let tls = backend.secure.then(|| self.tls(&backend));
        Box::pin(async move {
            let stream = dial(&backend)
                .await
                .map_err(|error| dial_error(&backend, &error))?;
            let Some(tls) = tls else {
                return Ok(Box::new(stream) as Box<dyn Connection>);
            };
            let name = ServerName::try_from(backend.host.clone()).map_err(io::Error::other)?;
            let stream = tls.connect(name, stream).await;
            let stream = stream.map_err(|error| client_tls::certificate_error(&error))?;
            Ok(Box::new(stream) as Box<dyn Connection>)
        })
    }
}

async fn dial(backend: &BackendAddress) -> io::Result<TcpStream> {
    if backend.resolved.is_empty() {
        return TcpStream::connect((backend.host.as_str(), backend.port)).await;
    }
    let socket_address = |ip: &IpAddr| SocketAddr::new(*ip, backend.port);
    let addresses: Vec<SocketAddr> = backend.resolved.iter().map(socket_address).collect();
    TcpStream::connect(addresses.as_slice()).await
}

/// The error of a failed connect, with Go's text.
pub(crate) fn dial_error(backend: &BackendAddress, error: &io::Error) -> io::Error {
    let reason = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        io::ErrorKind::TimedOut => "i/o timeout".to_owned(),
        _ => error.to_string(),
    };
    io::Error::new(error.kind(), format!("dial tcp {backend}: {reason}"))
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use rustls::ServerConfig;
    use rustls::server::WebPkiClientVerifier;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::serve::tests::TestCa;

    /// A kubelet of this CA on a free port, which sends back one byte: whether the client presented a certificate.
    async fn kubelet(authority: &TestCa) -> (u16, impl Future<Output = io::Result<()>>) {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(authority.certificate.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let (certificate, key) = authority.sign_for("127.0.0.1", "system:node:n", "system:nodes");
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.allow_unauthenticated().build().unwrap())
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serve = async move {
            let (stream, _) = listener.accept().await?;
            let mut stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await?;
            let presented = stream.get_ref().1.peer_certificates().is_some();
            stream.write_all(&[u8::from(presented)]).await?;
            stream.shutdown().await
        };
        (port, serve)
    }

    /// What the backend at the other end saw: whether a client certificate was presented.
    async fn connect(network: Network, authority: &TestCa, node: Option<&str>) -> io::Result<bool> {
        let (port, serve) = kubelet(authority).await;
        let backend = BackendAddress {
            secure: true,
            host: "127.0.0.1".to_owned(),
            port,
            resolved: Vec::new(),
            node: node.map(str::to_owned),
        };
        let client = async {
            let mut stream = network.connect(backend).await?;
            stream.read_u8().await
        };
        let (presented, _) = tokio::join!(client, serve);
        Ok(presented? == 1)
    }

    #[tokio::test]
    async fn without_a_configured_ca_any_kubelet_is_trusted_and_gets_no_client_certificate() {
        let presented = connect(Network::default(), &TestCa::new(), Some("n")).await;
        assert!(!presented.unwrap());
    }

    #[tokio::test]
    async fn a_kubelet_gets_the_configured_client_certificate_and_a_pod_does_not() {
        let authority = TestCa::new();
        let network = || {
            let (certificate, key) = authority.sign("kube-apiserver-kubelet-client", "system:masters");
            let identity = ProxyClientIdentity {
                chain: vec![certificate],
                key,
            };
            let authority = Some(authority.pem());
            let identity = Some(identity);
            Network::new(KubeletTls { authority, identity }).unwrap()
        };
        assert!(connect(network(), &authority, Some("n")).await.unwrap());
        assert!(!connect(network(), &authority, None).await.unwrap());
    }

    #[tokio::test]
    async fn a_kubelet_of_another_ca_is_rejected_and_a_pod_is_not() {
        let network = || {
            let authority = Some(TestCa::new().pem());
            let tls = KubeletTls {
                authority,
                ..KubeletTls::default()
            };
            Network::new(tls).unwrap()
        };
        let rejected = connect(network(), &TestCa::new(), Some("n")).await.unwrap_err();
        assert_eq!(
            rejected.to_string(),
            "tls: failed to verify certificate: x509: certificate signed by unknown authority"
        );
        assert!(connect(network(), &TestCa::new(), None).await.is_ok());
    }

    #[tokio::test]
    async fn a_resolved_backend_is_reached_at_the_resolved_address() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let backend = |resolved: Vec<IpAddr>| BackendAddress {
            secure: false,
            host: "name.invalid".to_owned(),
            port: listener.local_addr().unwrap().port(),
            resolved,
            node: None,
        };
        let network = Network::default();
        let local: IpAddr = "127.0.0.1".parse().unwrap();
        assert!(network.connect(backend(vec![local])).await.is_ok());
        assert!(network.connect(backend(Vec::new())).await.is_err());
    }
}
