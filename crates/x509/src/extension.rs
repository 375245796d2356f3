//! Extensions of certificates: [`Extension`] as it is read, and functions that encode those that are issued.

use crate::der::{self, Reader, write};
use crate::oid;

/// An extension of a certificate, or one that a certificate request lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension<'a> {
    kind: der::Element<'a>,
    /// The DER encoding of its value.
    pub value: &'a [u8],
}

/// A subject alternative name of one of the types that certificates of a cluster have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GeneralName {
    Email(String),
    Dns(String),
    Uri(String),
    /// An IP address: four bytes or sixteen.
    Address(Vec<u8>),
}

const EMAIL: u8 = 1;
const DNS: u8 = 2;
const URI: u8 = 6;
const ADDRESS: u8 = 7;

// === impl Extension ===

impl<'a> Extension<'a> {
    /// Reads a list of extensions.
    pub(crate) fn read_all(mut list: Reader<'a>) -> Option<Vec<Self>> {
        let mut extensions = Vec::new();
        while !list.is_empty() {
            let mut extension = list.sequence()?;
            let kind = extension.element(der::OBJECT_IDENTIFIER)?;
            extension.optional(der::BOOLEAN);
            let value = extension.element(der::OCTET_STRING)?.content;
            if !extension.is_empty() {
                return None;
            }
            extensions.push(Self { kind, value });
        }
        Some(extensions)
    }

    /// Whether the extension has this object identifier.
    pub fn is(&self, arcs: &[u32]) -> bool {
        self.kind.is_identifier(arcs)
    }

    /// The names in a subject alternative name extension. Names of other types are left out.
    pub fn general_names(&self) -> Option<Vec<GeneralName>> {
        let mut list = Reader::of_sequence(self.value)?;
        let mut names = Vec::new();
        while !list.is_empty() {
            let element = list.any()?;
            let text = || Some(std::str::from_utf8(element.content).ok()?.to_owned());
            match element.tag.checked_sub(der::CONTEXT) {
                Some(EMAIL) => names.push(GeneralName::Email(text()?)),
                Some(DNS) => names.push(GeneralName::Dns(text()?)),
                Some(URI) => names.push(GeneralName::Uri(text()?)),
                Some(ADDRESS) => names.push(GeneralName::Address(element.content.to_vec())),
                _ => {}
            }
        }
        Some(names)
    }

    /// The CA flag of a basic constraints extension.
    pub(crate) fn is_ca(&self) -> bool {
        let constraints = Reader::of_sequence(self.value);
        constraints
            .and_then(|mut constraints| constraints.optional(der::BOOLEAN))
            .is_some_and(|flag| flag.content == [0xff])
    }

    /// The identifier in a subject key identifier extension.
    pub(crate) fn key_id(&self) -> Option<&'a [u8]> {
        Reader::new(self.value)
            .element(der::OCTET_STRING)
            .map(|id| id.content)
    }

    /// The identifier in an authority key identifier extension.
    pub(crate) fn authority_key_id(&self) -> Option<&'a [u8]> {
        let id = Reader::of_sequence(self.value)?.optional(der::CONTEXT)?;
        Some(id.content)
    }
}

/// An extension with this object identifier and the DER encoding of its value.
fn extension(arcs: &[u32], value: &[u8]) -> Vec<u8> {
    write::sequence(&[write::identifier(arcs), write::octets(value)])
}

/// A critical extension: a verifier that does not know it must reject the certificate.
fn critical(arcs: &[u32], value: &[u8]) -> Vec<u8> {
    write::sequence(&[
        write::identifier(arcs),
        write::boolean_true(),
        write::octets(value),
    ])
}

/// Key usages; the highest bit is the first usage, `digitalSignature`.
pub fn key_usage(bits: u16) -> Vec<u8> {
    critical(oid::KEY_USAGE, &write::flags(bits))
}

/// Extended key usages, by their object identifiers.
pub fn extended_key_usage(usages: &[&[u32]]) -> Vec<u8> {
    let usages: Vec<Vec<u8>> = usages.iter().map(|arcs| write::identifier(arcs)).collect();
    extension(oid::EXTENDED_KEY_USAGE, &write::sequence(&usages))
}

/// The constraints of a certificate that may not sign others.
pub fn not_a_ca() -> Vec<u8> {
    critical(oid::BASIC_CONSTRAINTS, &write::sequence(&[]))
}

/// The constraints of a CA that signs certificates, but no other CAs.
pub fn ca_without_intermediates() -> Vec<u8> {
    let constraints = write::sequence(&[write::boolean_true(), write::integer(&[0])]);
    critical(oid::BASIC_CONSTRAINTS, &constraints)
}

pub fn subject_key_id(id: &[u8]) -> Vec<u8> {
    extension(oid::SUBJECT_KEY_ID, &write::octets(id))
}

pub fn authority_key_id(id: &[u8]) -> Vec<u8> {
    extension(
        oid::AUTHORITY_KEY_ID,
        &write::sequence(&[write::plain_field(0, id)]),
    )
}

pub fn subject_alt_names(names: &[GeneralName]) -> Vec<u8> {
    let names: Vec<Vec<u8>> = names.iter().map(general_name).collect();
    extension(oid::SUBJECT_ALT_NAME, &write::sequence(&names))
}

fn general_name(name: &GeneralName) -> Vec<u8> {
    match name {
        GeneralName::Email(email) => write::plain_field(EMAIL, email.as_bytes()),
        GeneralName::Dns(name) => write::plain_field(DNS, name.as_bytes()),
        GeneralName::Uri(uri) => write::plain_field(URI, uri.as_bytes()),
        GeneralName::Address(address) => write::plain_field(ADDRESS, address),
    }
}
