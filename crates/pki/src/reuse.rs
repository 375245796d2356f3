//! Whether a certificate on disk can be reused.

use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::net::IpAddr;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

/// Whether a certificate has exactly these subject alternative names, sorted, and is valid for so many more days.
pub(crate) fn is_reusable(pem: &str, names: &[String], now: Timestamp, days: i64) -> bool {
    let Ok(der) = CertificateDer::from_pem_slice(pem.as_bytes()) else {
        return false;
    };
    let Ok((_, certificate)) = X509Certificate::from_der(&der) else {
        return false;
    };
    let ends = certificate.validity().not_after.timestamp();
    ends > now.as_second() + days * 86_400 && names_of(&certificate) == names
}

fn names_of(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else {
        return Vec::new();
    };
    let mut names: Vec<String> = extension.value.general_names.iter().filter_map(name).collect();
    names.sort();
    names
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address(bytes).map(|address| address.to_string()),
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
