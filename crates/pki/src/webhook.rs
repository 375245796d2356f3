//! [`WebhookPki`]: the certificate of a webhook server, and the CA that its configuration names.

use std::net::IpAddr;
use std::path::Path;

use jiff::Timestamp;
use setpoint_x509::{GeneralName, oid};

use crate::issue::Subject;
use crate::pair::{READABLE, write_file};
use crate::{CertKeyPair, Error, issue};

/// The common name of the CA.
const AUTHORITY: &str = "setpoint-webhook-ca";

/// A serving certificate and its CA, for a program that was given none. The key of the CA is not kept: it signs nothing else.
#[derive(Debug, Clone)]
pub struct WebhookPki {
    /// The certificate of the CA, in PEM.
    pub authority: String,
    pub serving: CertKeyPair,
}

impl WebhookPki {
    /// A new certificate for these DNS names and IP addresses. It is valid for a year.
    pub fn generate(names: &[String], now: Timestamp) -> Result<Self, Error> {
        let authority = issue::authority(AUTHORITY, now)?;
        let common_name = names.first().map_or("webhook", String::as_str);
        let subject = Subject {
            name: issue::distinguished_name(common_name, None),
            alt_names: names.iter().map(|name| general_name(name)).collect(),
            usage: oid::SERVER_AUTH,
        };
        Ok(Self {
            serving: issue::signed(&authority, common_name, &subject, now)?,
            authority: authority.certificate,
        })
    }

    /// Writes `tls.crt`, `tls.key` and `ca.crt`, the names in a Secret of type `kubernetes.io/tls`, to a directory that
    /// exists.
    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        self.serving.write(dir, "tls")?;
        write_file(&dir.join("ca.crt"), &self.authority, READABLE)
    }
}

fn general_name(name: &str) -> GeneralName {
    match name.parse() {
        Ok(IpAddr::V4(address)) => GeneralName::Address(address.octets().to_vec()),
        Ok(IpAddr::V6(address)) => GeneralName::Address(address.octets().to_vec()),
        Err(_) => GeneralName::Dns(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use setpoint_x509::Certificate;

    use super::*;

    #[test]
    fn the_certificate_is_for_the_names_and_of_the_ca_beside_it() {
        let names = ["a.default.svc".to_owned(), "127.0.0.1".to_owned()];
        let pki = WebhookPki::generate(&names, Timestamp::UNIX_EPOCH).unwrap();
        let directory = tempfile::tempdir().unwrap();
        pki.write(directory.path()).unwrap();
        let serving = CertKeyPair::read(directory.path(), "tls").unwrap().unwrap();
        assert!(serving.is_matching());
        let der = serving.certificate_der().unwrap();
        let certificate = Certificate::from_der(&der).unwrap();
        let expected = [
            GeneralName::Dns("a.default.svc".to_owned()),
            GeneralName::Address(vec![127, 0, 0, 1]),
        ];
        assert_eq!(certificate.subject_alt_names(), expected);
        let authority = std::fs::read(directory.path().join("ca.crt")).unwrap();
        let authority = crate::pair::certificates(&authority).unwrap();
        let authority = Certificate::from_der(&authority[0]).unwrap();
        assert_eq!(certificate.issuer.raw, authority.subject.raw);
    }
}
