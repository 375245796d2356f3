//! Pins of CAs: hashes of their public keys, by which a node that joins recognizes the cluster.

use ring::digest;
use rustls_pki_types::CertificateDer;
use setpoint_x509::Certificate;

use crate::Error;
use crate::pair::certificates;

/// The pins of the certificates in a PEM text, in kubeadm's format: `sha256:` and the hash of the key in hexadecimal.
pub fn public_key_pins(pem: &[u8]) -> Result<Vec<String>, Error> {
    certificates(pem)?.iter().map(pin_of).collect()
}

/// The certificates in a PEM text whose key has this pin, as PEM; empty if there are none.
pub fn with_public_key_pin(pem: &[u8], pin: &str) -> Result<String, Error> {
    let mut pinned = String::new();
    for der in certificates(pem)? {
        if pin_of(&der)?.eq_ignore_ascii_case(pin) {
            pinned.push_str(&setpoint_x509::pem::encode("CERTIFICATE", &der));
        }
    }
    Ok(pinned)
}

fn pin_of(der: &CertificateDer<'_>) -> Result<String, Error> {
    let certificate = Certificate::from_der(der).map_err(Error::Certificate)?;
    let hash = digest::digest(&digest::SHA256, certificate.public_key.raw);
    let digits: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("sha256:{digits}"))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::Pki;

    #[test]
    fn the_pin_of_a_ca_is_that_of_its_key() {
        let directory = tempfile::tempdir().unwrap();
        let addresses = [std::net::Ipv4Addr::LOCALHOST.into()];
        let pki = Pki::open(directory.path(), &addresses, "proxy", Timestamp::UNIX_EPOCH).unwrap();
        let pins = public_key_pins(pki.authority.signing.certificate.as_bytes()).unwrap();
        assert_eq!(pins.len(), 1);
        assert_eq!(pins[0].len(), "sha256:".len() + 64);
        assert!(public_key_pins(b"no certificate").is_err());
    }

    #[test]
    fn a_certificate_beside_the_pinned_one_is_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let addresses = [std::net::Ipv4Addr::LOCALHOST.into()];
        let pki = Pki::open(directory.path(), &addresses, "proxy", Timestamp::UNIX_EPOCH).unwrap();
        let [own, other] = [&pki.authority, &pki.proxy_authority].map(|one| &one.signing.certificate);
        let pin = public_key_pins(own.as_bytes()).unwrap().remove(0);
        let bundle = format!("{other}{own}");
        let pinned =
            with_public_key_pin(bundle.as_bytes(), &pin.to_uppercase().replace("SHA", "sha")).unwrap();
        assert_eq!(
            public_key_pins(pinned.as_bytes()).unwrap(),
            std::slice::from_ref(&pin)
        );
        assert_eq!(with_public_key_pin(other.as_bytes(), &pin).unwrap(), "");
    }
}
