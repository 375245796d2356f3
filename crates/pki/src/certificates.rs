//! Certificates in the data directory: the cluster's CA with the server's certificate, the administrator's and the one for
//! kubelets, and the front-proxy CA with the client certificate for aggregated API servers. A client with a certificate of
//! the front-proxy CA may impersonate any user, so that CA signs nothing else.
//!
//! Certificates are reused until two thirds of their validity have passed, so that a kubeconfig outlives restarts.

use std::fs::{self, File};
use std::net::IpAddr;
use std::path::Path;

use jiff::Timestamp;
use setpoint_x509::{Certificate, GeneralName, oid};

use crate::authority::AuthorityFiles;
use crate::issue::{self, Subject};
use crate::{Authority, CertKeyPair, Error, lifetime};

/// The server name of clients that trust the cluster's CA and connect to an address: with it they get a certificate of
/// that CA, whatever other certificates are served (upstream: `LoopbackClientServerNameOverride`).
pub const LOOPBACK_NAME: &str = "apiserver-loopback-client";
/// The DNS names of the server.
const SERVER_NAMES: [&str; 6] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    LOOPBACK_NAME,
];

/// The common names of the CAs.
pub(crate) const CLUSTER_AUTHORITY: &str = "setpoint-ca";
pub(crate) const PROXY_AUTHORITY: &str = "front-proxy-ca";

/// The files of the server's certificate, the administrator's, and those for kubelets and aggregated API servers.
pub(crate) const SERVER: &str = "server";
pub(crate) const ADMINISTRATOR: &str = "admin";
pub(crate) const KUBELET_CLIENT: &str = "apiserver-kubelet-client";
pub(crate) const PROXY: &str = "front-proxy-client";

/// All certificates of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pki {
    pub authority: Authority,
    pub server: CertKeyPair,
    pub administrator: CertKeyPair,
    /// The client certificate of the API server for kubelets.
    pub kubelet_client: CertKeyPair,
    pub proxy_authority: Authority,
    pub proxy: CertKeyPair,
}

/// A certificate to issue.
pub(crate) struct CertificateSpec {
    pub(crate) file: &'static str,
    pub(crate) subject: Subject,
}

// === impl Pki ===

impl Pki {
    /// Reads the certificates in a directory. Those that are absent, due for renewal, signed by a previous CA or for
    /// other addresses are issued again. `addresses` are those of the server besides the loopback ones. `proxy_name` is
    /// the common name of the client certificate for aggregated API servers, which they check.
    pub fn open(dir: &Path, addresses: &[IpAddr], proxy_name: &str, now: Timestamp) -> Result<Self, Error> {
        fs::create_dir_all(dir).map_err(Error::file("create", dir))?;
        let _lock = lock(dir)?;
        let authority = Authority::open(cluster_authority(dir), now)?;
        let proxy_authority = Authority::open(proxy_authority(dir), now)?;
        let issued = |authority: &Authority, spec| load_or_issue(dir, &authority.signing, spec, now);
        Ok(Self {
            server: issued(&authority, server(addresses))?,
            administrator: issued(&authority, administrator())?,
            kubelet_client: issued(&authority, kubelet_client())?,
            proxy: issued(&proxy_authority, proxy(proxy_name))?,
            authority,
            proxy_authority,
        })
    }
}

/// Locks the directory until the file is dropped: a server and a command may change it at the same time.
pub(crate) fn lock(dir: &Path) -> Result<File, Error> {
    let file = File::open(dir).map_err(Error::file("open", dir))?;
    file.lock().map_err(Error::file("lock", dir))?;
    Ok(file)
}

pub(crate) fn cluster_authority(dir: &Path) -> AuthorityFiles<'_> {
    AuthorityFiles {
        dir,
        file: "ca",
        common_name: CLUSTER_AUTHORITY,
    }
}

pub(crate) fn proxy_authority(dir: &Path) -> AuthorityFiles<'_> {
    AuthorityFiles {
        dir,
        file: "front-proxy-ca",
        common_name: PROXY_AUTHORITY,
    }
}

/// The certificate on disk if it is current, otherwise a new one.
fn load_or_issue(
    dir: &Path,
    authority: &CertKeyPair,
    spec: CertificateSpec,
    now: Timestamp,
) -> Result<CertKeyPair, Error> {
    if let Some(pair) = CertKeyPair::read(dir, spec.file)?
        && is_current(&pair, authority, &spec.subject, now)?
    {
        return Ok(pair);
    }
    let pair = issue::signed(authority, spec.file, &spec.subject, now)?;
    pair.write(dir, spec.file)?;
    Ok(pair)
}

/// Whether a certificate is for this subject, signed by this CA, and not due for renewal.
fn is_current(
    pair: &CertKeyPair,
    authority: &CertKeyPair,
    subject: &Subject,
    now: Timestamp,
) -> Result<bool, Error> {
    let authority = authority.certificate_der()?;
    let authority = Certificate::from_der(&authority).map_err(Error::Authority)?;
    let der = pair.certificate_der();
    let Some(certificate) = der.as_ref().ok().and_then(|der| Certificate::from_der(der).ok()) else {
        return Ok(false);
    };
    // Two CAs of the same name differ in their key.
    let is_signed = certificate.issuer == authority.subject
        && certificate.authority_key_id() == authority.subject_key_id();
    let is_same =
        certificate.subject.raw == subject.name && certificate.subject_alt_names() == subject.alt_names;
    let is_due = lifetime::is_due(&certificate, issue::not_after(&authority, now), now);
    Ok(is_signed && is_same && !is_due && pair.is_matching())
}

fn server(further_addresses: &[IpAddr]) -> CertificateSpec {
    let mut addresses: Vec<IpAddr> = vec![
        IpAddr::from([127, 0, 0, 1]),
        IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
    ];
    for address in further_addresses {
        if !address.is_unspecified() && !addresses.contains(address) {
            addresses.push(*address);
        }
    }
    let dns_names = SERVER_NAMES
        .iter()
        .map(|name| GeneralName::Dns((*name).to_owned()));
    let subject = Subject {
        name: issue::distinguished_name("setpoint", None),
        alt_names: dns_names.chain(addresses.iter().map(general_name)).collect(),
        usage: oid::SERVER_AUTH,
    };
    CertificateSpec {
        file: SERVER,
        subject,
    }
}

fn general_name(address: &IpAddr) -> GeneralName {
    GeneralName::Address(match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    })
}

fn administrator() -> CertificateSpec {
    client(ADMINISTRATOR, "kubernetes-admin", Some("system:masters"))
}

/// The identity of the API server towards kubelets, with kubeadm's name and group.
fn kubelet_client() -> CertificateSpec {
    client(
        KUBELET_CLIENT,
        "kube-apiserver-kubelet-client",
        Some("system:masters"),
    )
}

pub(crate) fn proxy(name: &str) -> CertificateSpec {
    client(PROXY, name, None)
}

/// A client certificate for a user and a group.
fn client(file: &'static str, user: &str, group: Option<&str>) -> CertificateSpec {
    CertificateSpec {
        file,
        subject: Subject {
            name: issue::distinguished_name(user, group),
            alt_names: Vec::new(),
            usage: oid::CLIENT_AUTH,
        },
    }
}

#[cfg(test)]
mod tests;
