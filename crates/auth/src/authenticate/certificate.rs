//! Client certificates: the common name is the user, each organization a group; a UID attribute is optional.

use std::fmt::Write as _;
use std::sync::Arc;

use jiff::Timestamp;
use ring::digest;
use setpoint_api::User;
use setpoint_x509::{Attribute, Certificate, Name};

use super::{Authenticate, AuthenticationError, AuthenticationResult, CREDENTIAL_ID, Credentials};
use crate::maybe_future::MaybeFuture;

/// The subject attribute with the user's UID.
const UID: &[u32] = &[1, 3, 6, 1, 4, 1, 57683, 2];

/// Authenticates by the subject of a verified client certificate.
#[derive(Debug, Clone, Copy, Default)]
pub struct Certificates;

impl Authenticate for Certificates {
    fn authenticate<'a>(&'a self, credentials: &'a Credentials<'a>) -> MaybeFuture<'a, AuthenticationResult> {
        let user = credentials.certificate.map(user_of).transpose();
        user.map(|user| user.map(Arc::new)).into()
    }
}

/// When the first certificate of a chain expires; none if the chain has no readable certificate.
pub fn first_expiry(chain: &[impl AsRef<[u8]>]) -> Option<Timestamp> {
    let read = chain
        .iter()
        .filter_map(|der| Certificate::from_der(der.as_ref()).ok());
    read.map(|certificate| certificate.not_after).min()
}

/// The last common name of a certificate's subject, as in Go.
pub fn common_name(der: &[u8]) -> Option<String> {
    let certificate = Certificate::from_der(der).ok()?;
    certificate.subject.common_names().last().map(str::to_owned)
}

fn user_of(der: &[u8]) -> Result<User, AuthenticationError> {
    let certificate = Certificate::from_der(der)
        .map_err(|error| AuthenticationError(format!("unreadable certificate: {error}")))?;
    let subject = &certificate.subject;
    // The last one, as in Go: the signers check that name of a request.
    let Some(name) = subject.common_names().last().filter(|name| !name.is_empty()) else {
        return Err(AuthenticationError(
            "the certificate's subject has no common name".to_owned(),
        ));
    };
    let mut groups: Vec<&str> = subject.organizations().filter(|name| !name.is_empty()).collect();
    groups.push(User::AUTHENTICATED);
    let mut user = User::new(name, &groups);
    user.uid = uid_of(subject)?;
    user.extra
        .insert(CREDENTIAL_ID.to_owned(), vec![fingerprint(der)]);
    Ok(user)
}

fn uid_of(subject: &Name<'_>) -> Result<String, AuthenticationError> {
    let is_uid = |attribute: &Attribute<'_>| attribute.is(UID);
    let mut uids = subject.attributes().filter(is_uid);
    match (uids.next(), uids.next()) {
        (None, _) => Ok(String::new()),
        (Some(uid), None) => uid
            .text()
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
            .ok_or_else(|| AuthenticationError("the certificate's uid is no text".to_owned())),
        (Some(_), Some(_)) => Err(AuthenticationError("the certificate has several uids".to_owned())),
    }
}

/// The fingerprint of the certificate, as credential id.
fn fingerprint(der: &[u8]) -> String {
    let mut id = "X509SHA256=".to_owned();
    for byte in digest::digest(&digest::SHA256, der).as_ref() {
        let _ = write!(id, "{byte:02x}");
    }
    id
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    fn certificate(subject: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in subject {
            params.distinguished_name.push(kind.clone(), *value);
        }
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[track_caller]
    fn check(subject: &[(DnType, &str)], expected: Result<(&str, &[&str]), &str>) {
        let der = certificate(subject);
        let credentials = Credentials {
            certificate: Some(&der),
            ..Credentials::default()
        };
        match (Certificates.authenticate(&credentials).wait(), expected) {
            (Ok(Some(user)), Ok((name, groups))) => {
                assert_eq!(
                    (user.name.as_str(), &user.groups),
                    (name, &User::new(name, groups).groups)
                );
                assert!(
                    user.extra[CREDENTIAL_ID][0].starts_with("X509SHA256="),
                    "{user:?}"
                );
            }
            (Err(error), Err(message)) => assert_eq!(error.to_string(), message),
            (got, expected) => panic!("{got:?} is not {expected:?}"),
        }
    }

    #[test]
    fn the_subject_names_user_and_group() {
        check(
            &[
                (DnType::CommonName, "kubernetes-admin"),
                (DnType::OrganizationName, "system:masters"),
            ],
            Ok(("kubernetes-admin", &["system:masters", "system:authenticated"])),
        );
    }

    #[test]
    fn a_user_without_organization_is_only_authenticated() {
        check(
            &[(DnType::CommonName, "alice")],
            Ok(("alice", &["system:authenticated"])),
        );
    }

    #[test]
    fn a_subject_without_common_name_is_rejected() {
        check(
            &[(DnType::OrganizationName, "system:masters")],
            Err("the certificate's subject has no common name"),
        );
    }

    /// A signer checks the last name of a request, so another one must not become the user.
    #[test]
    fn the_last_common_name_is_the_user() {
        let second = DnType::CustomDnType(vec![2, 5, 4, 3]);
        check(
            &[
                (DnType::CommonName, "system:kube-scheduler"),
                (second, "system:node:a"),
            ],
            Ok(("system:node:a", &["system:authenticated"])),
        );
    }

    #[test]
    fn bytes_that_are_no_certificate_are_rejected() {
        let credentials = Credentials {
            certificate: Some(b"nonsense"),
            ..Credentials::default()
        };
        assert!(Certificates.authenticate(&credentials).wait().is_err());
    }

    #[test]
    fn a_chain_expires_with_its_first_certificate() {
        let expiring = |year: i32| {
            let mut params = CertificateParams::default();
            params.not_after = rcgen::date_time_ymd(year, 1, 1);
            params
                .self_signed(&KeyPair::generate().unwrap())
                .unwrap()
                .der()
                .to_vec()
        };
        let chain = [expiring(2045), expiring(2040), b"nonsense".to_vec()];
        let expected: Timestamp = "2040-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(first_expiry(&chain), Some(expected));
        assert_eq!(first_expiry(&chain[2..]), None);
    }

    #[test]
    fn without_a_certificate_the_next_authenticator_decides() {
        assert_eq!(
            Certificates.authenticate(&Credentials::default()).wait(),
            Ok(None)
        );
    }
}
