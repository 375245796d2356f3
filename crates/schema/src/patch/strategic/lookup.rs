//! What the shape says about patching: which values are merged, how, and of what kind they are.

use super::super::error::Error;
use crate::shape::{Card, Field, Of, Shape};

/// The kind of the map the merge is in.
#[derive(Clone, Copy)]
pub(super) enum Kind<'a> {
    /// An object of known fields.
    Struct(&'a Shape),
    /// A struct whose JSON is not made of its fields, by name: nothing in it can be looked up.
    Opaque(&'a str),
    /// Anything else, by the reference server's word for it. Its values are replaced, never merged.
    Plain(&'static str),
}

/// How a field is patched.
pub(super) struct Rule<'a> {
    pub(super) strategy: Strategy,
    /// The key that list elements are matched by.
    pub(super) merge_key: Option<&'a str>,
    /// The kind of the value, or of each element of a list.
    pub(super) kind: Kind<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Strategy {
    /// Maps are merged, lists are replaced.
    Unsaid,
    Merge,
    Replace,
}

impl<'a> Kind<'a> {
    /// How a map under a key is patched.
    pub(super) fn map_rule(self, key: &str) -> Result<Rule<'a>, Error> {
        let field = self.field(key)?;
        Ok(Rule::of(field, kind(field)))
    }

    /// How a list under a key is patched.
    pub(super) fn list_rule(self, key: &str) -> Result<Rule<'a>, Error> {
        let field = self.field(key)?;
        match (field.card, element(field)) {
            (Card::List, Kind::Struct(shape)) if shape.wrap || field.wrap => {
                Err(Error::unmergeable("unexpected slice of slice"))
            }
            (Card::List, kind) => Ok(Rule::of(field, kind)),
            _ => Err(Error::unmergeable(
                "expected slice or array type, but got: struct",
            )),
        }
    }

    fn field(self, key: &str) -> Result<&'a Field, Error> {
        let (name, field) = match self {
            Kind::Struct(shape) => (shape.type_name(), shape.member(key)),
            Kind::Opaque(name) => (name, None),
            Kind::Plain(kind) => {
                return Err(Error::unmergeable(format!(
                    "merging an object in json but data type is not struct, instead is: {kind}"
                )));
            }
        };
        field.ok_or_else(|| {
            Error::unmergeable(format!(
                "unable to find api field in struct {name} for the json field {key:?}"
            ))
        })
    }
}

impl<'a> Rule<'a> {
    fn of(field: &'a Field, kind: Kind<'a>) -> Self {
        // A field may say `merge,retainKeys`; the latter only tells clients to send that directive.
        let strategy = match field
            .patch()
            .and_then(|said| said.split(',').find(|said| *said != "retainKeys"))
        {
            Some("merge") => Strategy::Merge,
            Some("replace") => Strategy::Replace,
            _ => Strategy::Unsaid,
        };
        Rule {
            strategy,
            merge_key: field.merge_key(),
            kind,
        }
    }
}

fn kind(field: &Field) -> Kind<'_> {
    match field.card {
        Card::One => element(field),
        Card::Map => Kind::Plain("map"),
        Card::List => Kind::Plain("slice"),
    }
}

fn element(field: &Field) -> Kind<'_> {
    match &field.of {
        Of::Shape(link) => Kind::Struct(link.shape()),
        Of::RawJson => Kind::Opaque(raw_name(field)),
        Of::SchemaOrBool(_) => Kind::Opaque("JSONSchemaPropsOrBool"),
        Of::SchemaOrArray(_) => Kind::Opaque("JSONSchemaPropsOrArray"),
        Of::SchemaOrStrings(_) => Kind::Opaque("JSONSchemaPropsOrStringArray"),
        Of::Bytes => Kind::Plain("slice"),
        _ => Kind::Plain("string"),
    }
}

fn raw_name(field: &Field) -> &str {
    let raw = field
        .rules
        .as_ref()
        .and_then(|rules| rules.raw.as_deref())
        .unwrap_or("RawExtension");
    raw.rsplit('.').next().unwrap_or(raw)
}
