//! [`Certificate`]: an X.509 certificate as it is read.

use jiff::Timestamp;

use crate::Error;
use crate::der::{self, Reader};
use crate::extension::{Extension, GeneralName};
use crate::name::Name;
use crate::oid;
use crate::public_key::PublicKeyInfo;

/// The fields of a certificate that a cluster uses. Its signature is not verified.
#[derive(Debug, Clone)]
pub struct Certificate<'a> {
    pub issuer: Name<'a>,
    pub subject: Name<'a>,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    pub public_key: PublicKeyInfo<'a>,
    pub extensions: Vec<Extension<'a>>,
}

impl<'a> Certificate<'a> {
    /// Reads a certificate from its DER encoding, which must have no trailing bytes.
    pub fn from_der(der: &'a [u8]) -> Result<Self, Error> {
        Self::read(der).ok_or(Error::Malformed("certificate"))
    }

    fn read(der: &'a [u8]) -> Option<Self> {
        let mut outer = Reader::of_sequence(der)?;
        let mut fields = outer.sequence()?;
        let _signature_algorithm = outer.sequence()?;
        let _signature = outer.element(der::BIT_STRING)?;
        if !outer.is_empty() {
            return None;
        }
        let _version = fields.optional(der::CONTEXT_CONSTRUCTED);
        let _serial_number = fields.element(der::INTEGER)?;
        let _signature_algorithm = fields.sequence()?;
        let issuer = Name::read(&mut fields)?;
        let mut validity = fields.sequence()?;
        let (not_before, not_after) = (validity.any()?.time()?, validity.any()?.time()?);
        let subject = Name::read(&mut fields)?;
        let public_key = PublicKeyInfo::read(&mut fields)?;
        // Unique identifiers of issuer and subject, which nothing writes any more.
        fields.optional(der::CONTEXT | 1);
        fields.optional(der::CONTEXT | 2);
        let extensions = match fields.optional(der::CONTEXT_CONSTRUCTED | 3) {
            Some(field) => Extension::read_all(Reader::of_sequence(field.content)?)?,
            None => Vec::new(),
        };
        fields.is_empty().then_some(Self {
            issuer,
            subject,
            not_before,
            not_after,
            public_key,
            extensions,
        })
    }

    fn extension(&self, arcs: &[u32]) -> Option<&Extension<'a>> {
        self.extensions.iter().find(|extension| extension.is(arcs))
    }

    /// Whether the certificate may sign others.
    pub fn is_ca(&self) -> bool {
        self.extension(oid::BASIC_CONSTRAINTS)
            .is_some_and(Extension::is_ca)
    }

    pub fn subject_key_id(&self) -> Option<&'a [u8]> {
        self.extension(oid::SUBJECT_KEY_ID).and_then(Extension::key_id)
    }

    /// The subject key identifier of the CA that signed the certificate.
    pub fn authority_key_id(&self) -> Option<&'a [u8]> {
        self.extension(oid::AUTHORITY_KEY_ID)
            .and_then(Extension::authority_key_id)
    }

    pub fn subject_alt_names(&self) -> Vec<GeneralName> {
        let names = self.extension(oid::SUBJECT_ALT_NAME);
        names.and_then(Extension::general_names).unwrap_or_default()
    }
}
