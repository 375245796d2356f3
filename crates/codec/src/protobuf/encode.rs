//! A tree to a message, by its shape, byte for byte as the reference server writes it.
//!
//! Fields stand by rising number and map entries by key. A plain field is always written, even when it is zero or an
//! empty message; a field that may be absent as such, only when it is set; lists and maps write their elements. As the
//! buffer is filled from its end, everything here goes backwards.
//!
//! The tree is of its shape: it comes from strict decoding or from the store. A value of a wrong type counts as unset.

mod value;

use setpoint_schema::{Card, Field, Map, Of, Shape, Tree};

use super::envelope::{FOOT, MAGIC};
use super::tail::Tail;
use crate::json;

/// No type has more members than this; a test of the pack holds it.
const MOST_MEMBERS: usize = 128;

/// The bare message of a document: what a list holds, and what is worth keeping beside an object.
pub fn encode(shape: &Shape, tree: &Tree) -> Vec<u8> {
    let mut tail = Tail::new();
    message(&mut tail, shape, tree);
    tail.into_vec()
}

/// The bare message of a document that is at hand as JSON.
pub fn encode_json(shape: &Shape, json: &[u8]) -> Result<Vec<u8>, json::Error> {
    json::parse(json).map(|tree| encode(shape, &tree))
}

/// A document in its envelope, with the kind and version the tree says it has.
pub fn encode_object(shape: &Shape, tree: &Tree) -> Vec<u8> {
    let mut tail = Tail::new();
    tail.put(&FOOT);
    let mark = tail.mark();
    message(&mut tail, shape, tree);
    tail.close(2, mark);
    let mark = tail.mark();
    tail.delimited(2, tree.str_at(&["kind"]).unwrap_or_default().as_bytes());
    tail.delimited(1, tree.str_at(&["apiVersion"]).unwrap_or_default().as_bytes());
    tail.close(1, mark);
    tail.put(MAGIC);
    tail.into_vec()
}

/// An object of the tree and where each member of its shape stands in it.
struct Source<'a> {
    map: &'a Map,
    /// For each member the place of its pair, counted from 1, or 0 if it has none.
    places: [u16; MOST_MEMBERS],
}

impl<'a> Source<'a> {
    fn new(shape: &Shape, map: &'a Map) -> Self {
        let mut places = [0; MOST_MEMBERS];
        let mut next = 0;
        for (at, key) in map.keys().enumerate() {
            if let Some(member) = shape.position(key, next) {
                places[member] = at as u16 + 1;
                next = member + 1;
            }
        }
        Source { map, places }
    }

    fn value(&self, member: usize) -> &'a Tree {
        let place = usize::from(self.places[member]).checked_sub(1);
        place.map_or(&Tree::Null, |place| &self.map.pairs()[place].1)
    }
}

fn message(tail: &mut Tail, shape: &Shape, tree: &Tree) {
    static EMPTY: std::sync::LazyLock<Map> = std::sync::LazyLock::new(Map::default);
    let map = tree.as_map().unwrap_or(&EMPTY);
    fields(tail, shape, &Source::new(shape, map), 0);
}

/// Writes the fields of a shape whose members begin at `base` among those of the object. Those of an inlined message
/// stand in the same object.
fn fields(tail: &mut Tail, shape: &Shape, source: &Source<'_>, base: usize) {
    for slot in shape.slots().iter().rev() {
        let field = shape.slot_field(*slot);
        let member = base + usize::from(slot.member);
        match field.shape() {
            Some(inner) if field.inline => {
                let mark = tail.mark();
                fields(tail, inner, source, member);
                tail.close(slot.number, mark);
            }
            _ => write(tail, slot.number, field, source.value(member)),
        }
    }
}

fn write(tail: &mut Tail, number: u32, field: &Field, value: &Tree) {
    match (field.card, value) {
        (Card::One, Tree::Null) if field.ptr || matches!(field.of, Of::Bytes) => {}
        (Card::One, value) => value::write(tail, number, &field.of, value),
        (Card::List, Tree::List(items)) => {
            for item in items.iter().rev() {
                value::write(tail, number, &field.of, item);
            }
        }
        (Card::Map, Tree::Map(map)) => entries(tail, number, &field.of, map),
        (Card::List | Card::Map, _) => {}
    }
}

/// The entries of a map: each a message of key and value, by rising key.
fn entries(tail: &mut Tail, number: u32, of: &Of, map: &Map) {
    let pairs = map.pairs();
    if pairs.is_sorted_by(|left, right| left.0 < right.0) {
        let pairs = pairs.iter().rev();
        return pairs.for_each(|(key, value)| entry(tail, number, of, (key, value)));
    }
    let mut pairs: Vec<_> = map.iter().collect();
    pairs.sort_by(|left, right| right.0.cmp(left.0));
    for pair in pairs {
        entry(tail, number, of, pair);
    }
}

fn entry(tail: &mut Tail, number: u32, of: &Of, (key, value): (&str, &Tree)) {
    let mark = tail.mark();
    value::write(tail, 2, of, value);
    tail.delimited(1, key.as_bytes());
    tail.close(number, mark);
}
