//! Whether a certificate on disk can be reused.

use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use setpoint_x509::{Certificate, GeneralName};

/// Whether a certificate has exactly these subject alternative names, and is valid for so many more days.
pub(crate) fn is_reusable(pem: &str, alt_names: &[GeneralName], now: Timestamp, days: i64) -> bool {
    let Ok(der) = CertificateDer::from_pem_slice(pem.as_bytes()) else {
        return false;
    };
    let Ok(certificate) = Certificate::from_der(&der) else {
        return false;
    };
    let not_after = certificate.not_after.as_second();
    not_after > now.as_second() + days * 86_400 && certificate.subject_alt_names() == alt_names
}
