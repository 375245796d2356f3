//! [`CertificateRequest`]: a PKCS #10 certificate request.

use crate::der::{self, Reader};
use crate::extension::{Extension, GeneralName};
use crate::name::Name;
use crate::public_key::{PublicKeyInfo, SignatureAlgorithm};
use crate::{Error, oid};

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
