//! DER: certificates, certificate requests and public keys.

use setpoint_x509::{Certificate, CertificateRequest, PublicKeyInfo};

use super::Target;
use crate::corpus;

pub(super) const TARGET: Target = Target {
    name: "der",
    cost: 5,
    seeds: || corpus::files("der"),
    run,
};

fn run(bytes: &[u8]) {
    if let Ok(certificate) = Certificate::from_der(bytes) {
        let subject = &certificate.subject;
        assert!(bytes.len() >= subject.raw.len(), "a subject is part of the input");
        assert!(
            subject.attributes().count() <= bytes.len(),
            "an attribute has bytes"
        );
        subject
            .common_names()
            .chain(subject.organizations())
            .for_each(drop);
        let _ = (certificate.is_ca(), certificate.subject_key_id());
        certificate.subject_alt_names();
    }
    if let Ok(request) = CertificateRequest::from_der(bytes) {
        request.verify_signature().ok();
        request.subject_alt_names();
        request.subject.organizations().for_each(drop);
    }
    if let Ok(key) = PublicKeyInfo::from_der(bytes) {
        let _ = (key.elliptic_curve_point(), key.rsa_numbers());
    }
}
