//! Encodes a tree as a message, by its shape, byte for byte as kube-apiserver does.
//!
//! Fields are sorted by number and map entries by key. A plain field is always written, even if it is zero or an empty
//! message; a pointer field only if it is set; lists and maps write their elements. The buffer is filled from its end, so
//! everything here is written backwards.
//!
//! The tree conforms to its shape: it comes from strict decoding or from the store. A value of a wrong type counts as
//! unset.

mod value;

use setpoint_schema::{Cardinality, Field, FieldType, Map, Shape, Tree};

use super::envelope::{MAGIC, TRAILER};
use super::reverse_buffer::ReverseBuffer;
use crate::json;

/// No type has more members than this; a test of the pack checks it.
const MAX_MEMBERS: usize = 128;

/// The bare message of an object, without its envelope: an item of a list, and the form cached with a stored object.
pub fn encode(shape: &Shape, tree: &Tree) -> Vec<u8> {
    let mut buffer = ReverseBuffer::new();
    message(&mut buffer, shape, tree);
    buffer.into_vec()
}

/// The bare message of an object in JSON.
pub fn encode_json(shape: &Shape, json: &[u8]) -> Result<Vec<u8>, json::Error> {
    json::parse(json).map(|tree| encode(shape, &tree))
}

/// An object in its envelope, with the tree's `kind` and `apiVersion`.
pub fn encode_object(shape: &Shape, tree: &Tree) -> Vec<u8> {
    let mut buffer = ReverseBuffer::new();
    buffer.put(&TRAILER);
    let mark = buffer.mark();
    message(&mut buffer, shape, tree);
    buffer.close(2, mark);
    let mark = buffer.mark();
    buffer.delimited(2, tree.str_at(&["kind"]).unwrap_or_default().as_bytes());
    buffer.delimited(1, tree.str_at(&["apiVersion"]).unwrap_or_default().as_bytes());
    buffer.close(1, mark);
    buffer.put(MAGIC);
    buffer.into_vec()
}

/// A map of the tree, with the position of each member of its shape.
struct MapMembers<'a> {
    map: &'a Map,
    /// For each member the position of its pair, counted from 1, or 0 if it is absent.
    positions: [u16; MAX_MEMBERS],
}

impl<'a> MapMembers<'a> {
    fn new(shape: &Shape, map: &'a Map) -> Self {
        let mut positions = [0; MAX_MEMBERS];
        let mut next = 0;
        for (at, key) in map.keys().enumerate() {
            if let Some(member) = shape.position(key, next) {
                positions[member] = at as u16 + 1;
                next = member + 1;
            }
        }
        MapMembers { map, positions }
    }

    fn value(&self, member: usize) -> &'a Tree {
        let position = usize::from(self.positions[member]).checked_sub(1);
        position.map_or(&Tree::Null, |position| &self.map.pairs()[position].1)
    }
}

fn message(buffer: &mut ReverseBuffer, shape: &Shape, tree: &Tree) {
    static EMPTY: std::sync::LazyLock<Map> = std::sync::LazyLock::new(Map::default);
    let map = tree.as_map().unwrap_or(&EMPTY);
    fields(buffer, shape, &MapMembers::new(shape, map), 0);
}

/// Writes the fields of a shape whose members begin at `base` among those of the map. The fields of an inlined message
/// are in the same map.
fn fields(buffer: &mut ReverseBuffer, shape: &Shape, source: &MapMembers<'_>, base: usize) {
    for slot in shape.proto_fields().iter().rev() {
        let field = shape.declared_field(*slot);
        let member = base + usize::from(slot.member);
        match field.shape() {
            Some(inner) if field.inline => {
                let mark = buffer.mark();
                fields(buffer, inner, source, member);
                buffer.close(slot.number, mark);
            }
            _ => write(buffer, slot.number, field, source.value(member)),
        }
    }
}

fn write(buffer: &mut ReverseBuffer, number: u32, field: &Field, value: &Tree) {
    match (field.cardinality, value) {
        (Cardinality::One, Tree::Null) if field.ptr || matches!(field.value_type, FieldType::Bytes) => {}
        (Cardinality::One, value) => value::write(buffer, number, &field.value_type, value),
        (Cardinality::List, Tree::List(items)) => {
            for item in items.iter().rev() {
                value::write(buffer, number, &field.value_type, item);
            }
        }
        (Cardinality::Map, Tree::Map(map)) => entries(buffer, number, &field.value_type, map),
        (Cardinality::List | Cardinality::Map, _) => {}
    }
}

/// The entries of a map, sorted by key: each a message of key and value.
fn entries(buffer: &mut ReverseBuffer, number: u32, of: &FieldType, map: &Map) {
    let pairs = map.pairs();
    if pairs.is_sorted_by(|left, right| left.0 < right.0) {
        let pairs = pairs.iter().rev();
        return pairs.for_each(|(key, value)| entry(buffer, number, of, (key.as_str(), value)));
    }
    let mut pairs: Vec<_> = map.iter().collect();
    pairs.sort_by(|left, right| right.0.cmp(left.0));
    for pair in pairs {
        entry(buffer, number, of, pair);
    }
}

fn entry(buffer: &mut ReverseBuffer, number: u32, of: &FieldType, (key, value): (&str, &Tree)) {
    let mark = buffer.mark();
    value::write(buffer, 2, of, value);
    buffer.delimited(1, key.as_bytes());
    buffer.close(number, mark);
}
