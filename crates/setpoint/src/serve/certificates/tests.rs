//! A server whose clock is advanced by months, and files that are replaced while it runs.

use std::fs;
use std::net::SocketAddr;

use clap::Parser;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use setpoint_auth::keys::SigningKey;
use setpoint_auth::token::Claims;
use setpoint_auth::token::issuer::DEFAULT_URL;
use setpoint_client::Kubeconfig;
use setpoint_client::kubeconfig::Identity;
use setpoint_pki::{rotate_authorities, service_account};
use setpoint_testkit::{Cluster, HttpsServer, SteppedClock};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::*;
use crate::args::{Args, Command};
use crate::serve::data_dir::DataDir;

const DAY: SignedDuration = SignedDuration::from_hours(24);

/// A server with certificates in a directory of its own.
struct Fixture {
    dir: tempfile::TempDir,
    clock: SteppedClock,
    certificates: Certificates,
    users: CertificateUsers,
    server: HttpsServer,
    _cluster: Cluster,
}

#[derive(Debug)]
struct FixedTime(Timestamp);

impl TimeProvider for FixedTime {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

async fn fixture(flags: impl Fn(&Path) -> Vec<String>) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let clock = SteppedClock::default();
    let shared: Arc<dyn Clock> = Arc::new(clock.clone());
    let data = dir.path().display().to_string();
    let line = ["setpoint", "up", "--data-dir", &data].map(str::to_owned);
    let Command::Up(args) = Args::parse_from(line.into_iter().chain(flags(dir.path()))).command else {
        panic!("the command is up");
    };
    let data_dir = DataDir::open(&args).unwrap();
    let certificates = Certificates::open(&args, &data_dir.pki(), &shared).unwrap();
    let cluster = Cluster::start().await;
    let server = cluster.serve_https_with(certificates.tls()).await;
    let kubeconfig = certificates.write_kubeconfig(&args, &data_dir, server.address());
    let (key, retired) = ServiceAccountKeys::new(&data_dir.pki(), &args.service_account_flags)
        .read(clock.now())
        .unwrap();
    let users = CertificateUsers {
        aggregator: Aggregator::none(shared),
        issuer: Arc::new(Issuer::new(DEFAULT_URL, key, retired)),
        kubeconfig: kubeconfig.unwrap(),
    };
    Fixture {
        dir,
        clock,
        certificates,
        users,
        server,
        _cluster: cluster,
    }
}

impl Fixture {
    fn advance(&mut self, duration: SignedDuration) {
        self.clock.set(self.clock.now() + duration);
        self.certificates.refresh(&mut self.users);
    }

    /// Connects as a client of the kubeconfig on disk would at the time of the clock. Returns the serving certificate.
    async fn connect(&self) -> std::io::Result<CertificateDer<'static>> {
        let connection = Kubeconfig::read(&self.users.kubeconfig.path).unwrap();
        let connection = connection.connection(None).unwrap();
        let Identity::Certificate { chain, key } = &connection.identity else {
            panic!("the kubeconfig has a client certificate");
        };
        let name = connection.server_name.as_deref().unwrap_or("127.0.0.1");
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(&connection.authority.unwrap()) {
            roots.add(root.unwrap()).unwrap();
        }
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .map(Result::unwrap)
            .collect();
        let info = CertificateInfo::from_der(&chain[0]).unwrap();
        assert!(
            self.clock.now() < info.not_after,
            "the client certificate has expired"
        );
        let key = PrivateKeyDer::from_pem_slice(key).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_details(provider, Arc::new(FixedTime(self.clock.now())))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .unwrap();
        handshake(self.server.address(), name, config).await
    }

    /// The serving certificate for a server name, whatever its CA.
    async fn served(&self, name: &str) -> CertificateDer<'static> {
        let connection = setpoint_client::kubeconfig::Connection {
            server: format!("https://{}", self.server.address()),
            insecure_skip_tls_verify: true,
            ..Default::default()
        };
        let config = setpoint_client::http::tls::client_config(&connection).unwrap();
        handshake(self.server.address(), name, config).await.unwrap()
    }
}

async fn handshake(
    address: SocketAddr,
    name: &str,
    config: ClientConfig,
) -> std::io::Result<CertificateDer<'static>> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    Ok(stream.get_ref().1.peer_certificates().unwrap()[0]
        .clone()
        .into_owned())
}

#[tokio::test]
async fn a_server_that_runs_for_years_serves_valid_certificates_to_its_kubeconfig() {
    let mut fixture = fixture(|_| Vec::new()).await;
    let first = fixture.connect().await.unwrap();
    let mut serving = first.clone();
    let mut renewals = 0;
    for _ in 0..12 * 12 {
        fixture.advance(DAY * 30);
        let served = fixture.connect().await.unwrap();
        renewals += i32::from(served != serving);
        serving = served;
    }
    assert!(renewals > 12, "{renewals} renewals in 12 years");
    assert_ne!(serving, first);
}

/// The certificate and key of a new self-signed certificate.
fn self_signed(name: &str) -> (String, String) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed([name.to_owned()]).unwrap();
    (cert.pem(), signing_key.serialize_pem())
}

#[tokio::test]
async fn replaced_certificate_files_are_served_once_both_are_written() {
    let files = |dir: &Path| [dir.join("tls.crt"), dir.join("tls.key")];
    let write = |dir: &Path, (certificate, key): &(String, String)| {
        let [certificate_file, key_file] = files(dir);
        fs::write(certificate_file, certificate).unwrap();
        fs::write(key_file, key).unwrap();
    };
    let (old, new) = (self_signed("api.example.com"), self_signed("api.example.com"));
    let der = |pair: &(String, String)| CertificateDer::from_pem_slice(pair.0.as_bytes()).unwrap();
    let mut fixture = fixture(|dir| {
        write(dir, &old);
        let [certificate, key] = files(dir).map(|path| path.display().to_string());
        vec![
            "--tls-cert-file".to_owned(),
            certificate,
            "--tls-private-key-file".to_owned(),
            key,
        ]
    })
    .await;
    assert_eq!(fixture.served("api.example.com").await, der(&old));
    assert_eq!(fixture.served("elsewhere.example.com").await, der(&old));
    let own = fixture.served("kubernetes.default.svc").await;
    assert_eq!(own, fixture.certificates.pki.server.certificate_der().unwrap());
    assert_eq!(
        fixture.connect().await.unwrap(),
        own,
        "the kubeconfig names the cluster's certificate"
    );

    write(fixture.dir.path(), &(new.0.clone(), old.1.clone()));
    fixture.advance(DAY);
    assert_eq!(fixture.served("api.example.com").await, der(&old));
    write(fixture.dir.path(), &new);
    fixture.advance(DAY);
    assert_eq!(fixture.served("api.example.com").await, der(&new));
}

#[tokio::test]
async fn a_rotated_service_account_key_signs_and_the_old_one_verifies_for_a_year() {
    let mut fixture = fixture(|_| Vec::new()).await;
    let issuer = fixture.users.issuer.clone();
    let claims = Claims {
        issuer: DEFAULT_URL.to_owned(),
        ..Claims::default()
    };
    let token = issuer.sign(&claims).unwrap();
    let old = issuer.keys()[0].id.clone();
    service_account::rotate(
        &fixture.dir.path().join("pki"),
        service_account::RETENTION,
        fixture.clock.now(),
    )
    .unwrap();
    fixture.advance(DAY);
    let ids: Vec<String> = issuer.keys().into_iter().map(|key| key.id).collect();
    assert_eq!((ids.len(), &ids[1]), (2, &old));
    fixture.advance(DAY * 364);
    assert!(issuer.verify(&token).unwrap().is_some());
    fixture.advance(DAY);
    assert!(issuer.verify(&token).is_err());
    let key = fs::read_to_string(fixture.dir.path().join("pki/service-account.key")).unwrap();
    assert_eq!(issuer.keys().len(), 1);
    assert_eq!(
        issuer.keys()[0].id,
        SigningKey::from_pem(&key).unwrap().public().id
    );
}

#[tokio::test]
async fn a_running_server_notices_what_a_command_has_rotated() {
    let fixture = fixture(|_| Vec::new()).await;
    let mut changes = fixture.certificates.controllers.subscribe();
    let before = changes.borrow_and_update().clone();
    let (clock, stop) = (fixture.clock.clone(), CancellationToken::new());
    let mut running = JoinSet::new();
    running.spawn(fixture.certificates.run(fixture.users, stop.clone()));
    rotate_authorities(&fixture.dir.path().join("pki"), clock.now()).unwrap();
    while !clock.step(None) {
        tokio::task::yield_now().await;
    }
    changes.changed().await.unwrap();
    let after = changes.borrow().clone();
    assert!(after.root_ca.starts_with(&before.root_ca) && after.root_ca != before.root_ca);
    stop.cancel();
    running.join_next().await.unwrap().unwrap().unwrap();
}
