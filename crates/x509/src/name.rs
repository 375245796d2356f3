//! [`Name`]: the subject or the issuer of a certificate.

use std::fmt;

use crate::der::{self, Element, Reader, write};
use crate::oid;

/// The attributes that are printed, by their names in RFC 4514.
const PRINTED: [(&[u32], &str); 6] = [
    (oid::COMMON_NAME, "CN"),
    (oid::ORGANIZATION, "O"),
    (oid::ORGANIZATIONAL_UNIT, "OU"),
    (oid::COUNTRY, "C"),
    (oid::LOCALITY, "L"),
    (oid::STATE, "ST"),
];

/// A distinguished name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name<'a> {
    /// The DER encoding.
    pub raw: &'a [u8],
}

/// One attribute of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute<'a> {
    kind: Element<'a>,
    value: Element<'a>,
}

// === impl Name ===

impl<'a> Name<'a> {
    pub(crate) fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let element = reader.element(der::SEQUENCE)?;
        let name = Self { raw: element.raw };
        // Every attribute is read once, so that a malformed one is found here.
        let mut sets = element.reader();
        while !sets.is_empty() {
            let mut set = sets.element(der::SET)?.reader();
            while !set.is_empty() {
                Attribute::read(&mut set)?;
            }
        }
        Some(name)
    }

    /// The attributes in their order.
    pub fn attributes(&self) -> impl Iterator<Item = Attribute<'a>> + use<'a> {
        let mut sets = Reader::of_sequence(self.raw).unwrap_or(Reader::new(&[]));
        let mut set = Reader::new(&[]);
        std::iter::from_fn(move || {
            if set.is_empty() {
                set = sets.any()?.reader();
            }
            Attribute::read(&mut set)
        })
    }

    /// The texts of the common names.
    pub fn common_names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.texts(oid::COMMON_NAME)
    }

    /// The texts of the organizations.
    pub fn organizations(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.texts(oid::ORGANIZATION)
    }

    /// The texts of the attributes with this object identifier.
    pub fn texts(&self, kind: &'static [u32]) -> impl Iterator<Item = &'a str> + use<'a> {
        self.attributes()
            .filter(move |attribute| attribute.is(kind))
            .filter_map(|attribute| attribute.text())
    }

    /// The DER encoding of a name with these attributes.
    pub fn encode(attributes: &[(&[u32], &str)]) -> Vec<u8> {
        let sets: Vec<Vec<u8>> = attributes
            .iter()
            .map(|(kind, text)| {
                write::set_of(&write::sequence(&[write::identifier(kind), write::utf8(text)]))
            })
            .collect();
        write::sequence(&sets)
    }
}

/// The attributes from last to first, as in RFC 4514: `CN=kubernetes-admin,O=system:masters`. Rare ones are left out.
impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attributes: Vec<Attribute<'_>> = self.attributes().collect();
        let printed: Vec<String> = attributes
            .iter()
            .rev()
            .filter_map(|attribute| {
                let (_, name) = PRINTED.iter().find(|(kind, _)| attribute.is(kind))?;
                Some(format!("{name}={}", attribute.text()?))
            })
            .collect();
        f.write_str(&printed.join(","))
    }
}

// === impl Attribute ===

impl<'a> Attribute<'a> {
    fn read(set: &mut Reader<'a>) -> Option<Self> {
        let mut pair = set.sequence()?;
        let kind = pair.element(der::OBJECT_IDENTIFIER)?;
        let value = pair.any()?;
        pair.is_empty().then_some(Self { kind, value })
    }

    /// Whether the attribute has this object identifier.
    pub fn is(&self, arcs: &[u32]) -> bool {
        self.kind.is_identifier(arcs)
    }

    /// The text, if the value is one.
    pub fn text(&self) -> Option<&'a str> {
        match self.value.tag {
            der::UTF8_STRING | der::PRINTABLE_STRING | der::TELETEX_STRING | der::IA5_STRING => {
                std::str::from_utf8(self.value.content).ok()
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_keep_their_order_and_repeat() {
        let encoded = Name::encode(&[
            (oid::ORGANIZATION, "a"),
            (oid::ORGANIZATION, "b"),
            (oid::COMMON_NAME, "c"),
        ]);
        let name = Name::read(&mut Reader::new(&encoded)).unwrap();
        assert_eq!(name.organizations().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(name.common_names().collect::<Vec<_>>(), ["c"]);
        assert_eq!(name.raw, encoded);
        assert_eq!(name.to_string(), "CN=c,O=b,O=a");
    }

    #[test]
    fn a_malformed_attribute_is_rejected() {
        let attribute = write::sequence(&[write::identifier(oid::COMMON_NAME)]);
        let encoded = write::sequence(&[write::set_of(&attribute)]);
        assert_eq!(Name::read(&mut Reader::new(&encoded)), None);
    }
}
