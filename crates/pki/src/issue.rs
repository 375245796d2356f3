//! Issuing: a CA signs itself, and the certificates of a server or a client.

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256,
};
use time::OffsetDateTime;

use crate::{CertKeyPair, Error};

/// The validity of CA certificates.
const AUTHORITY_DAYS: i64 = 3650;
/// The validity of other certificates.
const CERTIFICATE_DAYS: i64 = 365;

/// A new CA of this common name.
pub(crate) fn authority(name: &str, now: Timestamp) -> Result<CertKeyPair, Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = subject(name, None);
    (params.not_before, params.not_after) = validity(now, AUTHORITY_DAYS)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let signed = || {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        Ok(CertKeyPair {
            certificate: params.self_signed(&key)?.pem(),
            key: key.serialize_pem(),
        })
    };
    signed().map_err(Error::issue(name))
}

/// A certificate signed by a CA, with a new key. `name` is for errors only.
pub(crate) fn signed(
    authority: &CertKeyPair,
    name: &str,
    mut params: CertificateParams,
    now: Timestamp,
) -> Result<CertKeyPair, Error> {
    let authority_key = KeyPair::from_pem(&authority.key).map_err(Error::Authority)?;
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate, authority_key).map_err(Error::Authority)?;
    (params.not_before, params.not_after) = validity(now, CERTIFICATE_DAYS)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    let signed = || {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        Ok(CertKeyPair {
            certificate: params.signed_by(&key, &issuer)?.pem(),
            key: key.serialize_pem(),
        })
    };
    signed().map_err(Error::issue(name))
}

/// The subject of a certificate: the user name, and the group if there is one.
pub(crate) fn subject(name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    if let Some(organization) = organization {
        subject.push(DnType::OrganizationName, organization);
    }
    subject.push(DnType::CommonName, name);
    subject
}

/// Not before and not after: from an hour ago, since clocks differ, for so many days.
fn validity(now: Timestamp, days: i64) -> Result<(OffsetDateTime, OffsetDateTime), Error> {
    let time = OffsetDateTime::from_unix_timestamp;
    Ok((
        time(now.as_second() - 3600)?,
        time(now.as_second() + days * 86_400)?,
    ))
}
