//! The address and credentials of a server, from the kubeconfig that it wrote.

use std::{net::SocketAddr, path::Path, sync::Arc};

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::{CryptoProvider, ring},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use serde::Deserialize;

/// A server that can be connected to.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) name: ServerName<'static>,
    pub(crate) tls: Arc<ClientConfig>,
}

#[derive(Debug, Deserialize)]
struct Kubeconfig {
    clusters: Vec<NamedCluster>,
    #[serde(default)]
    users: Vec<NamedUser>,
}

#[derive(Debug, Deserialize)]
struct NamedCluster {
    cluster: Cluster,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority_data: String,
}

#[derive(Debug, Deserialize)]
struct NamedUser {
    user: User,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct User {
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

impl Endpoint {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("understanding {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let config: Kubeconfig = serde_saphyr::from_str(text).context("invalid kubeconfig")?;
        let cluster = &config.clusters.first().context("it names no cluster")?.cluster;
        let address = address(&cluster.server)?;
        let user = config.users.first().map(|named| &named.user);
        let tls = Arc::new(tls(&cluster.certificate_authority_data, user)?);
        Ok(Self {
            address,
            name: ServerName::from(address.ip()),
            tls,
        })
    }
}

/// Only loopback: a benchmark must not load another machine's server by accident.
fn address(server: &str) -> Result<SocketAddr> {
    let authority = server
        .strip_prefix("https://")
        .with_context(|| format!("server {server:?} is not https"))?;
    let authority = authority
        .trim_end_matches('/')
        .replace("localhost:", "127.0.0.1:");
    let address: SocketAddr = authority
        .parse()
        .with_context(|| format!("server {server:?} has no address and port"))?;
    ensure!(
        address.ip().is_loopback(),
        "server {server:?} is not on this machine"
    );
    Ok(address)
}

/// TLS 1.3 with AES-128-GCM, so that every server under test encrypts in the same way.
fn tls(authority: &str, user: Option<&User>) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&decode(authority)?) {
        roots.add(certificate.context("certificate-authority-data holds no certificate")?)?;
    }
    let provider = CryptoProvider {
        cipher_suites: vec![ring::cipher_suite::TLS13_AES_128_GCM_SHA256],
        ..ring::default_provider()
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots);
    match user {
        Some(User {
            client_certificate_data: Some(certificate),
            client_key_data: Some(key),
        }) => {
            let chain =
                CertificateDer::pem_slice_iter(&decode(certificate)?).collect::<Result<Vec<_>, _>>()?;
            Ok(builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(&decode(key)?)?)?)
        }
        _ => Ok(builder.with_no_client_auth()),
    }
}

fn decode(data: &str) -> Result<Vec<u8>> {
    STANDARD
        .decode(data.trim())
        .context("data in the kubeconfig is not base64")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_address(server: &str, expected: Option<&str>) {
        assert_eq!(address(server).ok(), expected.map(|text| text.parse().unwrap()));
    }

    #[test]
    fn loopback_addresses_are_taken() {
        check_address("https://127.0.0.1:6443", Some("127.0.0.1:6443"));
        check_address("https://[::1]:6443/", Some("[::1]:6443"));
        check_address("https://localhost:6443", Some("127.0.0.1:6443"));
    }

    #[test]
    fn other_machines_and_plain_http_are_rejected() {
        check_address("https://10.0.0.1:6443", None);
        check_address("http://127.0.0.1:6443", None);
    }

    #[test]
    fn a_kubeconfig_with_a_client_certificate_is_read() {
        let identity = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let certificate = STANDARD.encode(identity.cert.pem());
        let key = STANDARD.encode(identity.signing_key.serialize_pem());
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: x\n  cluster:\n    server: https://127.0.0.1:9\n    \
             certificate-authority-data: {certificate}\nusers:\n- name: y\n  user:\n    \
             client-certificate-data: {certificate}\n    client-key-data: {key}\n"
        );
        let endpoint = Endpoint::parse(&text).unwrap();
        assert_eq!(endpoint.address, "127.0.0.1:9".parse().unwrap());
        assert!(endpoint.tls.client_auth_cert_resolver.has_certs());
    }
}
