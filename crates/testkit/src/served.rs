//! A cluster of the test's own process on a real port: for clients that know nothing but an address.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use setpoint_api::{Clock, Serve, SystemClock, User};
use setpoint_apiserver::tls::Identity;
use setpoint_apiserver::{Aggregator, Config, Network, Server};
use setpoint_auth::Authenticate;
use setpoint_auth::authenticate::{Credentials, Unauthenticated};
use setpoint_client::kubeconfig::Connection;
use setpoint_client::{Client, Http};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;

/// A port of a cluster. Dropping it closes the port and breaks every connection.
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
pub struct Served {
    address: SocketAddr,
    stop: CancellationToken,
    running: JoinSet<Result<(), setpoint_apiserver::serve::Error>>,
}

/// Takes everyone for an administrator: who may do what is not what is tried here.
#[derive(Debug)]
struct Everyone(Arc<User>);

/// What every server of this process shows, and who vouches for it.
struct Shown {
    authority: CertificateDer<'static>,
    pem: String,
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Cluster {
    /// Serves the cluster over HTTPS on a port of its own. Connections live by the machine's time, everything behind
    /// them by the cluster's.
    pub async fn serve_https(&self) -> Served {
        let registry = self.registry().clone();
        let kinds = registry.clone();
        let config = Config {
            serve: registry,
            kinds: Box::new(move || kinds.kinds()),
            authenticate: Box::new(Everyone(Arc::new(User::new("test", &[User::MASTERS])))),
            authorize: Box::new(setpoint_auth::authorize::standard()),
            issuer: None,
            clock: Arc::new(SystemClock::new()),
            tls: shown().identity(),
            audit: None,
            connect: Box::new(Network::default()),
            aggregate: Aggregator::none(Arc::new(SystemClock::new())),
            checks: Vec::new(),
            sources: Vec::new(),
            extras: Vec::new(),
        };
        let server = Server::bind(config, SocketAddr::from(([127, 0, 0, 1], 0))).await;
        let server = server.expect("there is a free port");
        let (address, stop) = (server.local_addr(), CancellationToken::new());
        let mut running = JoinSet::new();
        running.spawn(server.run(stop.clone()));
        Served {
            address,
            stop,
            running,
        }
    }
}

impl Served {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How to reach it.
    pub fn connection(&self) -> Connection {
        Connection {
            server: format!("https://{}", self.address),
            server_name: Some("localhost".to_owned()),
            authority: Some(shown().pem.clone().into_bytes()),
            ..Connection::default()
        }
    }

    /// A client with a connection of its own, whose retries wait by this clock.
    pub fn client(&self, clock: Arc<dyn Clock>) -> Client {
        client(&self.connection(), clock)
    }

    /// Lets requests finish and closes the port.
    pub async fn stop(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.running.join_next().await {
            ended
                .expect("a server does not panic")
                .expect("a server that is asked to stop ends well");
        }
    }

    /// Closes the port and breaks every connection, wherever it is in an answer.
    pub async fn kill(mut self) {
        self.running.shutdown().await;
    }
}

/// A client of whatever is at the other end of a connection.
pub fn client(connection: &Connection, clock: Arc<dyn Clock>) -> Client {
    let http = Http::with_clock(connection, clock).expect("the connection can be tried");
    let serve: Arc<dyn Serve> = Arc::new(http);
    Client::new(serve, Arc::new(User::default()))
}

/// Whom to trust.
pub(crate) fn authority() -> &'static CertificateDer<'static> {
    &shown().authority
}

fn shown() -> &'static Shown {
    static SHOWN: OnceLock<Shown> = OnceLock::new();
    SHOWN.get_or_init(|| {
        let promise = "a certificate can be made";
        let own = KeyPair::generate().expect(promise);
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&own).expect(promise);
        let issuer = Issuer::new(params, own);
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let (params, key) = (CertificateParams::new(names), KeyPair::generate().expect(promise));
        let certificate = params.expect(promise).signed_by(&key, &issuer).expect(promise);
        Shown {
            authority: authority.der().clone(),
            pem: authority.pem(),
            certificate: certificate.der().clone(),
            key: key.serialize_der(),
        }
    })
}

// === impl Shown ===

impl Shown {
    fn identity(&self) -> Identity {
        Identity {
            chain: vec![self.certificate.clone()],
            key: PrivateKeyDer::try_from(self.key.clone()).expect("it is a key"),
            authority: self.authority.clone(),
        }
    }
}

// === impl Everyone ===

impl Authenticate for Everyone {
    fn authenticate(&self, _: &Credentials<'_>) -> Result<Option<Arc<User>>, Unauthenticated> {
        Ok(Some(self.0.clone()))
    }
}
