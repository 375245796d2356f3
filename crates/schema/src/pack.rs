//! The schema pack: what is known of every built-in type, in one committed file.
//!
//! `builtin.pack` holds interface facts only and is made by `cargo xtask pack`; the same source gives the same bytes.
//! Opening it reads the strings and the tables of where things are; a type is read when it is first asked for.
//!
//! # Format
//!
//! All numbers are unsigned LEB128. A *text* is a number: the place of a string in the string table, counted from 1,
//! where 0 means absent. A *tree* is a tag byte and its content (see `read::Reader::tree`).
//!
//! | part | content |
//! | --- | --- |
//! | magic | the five bytes `SPPK` and 1, the format's version |
//! | strings | count, then for each: length, UTF-8 bytes |
//! | release | text |
//! | group versions | count, then for each: text `group/version`, text package, 1 if served without flags |
//! | enums | count, then for each: text name, count, texts of the values |
//! | kinds | count, then for each, sorted by group, version and kind: three texts, type number |
//! | types | count, then for each the byte length of its record, then the records in the same order |
//!
//! A type record is: text id, flags (1 any group, 2 type meta, 4 wrap, 8 a kind), texts openapi and proto, the kind's
//! three texts if flagged, special (0 none, else its place in [`SPECIALS`] from 1), map type (0 none, 1 atomic,
//! 2 granular), tree of unions, count of fields, fields.
//!
//! A field is: text name, number (0 absent), flags (1 list, 2 map, 4 inline, 8 wrap, 16 ptr, 32 required, 64 has
//! rules), type (its place in [`SCALARS`], or the count of those plus a type number; the three kinds of schema are
//! followed by the schema's type number), tree zero, tree default, list type (0 none, 1 atomic, 2 set, 3 map), count
//! and texts of list keys, map type; with rules: seven texts (raw, patch, merge key, enum, gate, one of, named), count
//! and texts of checks. A tree that is absent is tag 0.

mod read;

use std::sync::OnceLock;

use crate::shape::{Shape, Special};

/// The first bytes of every pack.
pub const MAGIC: &[u8; 5] = b"SPPK\x01";

/// The names of the types that are no shapes, in the order the pack numbers them.
pub const SCALARS: [&str; 15] = [
    "string",
    "bool",
    "int32",
    "int64",
    "double",
    "bytes",
    "time",
    "microtime",
    "duration",
    "quantity",
    "intorstring",
    "rawjson",
    "schemaorbool",
    "schemaorarray",
    "schemaorstrings",
];

/// The special types, by name, in the order the pack numbers them.
pub const SPECIALS: [(&str, Special); 10] = [
    ("time", Special::Time),
    ("microtime", Special::MicroTime),
    ("timestamp", Special::Timestamp),
    ("duration", Special::Duration),
    ("quantity", Special::Quantity),
    ("intorstring", Special::IntOrString),
    ("rawjson", Special::RawJson),
    ("schemaorbool", Special::SchemaOrBool),
    ("schemaorarray", Special::SchemaOrArray),
    ("schemaorstrings", Special::SchemaOrStrings),
];

static BUILTIN: &[u8] = include_bytes!("builtin.pack");

/// A type of the pack, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub(crate) u16);

/// The shapes of all built-in types.
#[derive(Debug)]
pub struct Pack {
    strings: Vec<&'static str>,
    /// The release the facts are taken from, such as `v1.37.0`.
    pub release: &'static str,
    group_versions: Vec<GroupVersion>,
    enums: Vec<(&'static str, Vec<&'static str>)>,
    /// Sorted by group, version and kind.
    kinds: Vec<([&'static str; 3], TypeId)>,
    records: Vec<&'static [u8]>,
    shapes: Vec<OnceLock<Shape>>,
}

/// A published group and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupVersion {
    /// `group/version`, or the version alone for the core group.
    pub name: &'static str,
    /// The common start of the ids of its types.
    pub package: &'static str,
    /// Whether it is served without flags.
    pub on: bool,
}

impl Pack {
    /// The pack that is built in.
    pub fn builtin() -> &'static Pack {
        static PACK: OnceLock<Pack> = OnceLock::new();
        PACK.get_or_init(|| read::open(BUILTIN))
    }

    /// The shape of a kind.
    pub fn shape_of(&self, group: &str, version: &str, kind: &str) -> Option<&Shape> {
        self.id_of(group, version, kind).map(|id| self.shape(id))
    }

    /// The type of a kind.
    pub fn id_of(&self, group: &str, version: &str, kind: &str) -> Option<TypeId> {
        let found = self
            .kinds
            .binary_search_by(|(gvk, _)| gvk.cmp(&[group, version, kind]));
        found.ok().map(|at| self.kinds[at].1)
    }

    /// A type, read from the pack when first asked for.
    pub fn shape(&self, id: TypeId) -> &Shape {
        let at = usize::from(id.0);
        self.shapes[at].get_or_init(|| read::shape(&self.strings, self.records[at]))
    }

    /// A type by its name, such as `apimachinery.pkg.apis.meta.v1.ObjectMeta`. Reads until it is found: for tools.
    pub fn find_shape(&self, name: &str) -> Option<&Shape> {
        self.shapes().find(|shape| shape.id == name)
    }

    /// Every type.
    pub fn shapes(&self) -> impl Iterator<Item = &Shape> {
        (0..self.records.len() as u16).map(|at| self.shape(TypeId(at)))
    }

    /// Every kind as group, version and kind, in that order.
    pub fn kinds(&self) -> impl Iterator<Item = ([&'static str; 3], TypeId)> {
        self.kinds.iter().copied()
    }

    /// Whether any type of that group, version and kind is known.
    pub fn knows(&self, group: &str, version: &str, kind: &str) -> bool {
        self.id_of(group, version, kind).is_some()
    }

    /// Every published group and version.
    pub fn group_versions(&self) -> &[GroupVersion] {
        &self.group_versions
    }

    /// Every enum and its values in source order.
    pub fn enums(&self) -> impl Iterator<Item = (&'static str, &[&'static str])> {
        self.enums.iter().map(|(name, values)| (*name, values.as_slice()))
    }

    /// The values of an enum.
    pub fn enum_values(&self, name: &str) -> Option<&[&'static str]> {
        self.enums()
            .find(|(known, _)| *known == name)
            .map(|(_, values)| values)
    }
}

#[cfg(test)]
mod tests;
