//! Canonical JSON of an object: what the server stores and sends.
//!
//! Keys are in declaration order, `kind` and `apiVersion` first; map keys are sorted; an unset field is written as its
//! shape's `zero`, which mostly omits it; zero values of non-pointer fields are omitted. Raw JSON keeps its own order. No
//! spaces, no line break at the end. Custom objects have all keys sorted instead, as the reference server writes objects
//! without a Go type.

mod members;
mod text;

use crate::shape::{Cardinality, Field, FieldType, Shape};
use crate::time::{self, Precision};
use crate::tree::{Map, Tree};
pub(crate) use members::{MemberValues, next_by_name};

#[cfg(test)]
pub(crate) use members::MAX_MEMBERS;
pub(crate) use text::write_escaped;
pub use text::{write_number, write_string};

const OBJECT_META: &str = "apimachinery.pkg.apis.meta.v1.ObjectMeta";
const RESOURCE_VERSION: &str = "resourceVersion";
const MANAGED_FIELDS: &str = "managedFields";

/// The index of the first member after `kind` and `apiVersion`.
const FIRST_OF_BODY: usize = 2;

/// Initial capacity, enough for most objects without reallocation.
const INITIAL_CAPACITY_BYTES: usize = 8 << 10;

/// An object in canonical JSON, with the byte offsets that the registry needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CanonicalJson {
    pub bytes: Vec<u8>,
    /// Where the digits of `metadata.resourceVersion` are inserted: between the quotes of the empty string written there.
    /// `None` if the shape has no object metadata.
    pub resource_version_offset: Option<u32>,
    /// The offset after `kind` and `apiVersion`: `{` and the bytes from here on are the object without them.
    pub body_offset: u32,
    /// The length of the JSON, if `bytes` have it compressed.
    pub uncompressed_bytes: Option<usize>,
}

impl CanonicalJson {
    /// The length of the JSON, compressed or not.
    pub fn json_bytes(&self) -> usize {
        self.uncompressed_bytes.unwrap_or(self.bytes.len())
    }
}

/// How an empty list or map is written where its field is always written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EmptyCollections {
    #[default]
    Keep,
    /// As null. The reference server stores most kinds as protobuf, which does not distinguish empty from absent.
    AsNull,
}

/// Writes an object to be stored. The tree's resourceVersion is written as an empty string, to be filled in at
/// [`CanonicalJson::resource_version_offset`].
pub fn write(shape: &Shape, tree: &Tree, empty: EmptyCollections) -> CanonicalJson {
    write_stored(shape, tree, empty, None)
}

/// As [`write()`], for an object whose managed fields are not in the tree: they are JSON already
/// ([`crate::apply::managed_fields_of_new`]).
pub fn write_with_managed_fields(
    shape: &Shape,
    tree: &Tree,
    empty: EmptyCollections,
    managed_fields: &[u8],
) -> CanonicalJson {
    write_stored(shape, tree, empty, Some(managed_fields))
}

fn write_stored(
    shape: &Shape,
    tree: &Tree,
    empty: EmptyCollections,
    managed_fields: Option<&[u8]>,
) -> CanonicalJson {
    let mut writer = Writer {
        out: Vec::with_capacity(INITIAL_CAPACITY_BYTES),
        top: true,
        empty,
        managed_fields,
        ..Writer::default()
    };
    writer.shape(shape, tree);
    CanonicalJson {
        resource_version_offset: writer.resource_version_offset.map(offset),
        body_offset: offset(writer.body_offset),
        bytes: writer.out,
        uncompressed_bytes: None,
    }
}

/// Writes an object with its resourceVersion.
pub fn write_into(shape: &Shape, tree: &Tree, out: &mut Vec<u8>) {
    let mut writer = Writer {
        out: std::mem::take(out),
        ..Writer::default()
    };
    writer.shape(shape, tree);
    *out = writer.out;
}

/// Writes one member of an object, `"name":value`, as it is in the canonical JSON of that object. The member must be set.
pub fn write_member(member: &Field, value: &Tree, out: &mut Vec<u8>) {
    let mut writer = Writer::default();
    let mut key = Vec::new();
    write_string(&member.name, &mut key);
    key.push(b':');
    writer.member((&key, member), value, 0);
    out.append(&mut writer.out);
}

/// Writes a custom object to be stored, with all keys sorted. `head` is the shape of its type and object metadata, the
/// only fields that have one. List items keep `kind` and `apiVersion`.
pub fn write_sorted(head: &Shape, tree: &Tree) -> CanonicalJson {
    let mut writer = Writer {
        out: Vec::with_capacity(INITIAL_CAPACITY_BYTES),
        top: true,
        sorted: true,
        ..Writer::default()
    };
    writer.custom_object(head, tree);
    CanonicalJson {
        resource_version_offset: writer.resource_version_offset.map(offset),
        body_offset: 1,
        bytes: writer.out,
        uncompressed_bytes: None,
    }
}

/// Writes a custom object with its resourceVersion, with all keys sorted.
pub fn write_sorted_into(head: &Shape, tree: &Tree, out: &mut Vec<u8>) {
    let mut writer = Writer {
        out: std::mem::take(out),
        sorted: true,
        ..Writer::default()
    };
    writer.custom_object(head, tree);
    *out = writer.out;
}

/// Writes a tree without a shape: keys in their order.
pub fn write_tree(tree: &Tree, out: &mut Vec<u8>) {
    match tree {
        Tree::Null => out.extend_from_slice(b"null"),
        Tree::Bool(true) => out.extend_from_slice(b"true"),
        Tree::Bool(false) => out.extend_from_slice(b"false"),
        Tree::Int(number) => text::write_integer(*number, out),
        Tree::Float(number) => write_number(*number, out),
        Tree::Str(text) => write_string(text, out),
        Tree::List(items) => write_separated(b"[]", out, items, |out, item| write_tree(item, out)),
        Tree::Map(map) => write_separated(b"{}", out, map.pairs(), |out, (key, value)| {
            write_string(key, out);
            out.push(b':');
            write_tree(value, out);
        }),
    }
}

/// Writes a tree without a shape, with all keys sorted.
fn write_tree_sorted(tree: &Tree, out: &mut Vec<u8>) {
    match tree {
        Tree::List(items) => write_separated(b"[]", out, items, |out, item| write_tree_sorted(item, out)),
        Tree::Map(map) => write_separated(b"{}", out, &sorted_pairs(map), |out, (key, value)| {
            write_string(key, out);
            out.push(b':');
            write_tree_sorted(value, out);
        }),
        scalar => write_tree(scalar, out),
    }
}

fn sorted_pairs(map: &Map) -> Vec<(&str, &Tree)> {
    let mut pairs: Vec<_> = map.iter().collect();
    if !pairs.is_sorted_by(|left, right| left.0 < right.0) {
        pairs.sort_by(|left, right| left.0.cmp(right.0));
    }
    pairs
}

fn write_separated<T>(
    brackets: &[u8; 2],
    out: &mut Vec<u8>,
    items: &[T],
    mut write: impl FnMut(&mut Vec<u8>, &T),
) {
    out.push(brackets[0]);
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(brackets[1]);
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).expect("an object is far below four gigabytes")
}

#[derive(Default)]
struct Writer<'a> {
    out: Vec<u8>,
    resource_version_offset: Option<usize>,
    body_offset: usize,
    /// The next JSON object is the root, and it is to be stored.
    top: bool,
    /// The next JSON object is the root's metadata.
    in_root_metadata: bool,
    empty: EmptyCollections,
    /// All keys are sorted, those of shapes and of raw JSON too.
    sorted: bool,
    /// The managed fields of the root, if the tree does not have them.
    managed_fields: Option<&'a [u8]>,
}

impl Writer<'_> {
    fn shape(&mut self, shape: &Shape, tree: &Tree) {
        match tree {
            Tree::Map(map) => self.object(shape, map),
            other => self.raw(other),
        }
    }

    /// Writes the root of a custom object: only the fields of `head` have a shape.
    fn custom_object(&mut self, head: &Shape, tree: &Tree) {
        let top = std::mem::take(&mut self.top);
        self.out.push(b'{');
        let start = self.out.len();
        for (key, value) in tree.as_map().map(sorted_pairs).unwrap_or_default() {
            match head.position(key, 0) {
                Some(at) => {
                    let member = &head.members()[at];
                    self.in_root_metadata = top && is_object_metadata(member);
                    self.member((head.member_key(at), member), value, start);
                }
                None => {
                    self.map_key(key, start);
                    self.raw(value);
                }
            }
        }
        self.out.push(b'}');
    }

    /// Writes a value without a shape.
    fn raw(&mut self, tree: &Tree) {
        match self.sorted {
            true => write_tree_sorted(tree, &mut self.out),
            false => write_tree(tree, &mut self.out),
        }
    }

    fn object(&mut self, shape: &Shape, map: &Map) {
        let top = std::mem::take(&mut self.top);
        let in_root_metadata = std::mem::take(&mut self.in_root_metadata);
        let mut values = MemberValues::of(shape, map);
        if in_root_metadata {
            values.visit(shape.position(RESOURCE_VERSION, 0));
            values.visit(shape.position(MANAGED_FIELDS, 0));
        }
        if top && shape.type_meta && shape.members().len() > FIRST_OF_BODY {
            values.visit(Some(FIRST_OF_BODY));
        }
        self.out.push(b'{');
        let start = self.out.len();
        if self.sorted {
            for (at, _) in shape.members_by_name().filter(|(at, _)| values.has(*at)) {
                self.object_member((shape, at), values.at(at), start, in_root_metadata);
            }
        } else {
            while let Some(at) = values.next_index() {
                if top {
                    if shape.type_meta && at == FIRST_OF_BODY {
                        self.mark_body(start);
                    }
                    self.in_root_metadata = is_object_metadata(&shape.members()[at]);
                }
                self.object_member((shape, at), values.at(at), start, in_root_metadata);
            }
        }
        if top {
            self.body_offset = self.body_offset.clamp(start, self.out.len());
        }
        self.out.push(b'}');
    }

    fn object_member(
        &mut self,
        (shape, at): (&Shape, usize),
        value: &Tree,
        start: usize,
        in_root_metadata: bool,
    ) {
        let (key, member) = (shape.member_key(at), &shape.members()[at]);
        if in_root_metadata {
            match (member.name.as_str(), self.managed_fields) {
                (RESOURCE_VERSION, _) => return self.open_resource_version(key, start),
                (MANAGED_FIELDS, Some(json)) => {
                    self.key(key, start);
                    return self.out.extend_from_slice(json);
                }
                _ => {}
            }
        }
        self.member((key, member), value, start);
    }

    /// Records where the body begins; the comma that the next member writes first is counted in.
    fn mark_body(&mut self, start: usize) {
        self.body_offset = if self.out.len() > start {
            self.out.len() + 1
        } else {
            start
        };
    }

    fn open_resource_version(&mut self, key: &[u8], start: usize) {
        self.key(key, start);
        self.out.extend_from_slice(b"\"\"");
        self.resource_version_offset = Some(self.out.len() - 1);
    }

    fn member(&mut self, (key, member): (&[u8], &Field), value: &Tree, start: usize) {
        if is_set(member, value) && !self.is_dropped_empty(member, value) {
            self.key(key, start);
            return self.field(member, value);
        }
        let Some(zero) = &member.zero else {
            return self.write_unset_metadata((key, member), start);
        };
        self.key(key, start);
        match (member.shape(), zero) {
            (Some(shape), Tree::Map(empty)) if member.cardinality == Cardinality::One => {
                self.object(shape, empty)
            }
            _ => self.raw(zero),
        }
    }

    fn is_dropped_empty(&self, member: &Field, value: &Tree) -> bool {
        let empty = match value {
            Tree::List(items) => items.is_empty(),
            Tree::Map(map) => map.is_empty() && member.cardinality == Cardinality::Map,
            _ => false,
        };
        empty && self.empty == EmptyCollections::AsNull && matches!(member.zero, Some(Tree::Null))
    }

    /// Unset metadata is still written with its empty resourceVersion if the object is to be stored.
    fn write_unset_metadata(&mut self, (key, member): (&[u8], &Field), start: usize) {
        if self.in_root_metadata {
            self.key(key, start);
            self.object(member.shape().expect("metadata has a shape"), &Map::default());
        }
    }

    /// Writes the key of a member, `"name":`.
    fn key(&mut self, key: &[u8], start: usize) {
        if self.out.len() > start {
            self.out.push(b',');
        }
        self.out.extend_from_slice(key);
    }

    /// Writes a key of a map.
    fn map_key(&mut self, name: &str, start: usize) {
        if self.out.len() > start {
            self.out.push(b',');
        }
        write_string(name, &mut self.out);
        self.out.push(b':');
    }

    fn field(&mut self, field: &Field, value: &Tree) {
        match (field.cardinality, value) {
            (Cardinality::One, value) => self.value(&field.value_type, value),
            (Cardinality::List, Tree::List(items)) => self.list(&field.value_type, items),
            (Cardinality::Map, Tree::Map(map)) => self.map(&field.value_type, map),
            (_, other) => self.raw(other),
        }
    }

    fn list(&mut self, field_type: &FieldType, items: &[Tree]) {
        self.out.push(b'[');
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            self.value(field_type, item);
        }
        self.out.push(b']');
    }

    fn map(&mut self, field_type: &FieldType, map: &Map) {
        self.out.push(b'{');
        let start = self.out.len();
        for (key, value) in sorted_pairs(map) {
            self.map_key(key, start);
            self.value(field_type, value);
        }
        self.out.push(b'}');
    }

    fn value(&mut self, field_type: &FieldType, value: &Tree) {
        match (field_type, value) {
            (FieldType::Shape(reference), Tree::Map(map)) => self.object(reference.shape(), map),
            (FieldType::Time, Tree::Str(text)) => self.time(text, Precision::Seconds),
            (FieldType::MicroTime, Tree::Str(text)) => self.time(text, Precision::Micros),
            (
                FieldType::SchemaOrBool(reference)
                | FieldType::SchemaOrArray(reference)
                | FieldType::SchemaOrStrings(reference),
                Tree::Map(map),
            ) => {
                self.object(reference.shape(), map);
            }
            (FieldType::SchemaOrArray(reference), Tree::List(items)) => {
                self.list(&FieldType::Shape(reference.clone()), items)
            }
            (_, other) => self.raw(other),
        }
    }

    /// A string that is not a time is written unchanged: rejecting it is pruning's job.
    fn time(&mut self, text: &str, precision: Precision) {
        match time::normalize(text, precision) {
            Ok(Some(form)) => write_string(&form, &mut self.out),
            _ => write_string(text, &mut self.out),
        }
    }
}

/// Whether a member of the root is its object metadata.
fn is_object_metadata(member: &Field) -> bool {
    member.name == "metadata" && member.shape().is_some_and(|meta| meta.id == OBJECT_META)
}

/// The value of a member in canonical JSON: its own, or the field's `zero` if it is unset.
pub fn canonical_value<'a>(field: &'a Field, value: Option<&'a Tree>) -> Option<&'a Tree> {
    value.filter(|value| is_set(field, value)).or(field.zero.as_ref())
}

/// Whether a value is written. Null never is; a zero value is only for a pointer field or a field that is always
/// written.
pub(crate) fn is_set(field: &Field, value: &Tree) -> bool {
    match value {
        Tree::Null => false,
        _ if field.ptr || field.zero.is_some() => true,
        Tree::Bool(value) => *value,
        Tree::Int(number) => {
            *number != 0 || matches!(field.value_type, FieldType::IntOrString | FieldType::RawJson)
        }
        Tree::Float(number) => *number != 0.0,
        Tree::Str(text) => !text.is_empty(),
        Tree::List(items) => !items.is_empty(),
        Tree::Map(map) => !map.is_empty(),
    }
}

#[cfg(test)]
mod tests;
