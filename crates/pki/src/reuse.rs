//! Whether a certificate on disk can be reused.

use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use setpoint_x509::{Certificate, GeneralName};
use std::net::IpAddr;

/// Whether a certificate has exactly these subject alternative names, sorted, and is valid for so many more days.
pub(crate) fn is_reusable(pem: &str, names: &[String], now: Timestamp, days: i64) -> bool {
    let Ok(der) = CertificateDer::from_pem_slice(pem.as_bytes()) else {
        return false;
    };
    let Ok(certificate) = Certificate::from_der(&der) else {
        return false;
    };
    let not_after = certificate.not_after.as_second();
    not_after > now.as_second() + days * 86_400 && names_of(&certificate) == names
}

fn names_of(certificate: &Certificate<'_>) -> Vec<String> {
    let mut names: Vec<String> = certificate.subject_alt_names().iter().filter_map(name).collect();
    names.sort();
    names
}

fn name(name: &GeneralName) -> Option<String> {
    match name {
        GeneralName::Dns(name) => Some(name.clone()),
        GeneralName::Address(bytes) => address(bytes).map(|address| address.to_string()),
        _ => None,
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let short: Result<[u8; 4], _> = bytes.try_into();
    let long: Result<[u8; 16], _> = bytes.try_into();
    short
        .map(IpAddr::from)
        .ok()
        .or_else(|| long.map(IpAddr::from).ok())
}
