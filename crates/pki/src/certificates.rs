//! Certificates in the data directory: the cluster's CA with the server's and the administrator's certificate, and the
//! front-proxy CA with the client certificate for aggregated API servers. A client with a certificate of the front-proxy
//! CA may impersonate any user, so that CA signs nothing else.
//!
//! Valid certificates are reused, so that a kubeconfig outlives restarts.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use jiff::Timestamp;
use setpoint_x509::{GeneralName, oid};

use crate::issue::{self, Subject};
use crate::{CertKeyPair, Error, reuse};

/// A certificate that expires sooner than this is replaced.
const RENEWAL_DAYS: i64 = 30;
/// The DNS names of the server.
const SERVER_NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// All certificates of a cluster.
#[derive(Debug)]
pub struct Pki {
    pub authority: CertKeyPair,
    pub server: CertKeyPair,
    pub administrator: CertKeyPair,
    pub proxy_authority: CertKeyPair,
    pub proxy: CertKeyPair,
}

/// A certificate to issue.
struct CertificateSpec {
    file: &'static str,
    subject: Subject,
}

// === impl Pki ===

impl Pki {
    /// Reads the certificates in a directory, issuing those that are absent, about to expire, or for other addresses.
    /// `proxy_name` is the common name of the client certificate for aggregated API servers, which they check.
    pub fn open(dir: &Path, listen: IpAddr, proxy_name: &str, now: Timestamp) -> Result<Self, Error> {
        fs::create_dir_all(dir).map_err(Error::file("create", dir))?;
        let (authority, fresh) = open_authority(dir, ("ca", "setpoint-ca"), now)?;
        let issued = |spec| load_or_issue(dir, &authority, spec, now, fresh);
        let (server, administrator) = (issued(server(listen))?, issued(administrator())?);
        let (proxy_authority, fresh) = open_authority(dir, ("front-proxy-ca", "front-proxy-ca"), now)?;
        Ok(Self {
            server,
            administrator,
            authority,
            proxy: load_or_issue(dir, &proxy_authority, proxy(proxy_name), now, fresh)?,
            proxy_authority,
        })
    }
}

/// Reads or creates a CA, by its file and common name. Returns whether it was created.
fn open_authority(
    dir: &Path,
    (file, name): (&str, &str),
    now: Timestamp,
) -> Result<(CertKeyPair, bool), Error> {
    if let Some(pair) = CertKeyPair::read(dir, file)?
        && reuse::is_reusable(&pair.certificate, &[], now, RENEWAL_DAYS)
    {
        return Ok((pair, false));
    }
    let pair = issue::authority(name, now)?;
    pair.write(dir, file)?;
    Ok((pair, true))
}

/// The certificate on disk if it is valid for `spec`, otherwise a new one.
fn load_or_issue(
    dir: &Path,
    authority: &CertKeyPair,
    spec: CertificateSpec,
    now: Timestamp,
    renew: bool,
) -> Result<CertKeyPair, Error> {
    if let Some(pair) = CertKeyPair::read(dir, spec.file)?.filter(|_| !renew)
        && reuse::is_reusable(&pair.certificate, &spec.subject.alt_names, now, RENEWAL_DAYS)
    {
        return Ok(pair);
    }
    let pair = issue::signed(authority, spec.file, &spec.subject, now)?;
    pair.write(dir, spec.file)?;
    Ok(pair)
}

fn server(listen: IpAddr) -> CertificateSpec {
    let mut addresses: Vec<IpAddr> = vec![
        IpAddr::from([127, 0, 0, 1]),
        IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
    ];
    if !listen.is_unspecified() && !addresses.contains(&listen) {
        addresses.push(listen);
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
        file: "server",
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
    client("admin", "kubernetes-admin", Some("system:masters"))
}

fn proxy(name: &str) -> CertificateSpec {
    client("front-proxy-client", name, None)
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
