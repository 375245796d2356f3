//! The one canonical JSON form of a document: what the server stores and sends.
//!
//! Keys stand in declaration order, `kind` and `apiVersion` first; map keys are sorted; unset fields show what their
//! shape says they show when unset, which is mostly nothing; zero values of plain fields are left out. Raw JSON keeps
//! its own order. No spaces, no line break at the end.

mod text;

use crate::shape::{Card, Field, Of, Shape};
use crate::time::{self, Precision};
use crate::tree::{Map, Tree};

pub use text::{write_number, write_string};

const OBJECT_META: &str = "apimachinery.pkg.apis.meta.v1.ObjectMeta";
const RESOURCE_VERSION: &str = "resourceVersion";

/// No type has more members than this; a test of the pack holds it.
pub(crate) const MOST_MEMBERS: usize = 128;

/// Room for most documents, so that writing does not stop to make more.
const FIRST_BYTES: usize = 8 << 10;

/// A document in canonical form, with the places others need to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub bytes: Vec<u8>,
    /// Where the digits of `metadata.resourceVersion` belong: between the two quotes of the empty string there. `None`
    /// if the shape has no object metadata.
    pub stamp: Option<u32>,
    /// Where what follows `kind` and `apiVersion` begins: `{` and the bytes from here on are the object without them.
    pub body_at: u32,
}

/// What becomes of a list or map without content, where a field always shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Empty {
    Kept,
    /// It is as good as none. The reference server keeps most kinds in a form that cannot tell the two apart.
    Null,
}

/// Writes a document to be stored. Any resourceVersion in the tree is dropped; its place is left open at the stamp.
pub fn write(shape: &Shape, tree: &Tree, empty: Empty) -> Written {
    let mut writer = Writer {
        out: Vec::with_capacity(FIRST_BYTES),
        stamp: None,
        body_at: 0,
        top: true,
        stamping: false,
        empty,
    };
    writer.shape(shape, tree);
    Written {
        stamp: writer.stamp.map(offset),
        body_at: offset(writer.body_at),
        bytes: writer.out,
    }
}

/// Writes a document as it is, resourceVersion included.
pub fn write_into(shape: &Shape, tree: &Tree, out: &mut Vec<u8>) {
    let bytes = std::mem::take(out);
    let mut writer = Writer {
        out: bytes,
        stamp: None,
        body_at: 0,
        top: false,
        stamping: false,
        empty: Empty::Kept,
    };
    writer.shape(shape, tree);
    *out = writer.out;
}

/// Writes a tree of no known shape: keys in the order they have.
pub fn write_tree(tree: &Tree, out: &mut Vec<u8>) {
    match tree {
        Tree::Null => out.extend_from_slice(b"null"),
        Tree::Bool(true) => out.extend_from_slice(b"true"),
        Tree::Bool(false) => out.extend_from_slice(b"false"),
        Tree::Int(number) => text::write_integer(*number, out),
        Tree::Float(number) => write_number(*number, out),
        Tree::Str(text) => write_string(text, out),
        Tree::List(items) => between(b"[]", out, items, |out, item| write_tree(item, out)),
        Tree::Map(map) => between(b"{}", out, map.pairs(), |out, (key, value)| {
            write_string(key, out);
            out.push(b':');
            write_tree(value, out);
        }),
    }
}

fn between<T>(brackets: &[u8; 2], out: &mut Vec<u8>, items: &[T], mut write: impl FnMut(&mut Vec<u8>, &T)) {
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
    u32::try_from(at).expect("a document is far below four gigabytes")
}

struct Writer {
    out: Vec<u8>,
    stamp: Option<usize>,
    body_at: usize,
    /// The next object is the document itself, and it is to be stored.
    top: bool,
    /// The next object is the document's own metadata.
    stamping: bool,
    empty: Empty,
}

impl Writer {
    fn shape(&mut self, shape: &Shape, tree: &Tree) {
        match tree {
            Tree::Map(map) => self.object(shape, map),
            other => write_tree(other, &mut self.out),
        }
    }

    fn object(&mut self, shape: &Shape, map: &Map) {
        let top = std::mem::take(&mut self.top);
        let stamping = std::mem::take(&mut self.stamping);
        let places = places(shape, map);
        self.out.push(b'{');
        let start = self.out.len();
        for (at, member) in shape.members().iter().enumerate() {
            if top && shape.type_meta && at == 2 {
                self.mark_body(start);
            }
            if stamping && member.name == RESOURCE_VERSION {
                self.stamp(start);
                continue;
            }
            self.stamping =
                top && member.name == "metadata" && member.shape().is_some_and(|meta| meta.id == OBJECT_META);
            let value = places[at]
                .checked_sub(1)
                .map_or(&Tree::Null, |pair| &map.pairs()[usize::from(pair)].1);
            self.member(member, value, start);
        }
        if top {
            self.body_at = self.body_at.clamp(start, self.out.len());
        }
        self.out.push(b'}');
    }

    /// Notes where the body begins; a comma that the next member writes first is counted in.
    fn mark_body(&mut self, start: usize) {
        self.body_at = if self.out.len() > start {
            self.out.len() + 1
        } else {
            start
        };
    }

    fn stamp(&mut self, start: usize) {
        self.key(RESOURCE_VERSION, start);
        self.out.extend_from_slice(b"\"\"");
        self.stamp = Some(self.out.len() - 1);
    }

    fn member(&mut self, member: &Field, value: &Tree, start: usize) {
        if is_set(member, value) && !self.drops(member, value) {
            self.key(&member.name, start);
            return self.field(member, value);
        }
        let Some(zero) = &member.zero else {
            return self.stamp_alone(member, start);
        };
        self.key(&member.name, start);
        match (member.shape(), zero) {
            (Some(shape), Tree::Map(empty)) if member.card == Card::One => self.object(shape, empty),
            _ => write_tree(zero, &mut self.out),
        }
    }

    fn drops(&self, member: &Field, value: &Tree) -> bool {
        let empty = match value {
            Tree::List(items) => items.is_empty(),
            Tree::Map(map) => map.is_empty() && member.card == Card::Map,
            _ => false,
        };
        empty && self.empty == Empty::Null && matches!(member.zero, Some(Tree::Null))
    }

    /// Metadata that is unset still needs its stamp if the document is to be stored.
    fn stamp_alone(&mut self, member: &Field, start: usize) {
        if self.stamping {
            self.key(&member.name, start);
            self.object(member.shape().expect("metadata has a shape"), &Map::default());
        }
    }

    fn key(&mut self, name: &str, start: usize) {
        if self.out.len() > start {
            self.out.push(b',');
        }
        write_string(name, &mut self.out);
        self.out.push(b':');
    }

    fn field(&mut self, field: &Field, value: &Tree) {
        match (field.card, value) {
            (Card::One, value) => self.value(&field.of, value),
            (Card::List, Tree::List(items)) => self.list(&field.of, items),
            (Card::Map, Tree::Map(map)) => self.map(&field.of, map),
            (_, other) => write_tree(other, &mut self.out),
        }
    }

    fn list(&mut self, of: &Of, items: &[Tree]) {
        self.out.push(b'[');
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            self.value(of, item);
        }
        self.out.push(b']');
    }

    fn map(&mut self, of: &Of, map: &Map) {
        let mut pairs: Vec<_> = map.iter().collect();
        if !pairs.is_sorted_by(|left, right| left.0 < right.0) {
            pairs.sort_by(|left, right| left.0.cmp(right.0));
        }
        self.out.push(b'{');
        let start = self.out.len();
        for (key, value) in pairs {
            self.key(key, start);
            self.value(of, value);
        }
        self.out.push(b'}');
    }

    fn value(&mut self, of: &Of, value: &Tree) {
        match (of, value) {
            (Of::Shape(link), Tree::Map(map)) => self.object(link.shape(), map),
            (Of::Time, Tree::Str(text)) => self.time(text, Precision::Seconds),
            (Of::MicroTime, Tree::Str(text)) => self.time(text, Precision::Micros),
            (
                Of::SchemaOrBool(link) | Of::SchemaOrArray(link) | Of::SchemaOrStrings(link),
                Tree::Map(map),
            ) => {
                self.object(link.shape(), map);
            }
            (Of::SchemaOrArray(link), Tree::List(items)) => self.list(&Of::Shape(link.clone()), items),
            (_, other) => write_tree(other, &mut self.out),
        }
    }

    /// A text that is no time is written as it is: refusing it is the reader's part.
    fn time(&mut self, text: &str, precision: Precision) {
        match time::normalize(text, precision) {
            Ok(Some(form)) => write_string(&form, &mut self.out),
            _ => write_string(text, &mut self.out),
        }
    }
}

/// For each member the place of its pair, counted from 1, or 0 if it has none. The last of several pairs counts.
fn places(shape: &Shape, map: &Map) -> [u16; MOST_MEMBERS] {
    let mut places = [0; MOST_MEMBERS];
    let mut next = 0;
    for (at, key) in map.keys().enumerate() {
        if let Some(member) = shape.position(key, next) {
            places[member] = at as u16 + 1;
            next = member + 1;
        }
    }
    places
}

/// What canonical form shows of a member: its value, or what stands for an unset one.
pub fn shown<'a>(field: &'a Field, value: Option<&'a Tree>) -> Option<&'a Tree> {
    value.filter(|value| is_set(field, value)).or(field.zero.as_ref())
}

/// Whether a value shows. Null never does; a zero value does only where the field may be absent as such, or where the
/// field always shows.
pub(crate) fn is_set(field: &Field, value: &Tree) -> bool {
    match value {
        Tree::Null => false,
        _ if field.ptr || field.zero.is_some() => true,
        Tree::Bool(value) => *value,
        Tree::Int(number) => *number != 0 || matches!(field.of, Of::IntOrString | Of::RawJson),
        Tree::Float(number) => *number != 0.0,
        Tree::Str(text) => !text.is_empty(),
        Tree::List(items) => !items.is_empty(),
        Tree::Map(map) => !map.is_empty(),
    }
}

#[cfg(test)]
mod tests;
