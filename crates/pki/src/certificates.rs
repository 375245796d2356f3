//! Certificates in the data directory: the cluster's CA with the server's and the administrator's certificate, and the
//! front-proxy CA with the client certificate for aggregated API servers. A client with a certificate of the front-proxy
//! CA may impersonate any user, so that CA signs nothing else.
//!
//! Valid certificates are reused, so that a kubeconfig outlives restarts. Keys are readable by their owner only.

use std::fmt;
use std::fs;
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use time::OffsetDateTime;

use crate::reuse;

/// The validity of CA certificates.
const AUTHORITY_DAYS: i64 = 3650;
/// The validity of other certificates.
const CERTIFICATE_DAYS: i64 = 365;
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

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub struct CertKeyPair {
    pub certificate: String,
    pub key: String,
}

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
    params: CertificateParams,
    /// The subject alternative names it must have, sorted.
    names: Vec<String>,
}

// === impl Pki ===

impl Pki {
    /// Reads the certificates in a directory, issuing those that are absent, about to expire, or for other addresses.
    /// `proxy_name` is the common name of the client certificate for aggregated API servers, which they check.
    pub fn open(dir: &Path, listen: IpAddr, proxy_name: &str, now: Timestamp) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
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
fn open_authority(dir: &Path, (file, name): (&str, &str), now: Timestamp) -> Result<(CertKeyPair, bool)> {
    if let Some(pair) = read(dir, file)?
        && reuse::is_reusable(&pair.certificate, &[], now, RENEWAL_DAYS)
    {
        return Ok((pair, false));
    }
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).context("cannot generate a key")?;
    let mut params = params(name, None, now, AUTHORITY_DAYS)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let certificate = params
        .self_signed(&key)
        .context("cannot issue the CA certificate")?;
    let pair = CertKeyPair {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    };
    write(dir, file, &pair)?;
    Ok((pair, true))
}

fn server(listen: IpAddr) -> CertificateSpec {
    let mut params = CertificateParams::default();
    let mut addresses: Vec<IpAddr> = vec![
        IpAddr::from([127, 0, 0, 1]),
        IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
    ];
    if !listen.is_unspecified() && !addresses.contains(&listen) {
        addresses.push(listen);
    }
    let names = SERVER_NAMES
        .iter()
        .map(|name| SanType::DnsName((*name).try_into().expect("the names are plain ASCII")));
    params.subject_alt_names = names
        .chain(addresses.iter().map(|address| SanType::IpAddress(*address)))
        .collect();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let mut names: Vec<String> = SERVER_NAMES.iter().map(|name| (*name).to_owned()).collect();
    names.extend(addresses.iter().map(ToString::to_string));
    names.sort();
    params.distinguished_name = subject("setpoint", None);
    CertificateSpec {
        file: "server",
        params,
        names,
    }
}

fn administrator() -> CertificateSpec {
    let mut params = CertificateParams::default();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.distinguished_name = subject("kubernetes-admin", Some("system:masters"));
    CertificateSpec {
        file: "admin",
        params,
        names: Vec::new(),
    }
}

fn proxy(name: &str) -> CertificateSpec {
    let mut params = CertificateParams::default();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.distinguished_name = subject(name, None);
    CertificateSpec {
        file: "front-proxy-client",
        params,
        names: Vec::new(),
    }
}

impl CertKeyPair {
    /// The certificate in DER.
    pub fn certificate_der(&self) -> Result<CertificateDer<'static>> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).context("invalid certificate")
    }

    /// The private key in DER.
    pub fn key_der(&self) -> Result<PrivateKeyDer<'static>> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).context("invalid private key")
    }
}

impl fmt::Debug for CertKeyPair {
    /// Without the key, which must not get into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertKeyPair")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

/// The certificate on disk if it is valid for `spec`, otherwise a new one.
fn load_or_issue(
    dir: &Path,
    authority: &CertKeyPair,
    spec: CertificateSpec,
    now: Timestamp,
    renew: bool,
) -> Result<CertKeyPair> {
    if let Some(pair) = read(dir, spec.file)?.filter(|_| !renew)
        && reuse::is_reusable(&pair.certificate, &spec.names, now, RENEWAL_DAYS)
    {
        return Ok(pair);
    }
    let authority_key = KeyPair::from_pem(&authority.key).context("invalid CA key")?;
    let issuer =
        Issuer::from_ca_cert_pem(&authority.certificate, authority_key).context("unreadable authority")?;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).context("cannot generate a key")?;
    let mut params = spec.params;
    (params.not_before, params.not_after) = validity(now, CERTIFICATE_DAYS)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    let certificate = params
        .signed_by(&key, &issuer)
        .with_context(|| format!("cannot sign {}", spec.file))?;
    let pair = CertKeyPair {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    };
    write(dir, spec.file, &pair)?;
    Ok(pair)
}

fn params(name: &str, organization: Option<&str>, now: Timestamp, days: i64) -> Result<CertificateParams> {
    let mut params = CertificateParams::default();
    params.distinguished_name = subject(name, organization);
    (params.not_before, params.not_after) = validity(now, days)?;
    Ok(params)
}

fn subject(name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    if let Some(organization) = organization {
        subject.push(DnType::OrganizationName, organization);
    }
    subject.push(DnType::CommonName, name);
    subject
}

/// Not before and not after: from an hour ago, since clocks differ, for so many days.
fn validity(now: Timestamp, days: i64) -> Result<(OffsetDateTime, OffsetDateTime)> {
    let time =
        |seconds: i64| OffsetDateTime::from_unix_timestamp(seconds).context("the clock is out of range");
    Ok((
        time(now.as_second() - 3600)?,
        time(now.as_second() + days * 86_400)?,
    ))
}

fn paths(dir: &Path, name: &str) -> (PathBuf, PathBuf) {
    (dir.join(format!("{name}.crt")), dir.join(format!("{name}.key")))
}

fn read(dir: &Path, name: &str) -> Result<Option<CertKeyPair>> {
    let (certificate, key) = paths(dir, name);
    if !certificate.exists() || !key.exists() {
        return Ok(None);
    }
    let read =
        |path: &Path| fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    Ok(Some(CertKeyPair {
        certificate: read(&certificate)?,
        key: read(&key)?,
    }))
}

fn write(dir: &Path, name: &str, pair: &CertKeyPair) -> Result<()> {
    let (certificate, key) = paths(dir, name);
    write_file(&key, &pair.key, 0o600)?;
    write_file(&certificate, &pair.certificate, 0o644)
}

/// Writes a file atomically: a reader sees the old text or the new one.
fn write_file(path: &Path, text: &str, mode: u32) -> Result<()> {
    let fresh = path.with_extension("new");
    let written = || -> std::io::Result<()> {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .open(&fresh)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&fresh, path)
    };
    written().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests;
