//! [`HttpsServer`]: an in-process cluster on a real port, for clients that connect over HTTPS.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use setpoint_api::{Clock, Serve, SystemClock, User};
use setpoint_apiserver::tls::{DynamicTls, Identity};
use setpoint_apiserver::{Aggregator, Config, FlowControlConfig, Listener, Network, Server, View};
use setpoint_auth::authenticate::{AuthenticationResult, Credentials};
use setpoint_auth::{Authenticate, MaybeFuture};
use setpoint_client::kubeconfig::Connection;
use setpoint_client::{Client, Http};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;

/// The HTTPS server of a cluster. Dropping it closes the port and breaks every connection.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # use k8s_openapi::api::core::v1::Namespace;
/// let cluster = setpoint_testkit::Cluster::start().await;
/// let served = cluster.serve_https().await;
/// let client = setpoint_client::Client::connect(&served.connection()).unwrap();
/// client.all::<Namespace>().get("default").await.unwrap();
/// served.stop().await;
/// # }
/// ```
#[derive(Debug)]
pub struct HttpsServer {
    address: SocketAddr,
    stop: CancellationToken,
    running: JoinSet<Result<(), setpoint_apiserver::serve::Error>>,
}

/// Authenticates every request as an administrator: authorization is not under test here.
#[derive(Debug)]
struct AdminAuthenticator(Arc<User>);

/// The serving certificate of every server in this process, and its CA.
struct ServingCertificate {
    authority: CertificateDer<'static>,
    pem: String,
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Cluster {
    /// Serves the cluster over HTTPS on a free port. Connections use the system clock, everything behind them the
    /// cluster's clock.
    pub async fn serve_https(&self) -> HttpsServer {
        let tls = DynamicTls::new(serving_certificate().identity()).expect("the certificate is valid");
        self.serve_https_with(tls).await
    }

    /// Serves the cluster with other certificates. [`HttpsServer::connection`] does not trust them.
    pub async fn serve_https_with(&self, tls: Arc<DynamicTls>) -> HttpsServer {
        let registry = self.registry().clone();
        let kinds = registry.clone();
        let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await;
        let listener = listener.expect("there is a free port");
        let config = Config {
            serve: registry.clone(),
            kinds: Box::new(move || kinds.kinds()),
            authenticate: Box::new(AdminAuthenticator(Arc::new(User::new("test", &[User::MASTERS])))),
            authorize: Box::new(setpoint_auth::authorize::without_rbac()),
            issuer: None,
            clock: Arc::new(SystemClock::new()),
            client_authorities: tls.client_authorities(),
            request_headers: None,
            audit: None,
            connect: Box::new(Network::default()),
            aggregator: Aggregator::none(Arc::new(SystemClock::new())),
            admit_connect: Some(registry),
            flow_control: FlowControlConfig::default(),
            checks: Vec::new(),
            metrics_sources: Vec::new(),
            custom_routes: Vec::new(),
            max_memory: 0,
            address: listener.local_addr(),
            origin: None,
        };
        let (clock, view) = (config.clock.clone(), View::new(config));
        let server = Server::new(Arc::new(view.clone()), listener, tls, clock);
        let (address, stop) = (server.local_addr(), CancellationToken::new());
        let mut running = JoinSet::new();
        running.spawn(server.run(stop.clone()));
        let view = view.run(stop.clone());
        running.spawn(async {
            view.await;
            Ok(())
        });
        HttpsServer {
            address,
            stop,
            running,
        }
    }
}

impl HttpsServer {
    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The connection for a client.
    pub fn connection(&self) -> Connection {
        Connection {
            server: format!("https://{}", self.address),
            server_name: Some("localhost".to_owned()),
            authority: Some(serving_certificate().pem.clone().into_bytes()),
            ..Connection::default()
        }
    }

    /// A client with connections of its own, whose retries use this clock.
    pub fn client(&self, clock: Arc<dyn Clock>) -> Client {
        client(&self.connection(), clock)
    }

    /// Stops gracefully: open requests finish, then the port is closed.
    pub async fn stop(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.running.join_next().await {
            ended
                .expect("a server does not panic")
                .expect("a server that is stopped ends without an error");
        }
    }

    /// Closes the port and breaks every connection, even within a response.
    pub async fn kill(mut self) {
        self.running.shutdown().await;
    }
}

/// A client of the server at a connection.
pub fn client(connection: &Connection, clock: Arc<dyn Clock>) -> Client {
    let http = Http::with_clock(connection, clock).expect("the connection is valid");
    let serve: Arc<dyn Serve> = Arc::new(http);
    Client::new(serve, Arc::new(User::default()))
}

/// The CA of the servers.
pub(crate) fn authority() -> &'static CertificateDer<'static> {
    &serving_certificate().authority
}

fn serving_certificate() -> &'static ServingCertificate {
    static CERTIFICATE: OnceLock<ServingCertificate> = OnceLock::new();
    CERTIFICATE.get_or_init(|| {
        let expectation = "a certificate can be generated";
        let own = KeyPair::generate().expect(expectation);
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&own).expect(expectation);
        let issuer = Issuer::new(params, own);
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let (params, key) = (
            CertificateParams::new(names),
            KeyPair::generate().expect(expectation),
        );
        let certificate = params
            .expect(expectation)
            .signed_by(&key, &issuer)
            .expect(expectation);
        ServingCertificate {
            authority: authority.der().clone(),
            pem: authority.pem(),
            certificate: certificate.der().clone(),
            key: key.serialize_der(),
        }
    })
}

// === impl ServingCertificate ===

impl ServingCertificate {
    fn identity(&self) -> Identity {
        Identity {
            chain: vec![self.certificate.clone()],
            key: PrivateKeyDer::try_from(self.key.clone()).expect("it is a key"),
            named: Vec::new(),
            client_ca: vec![self.authority.clone()],
            proxy_ca: Vec::new(),
        }
    }
}

// === impl AdminAuthenticator ===

impl Authenticate for AdminAuthenticator {
    fn authenticate<'a>(&'a self, _: &'a Credentials<'a>) -> MaybeFuture<'a, AuthenticationResult> {
        Ok(Some(self.0.clone())).into()
    }
}
