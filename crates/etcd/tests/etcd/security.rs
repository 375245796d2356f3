//! TLS, client certificates, users.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use setpoint_etcd::{Credentials, EtcdConfig, TlsFiles};
use setpoint_store::conformance::ManualClock;
use setpoint_store::{Error, PlainCodec, Store};

use crate::admin::Admin;
use crate::rig::{Etcd, contents, etcd_config, put, wait};

/// The files of an authority, of a server and of a client.
struct Files {
    dir: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "etcd CA");
        files.write("ca.crt", &params.self_signed(&key).unwrap().pem());
        let issuer = Issuer::new(params, key);
        files.issue("server", &issuer, ExtendedKeyUsagePurpose::ServerAuth);
        files.issue("client", &issuer, ExtendedKeyUsagePurpose::ClientAuth);
        files
    }

    fn issue(&self, name: &str, issuer: &Issuer<'_, KeyPair>, usage: ExtendedKeyUsagePurpose) {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        // etcd's own gateway is a client of its server.
        params.extended_key_usages = vec![usage, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, issuer).unwrap();
        self.write(&format!("{name}.crt"), &certificate.pem());
        self.write(&format!("{name}.key"), &key.serialize_pem());
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

fn flag(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

/// Opens a store within two seconds, or fails.
fn open(mut etcd: EtcdConfig) -> Result<Store, Error> {
    etcd.start_timeout = Duration::from_secs(2);
    etcd.compaction_interval = Duration::ZERO;
    let mut config = ManualClock::default().config();
    config.codec = Arc::new(PlainCodec {
        prefix: "/test/".into(),
    });
    wait(setpoint_etcd::open(etcd, config))
}

#[test]
fn tls_and_client_certificates_work_and_are_required() {
    let files = Files::new();
    let flags = [
        flag("cert-file", &files.path("server.crt")),
        flag("key-file", &files.path("server.key")),
        flag("trusted-ca-file", &files.path("ca.crt")),
        "--client-cert-auth".to_owned(),
    ];
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let Some(etcd) = Etcd::start_tls(&flags) else {
        return;
    };
    let tls = TlsFiles {
        authority: Some(files.path("ca.crt")),
        certificate: Some(files.path("client.crt")),
        key: Some(files.path("client.key")),
    };
    let store = open(EtcdConfig::new(&[etcd.url()], &tls).unwrap()).unwrap();
    put(&store, "a", "1");
    assert_eq!(contents(&store), "a=1");
    let anonymous = TlsFiles {
        authority: tls.authority.clone(),
        ..TlsFiles::default()
    };
    assert!(open(EtcdConfig::new(&[etcd.url()], &anonymous).unwrap()).is_err());
    let others = Files::new();
    let untrusting = TlsFiles {
        authority: Some(others.path("ca.crt")),
        ..tls
    };
    let error = open(EtcdConfig::new(&[etcd.url()], &untrusting).unwrap()).unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[test]
fn a_user_is_authenticated_by_password() {
    // The lowest cost of a password's hash: the default one takes a busy machine seconds.
    let Some(etcd) = Etcd::start(&["--bcrypt-cost=4"]) else {
        return;
    };
    Admin::new(&etcd).enable_authentication("root", "secret");
    let with = |password: &str| EtcdConfig {
        credentials: Some(Credentials {
            user: "root".to_owned(),
            password: password.to_owned(),
        }),
        ..etcd_config(&[etcd.url()])
    };
    let store = open(with("secret")).unwrap();
    put(&store, "a", "1");
    assert_eq!(contents(&store), "a=1");
    let error = open(with("wrong")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "etcdserver: authentication failed, invalid user ID or password"
    );
    assert!(open(etcd_config(&[etcd.url()])).is_err());
}
