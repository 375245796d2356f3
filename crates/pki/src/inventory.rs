//! The inventory of a directory: every certificate and key, and what it is used for.

use std::net::IpAddr;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::digest;
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject as _;
use setpoint_x509::{Certificate, GeneralName, PrivateKey};

use crate::Error;
use crate::pair::{certificates, read_file};
use crate::service_account::{retired_keys, signing_key_file};

/// The files with certificates, and what uses them.
const CERTIFICATES: [(&str, &str); 10] = [
    ("ca.crt", "the cluster's CA"),
    ("ca-next.crt", "the cluster's next CA"),
    ("ca-previous.crt", "a previous CA of the cluster"),
    ("server.crt", "the API server"),
    ("admin.crt", "the administrator's kubeconfig"),
    ("apiserver-kubelet-client.crt", "requests to kubelets"),
    ("front-proxy-ca.crt", "the CA of front proxies"),
    ("front-proxy-ca-next.crt", "the next CA of front proxies"),
    ("front-proxy-ca-previous.crt", "a previous CA of front proxies"),
    ("front-proxy-client.crt", "requests to aggregated API servers"),
];

/// A certificate or a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The file or the origin.
    pub file: String,
    /// What uses it.
    pub used_by: String,
    /// The certificate; `None` for a key without one.
    pub certificate: Option<CertificateInfo>,
    /// The key id (`kid`) of a key without a certificate, if it can be computed.
    pub key_id: Option<String>,
    /// When it expires; `None` if it does not.
    pub expires: Option<Timestamp>,
}

/// The fields of a certificate that a user reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateInfo {
    pub subject: String,
    pub issuer: String,
    /// DNS names, addresses, URIs and e-mail addresses.
    pub names: Vec<String>,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

// === impl CertificateInfo ===

impl CertificateInfo {
    /// Of every certificate in a PEM text, which must have one.
    pub fn all_from_pem(pem: &[u8]) -> Result<Vec<Self>, Error> {
        certificates(pem)?.iter().map(|der| Self::from_der(der)).collect()
    }

    /// Of a certificate in DER.
    pub fn from_der(der: &[u8]) -> Result<Self, Error> {
        let certificate = Certificate::from_der(der).map_err(Error::Certificate)?;
        let names = certificate.subject_alt_names();
        Ok(Self {
            subject: certificate.subject.to_string(),
            issuer: certificate.issuer.to_string(),
            names: names.into_iter().map(name_text).collect(),
            not_before: certificate.not_before,
            not_after: certificate.not_after,
        })
    }
}

// === impl Entry ===

impl Entry {
    /// The entry of a certificate.
    pub fn of_certificate(file: &str, used_by: &str, certificate: CertificateInfo) -> Self {
        Self {
            file: file.to_owned(),
            used_by: used_by.to_owned(),
            expires: Some(certificate.not_after),
            certificate: Some(certificate),
            key_id: None,
        }
    }

    fn of_key(file: &str, used_by: String, key_id: Option<String>) -> Self {
        Self {
            file: file.to_owned(),
            used_by,
            certificate: None,
            key_id,
            expires: None,
        }
    }
}

/// All certificates and keys in a directory.
pub fn inventory(dir: &Path, now: Timestamp) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::new();
    for (file, used_by) in CERTIFICATES {
        let path = dir.join(file);
        if path.exists() {
            let found = CertificateInfo::all_from_pem(read_file(&path)?.as_bytes())?;
            entries.extend(
                found
                    .into_iter()
                    .map(|one| Entry::of_certificate(file, used_by, one)),
            );
        }
    }
    entries.extend(service_account_keys(dir, now)?);
    Ok(entries)
}

fn service_account_keys(dir: &Path, now: Timestamp) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::new();
    let signing = signing_key_file(dir);
    if signing.exists() {
        let key = PrivateKey::from_pem(&read_file(&signing)?).map_err(Error::Certificate)?;
        let id = key_id(&key.public_key_info());
        entries.push(Entry::of_key(
            "service-account.key",
            "signing service account tokens".to_owned(),
            Some(id),
        ));
    }
    for key in retired_keys(dir, now)? {
        let used_by = match key.until {
            Some(until) => format!("verifying service account tokens until {until:.0}"),
            None => "verifying service account tokens".to_owned(),
        };
        let public = SubjectPublicKeyInfoDer::from_pem_slice(key.text.as_bytes()).ok();
        let id = public.map(|public| key_id(&public));
        entries.push(Entry::of_key("service-account-retired.pem", used_by, id));
    }
    Ok(entries)
}

/// The key id of a public key in the headers of tokens: the hash of its SubjectPublicKeyInfo.
fn key_id(public_key_info: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, public_key_info))
}

fn name_text(name: GeneralName) -> String {
    match name {
        GeneralName::Email(text) | GeneralName::Dns(text) | GeneralName::Uri(text) => text,
        GeneralName::Address(bytes) => address_text(&bytes),
    }
}

fn address_text(bytes: &[u8]) -> String {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let address = v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from));
    address.map_or_else(|_| format!("{bytes:?}"), |address| address.to_string())
}
