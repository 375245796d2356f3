//! Patch metadata of a shape (upstream: `PatchMeta`): the patch strategy and merge key of a field, and the kind of its value.

use super::super::error::Error;
use crate::shape::{Cardinality, Field, FieldType, Shape};

/// What is being patched: a struct whose fields have patch metadata, or something without.
#[derive(Clone, Copy)]
pub(super) enum ValueKind<'a> {
    /// An object of declared fields.
    Struct(&'a Shape),
    /// A struct whose JSON is not the object of its fields, by name: it has no patch metadata.
    Opaque(&'a str),
    /// Anything else, by its Go kind. Its values are replaced, never merged.
    Plain(&'static str),
}

/// The patch metadata of a field.
pub(super) struct PatchMeta<'a> {
    pub(super) strategy: PatchStrategy,
    /// The patch merge key of list elements.
    pub(super) merge_key: Option<&'a str>,
    /// The kind of the value, or of each element of a list.
    pub(super) kind: ValueKind<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PatchStrategy {
    /// Maps are merged, lists are replaced.
    Unspecified,
    Merge,
    Replace,
}

impl<'a> ValueKind<'a> {
    /// The patch metadata of a map under a key.
    pub(super) fn map_patch_meta(self, key: &str) -> Result<PatchMeta<'a>, Error> {
        let field = self.field(key)?;
        Ok(PatchMeta::of(field, kind(field)))
    }

    /// The patch metadata of a list under a key.
    pub(super) fn list_patch_meta(self, key: &str) -> Result<PatchMeta<'a>, Error> {
        let field = self.field(key)?;
        match (field.cardinality, element(field)) {
            (Cardinality::List, ValueKind::Struct(shape)) if shape.wrap || field.wrap => {
                Err(Error::unmergeable("unexpected slice of slice"))
            }
            (Cardinality::List, kind) => Ok(PatchMeta::of(field, kind)),
            _ => Err(Error::unmergeable(
                "expected slice or array type, but got: struct",
            )),
        }
    }

    fn field(self, key: &str) -> Result<&'a Field, Error> {
        let (name, field) = match self {
            ValueKind::Struct(shape) => (shape.type_name(), shape.member(key)),
            ValueKind::Opaque(name) => (name, None),
            ValueKind::Plain(kind) => {
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

impl<'a> PatchMeta<'a> {
    fn of(field: &'a Field, kind: ValueKind<'a>) -> Self {
        // A field may have `merge,retainKeys`; the latter only makes clients send that directive.
        let strategy = match field
            .patch_strategy()
            .and_then(|strategies| strategies.split(',').find(|name| *name != "retainKeys"))
        {
            Some("merge") => PatchStrategy::Merge,
            Some("replace") => PatchStrategy::Replace,
            _ => PatchStrategy::Unspecified,
        };
        PatchMeta {
            strategy,
            merge_key: field.merge_key(),
            kind,
        }
    }
}

fn kind(field: &Field) -> ValueKind<'_> {
    match field.cardinality {
        Cardinality::One => element(field),
        Cardinality::Map => ValueKind::Plain("map"),
        Cardinality::List => ValueKind::Plain("slice"),
    }
}

fn element(field: &Field) -> ValueKind<'_> {
    match &field.value_type {
        FieldType::Shape(reference) => ValueKind::Struct(reference.shape()),
        FieldType::RawJson => ValueKind::Opaque(raw_name(field)),
        FieldType::SchemaOrBool(_) => ValueKind::Opaque("JSONSchemaPropsOrBool"),
        FieldType::SchemaOrArray(_) => ValueKind::Opaque("JSONSchemaPropsOrArray"),
        FieldType::SchemaOrStrings(_) => ValueKind::Opaque("JSONSchemaPropsOrStringArray"),
        FieldType::Bytes => ValueKind::Plain("slice"),
        _ => ValueKind::Plain("string"),
    }
}

fn raw_name(field: &Field) -> &str {
    let raw = field
        .rules
        .as_ref()
        .and_then(|rules| rules.raw_type.as_deref())
        .unwrap_or("RawExtension");
    raw.rsplit('.').next().unwrap_or(raw)
}
