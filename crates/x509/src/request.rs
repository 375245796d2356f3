//! [`CertificateRequest`]: a PKCS #10 certificate request.

use crate::der::{self, Reader, write};
use crate::extension::{Extension, GeneralName};
use crate::name::Name;
use crate::public_key::{PublicKeyInfo, SignatureAlgorithm};
use crate::{Error, PrivateKey, oid};

/// The version of PKCS #10.
const VERSION_1: [u8; 1] = [0];

/// A request for a certificate, signed with the key that it is about.
#[derive(Debug, Clone)]
pub struct CertificateRequest<'a> {
    pub subject: Name<'a>,
    pub public_key: PublicKeyInfo<'a>,
    /// The extensions that are requested.
    pub extensions: Vec<Extension<'a>>,
    /// The signed bytes.
    signed: &'a [u8],
    algorithm: SignatureAlgorithm<'a>,
    signature: &'a [u8],
}

impl<'a> CertificateRequest<'a> {
    /// Reads a request from its DER encoding, which must have no trailing bytes. Its signature is not verified.
    pub fn from_der(der: &'a [u8]) -> Result<Self, Error> {
        Self::read(der).ok_or(Error::Malformed("certificate request"))
    }

    fn read(der: &'a [u8]) -> Option<Self> {
        let mut outer = Reader::of_sequence(der)?;
        let signed = outer.element(der::SEQUENCE)?;
        let algorithm = SignatureAlgorithm::read(&mut outer)?;
        let signature = outer.element(der::BIT_STRING)?.bytes_of_bits()?;
        let mut fields = signed.reader();
        let _version = fields.element(der::INTEGER)?;
        let subject = Name::read(&mut fields)?;
        let public_key = PublicKeyInfo::read(&mut fields)?;
        let attributes = fields.optional(der::CONTEXT_CONSTRUCTED);
        let extensions = match attributes {
            Some(attributes) => requested_extensions(attributes.reader())?,
            None => Vec::new(),
        };
        (outer.is_empty() && fields.is_empty()).then_some(Self {
            subject,
            public_key,
            extensions,
            signed: signed.raw,
            algorithm,
            signature,
        })
    }

    /// Verifies that the request is signed with its own key.
    pub fn verify_signature(&self) -> Result<(), Error> {
        self.public_key
            .verify(&self.algorithm, self.signed, self.signature)
    }

    /// The subject alternative names that are requested.
    pub fn subject_alt_names(&self) -> Vec<GeneralName> {
        let requested = self
            .extensions
            .iter()
            .filter(|extension| extension.is(oid::SUBJECT_ALT_NAME));
        requested.filter_map(Extension::general_names).flatten().collect()
    }
}

/// The DER encoding of a request for a certificate with this subject, which is the DER encoding of a name. It requests no
/// extensions, and is signed with the key that it is about.
pub fn sign_request(subject: &[u8], key: &PrivateKey) -> Result<Vec<u8>, Error> {
    let unsigned = write::sequence(&[
        write::integer(&VERSION_1),
        subject.to_vec(),
        key.public_key_info(),
        write::field(0, &[]),
    ]);
    let signature = key.sign(&unsigned)?;
    let algorithm = key.algorithm().to_vec();
    Ok(write::sequence(&[unsigned, algorithm, write::bits(&signature)]))
}

fn requested_extensions(mut attributes: Reader<'_>) -> Option<Vec<Extension<'_>>> {
    let mut extensions = Vec::new();
    while !attributes.is_empty() {
        let mut attribute = attributes.sequence()?;
        let kind = attribute.element(der::OBJECT_IDENTIFIER)?;
        let mut values = attribute.element(der::SET)?.reader();
        if kind.is_identifier(oid::EXTENSION_REQUEST) {
            extensions.extend(Extension::read_all(values.sequence()?)?);
        }
    }
    Some(extensions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyType;

    #[test]
    fn a_signed_request_has_its_subject_and_is_verified_by_its_key() {
        let (key, _) = PrivateKey::generate().unwrap();
        let subject = Name::encode(&[
            (oid::ORGANIZATION, "system:nodes"),
            (oid::COMMON_NAME, "system:node:n1"),
        ]);
        let der = sign_request(&subject, &key).unwrap();
        let request = CertificateRequest::from_der(&der).unwrap();
        assert_eq!(request.verify_signature(), Ok(()));
        assert_eq!(
            request.subject.common_names().collect::<Vec<_>>(),
            ["system:node:n1"]
        );
        assert_eq!(
            request.subject.organizations().collect::<Vec<_>>(),
            ["system:nodes"]
        );
        assert_eq!(request.public_key.raw, key.public_key_info());
    }

    #[test]
    fn keys_of_every_type_sign_requests() {
        for key_type in [KeyType::EcdsaP256, KeyType::EcdsaP384, KeyType::Ed25519] {
            let (key, _) = PrivateKey::generate_of_type(key_type).unwrap();
            let der = sign_request(&Name::encode(&[]), &key).unwrap();
            let request = CertificateRequest::from_der(&der).unwrap();
            assert_eq!(request.verify_signature(), Ok(()), "{key_type:?}");
        }
    }
}
