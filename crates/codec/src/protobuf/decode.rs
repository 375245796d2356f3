//! Decodes a message to a tree, by its shape.
//!
//! The tree is as if parsed from JSON: inlined messages are flattened into their parent's object, zero values of plain
//! fields are omitted, special types have their JSON form and are validated as in JSON, so that nothing is left to prune.
//! Fields unknown to the shape are dropped silently, as protobuf intends. A repeated field replaces the earlier one;
//! repeated messages are merged.
//!
//! Fields mostly come by ascending number. A number above all earlier ones is certainly new, so the map need not be
//! searched for it.

mod value;

use compact_str::CompactString;
use setpoint_schema::shape::ProtoField;
use setpoint_schema::{Cardinality, Field, FieldType, Map, Shape, Tree};

use super::envelope::{self, TypeMeta, text};
use super::error::Error;
use super::reader::{DELIMITED, Reader, Tag};
use crate::json::MAX_DEPTH;

/// Decodes an object in its envelope. Its type is returned beside the tree, which has no type fields.
pub fn decode(bytes: &[u8], shape: &Shape) -> Result<(TypeMeta, Tree), Error> {
    let envelope = envelope::open(bytes)?;
    let mut map = Map::default();
    decode_message(envelope.message, shape, &mut map)?;
    Ok((envelope.type_meta, Tree::Map(map)))
}

/// Decodes a bare message into a map, which must not hold any of the message's fields yet.
pub fn decode_message(bytes: &[u8], shape: &Shape, map: &mut Map) -> Result<(), Error> {
    if !super::has_protobuf_form(shape) {
        return Err(Error::NoProtobufForm(shape.type_name().into()));
    }
    let level = Level {
        depth: 1,
        fresh: true,
    };
    message(bytes, shape, map, level)
}

/// The level of the tree that a message is decoded at.
#[derive(Clone, Copy)]
struct Level {
    /// How many lists and maps of the tree enclose its fields. The tree is written as JSON later, so JSON's limit applies.
    depth: usize,
    /// Whether none of its fields is in the map yet.
    fresh: bool,
}

impl Level {
    fn deeper(self) -> Result<Self, Error> {
        match self.depth {
            MAX_DEPTH.. => Err(Error::Depth),
            depth => Ok(Level {
                depth: depth + 1,
                ..self
            }),
        }
    }

    fn fresh(self, fresh: bool) -> Self {
        Level { fresh, ..self }
    }
}

/// Decodes a message into a map.
fn message(bytes: &[u8], shape: &Shape, map: &mut Map, level: Level) -> Result<(), Error> {
    let mut message = Message {
        shape,
        map,
        level,
        highest: if level.fresh { 0 } else { u32::MAX },
        unsorted: false,
    };
    let mut reader = Reader::new(bytes);
    let mut guess = 0;
    while let Some(tag) = reader.next()? {
        match shape.proto_field_position(tag.number, guess) {
            Some(at) => {
                guess = at;
                message.slot(shape.proto_fields()[at], tag, &mut reader)?;
            }
            None => reader.skip(tag.wire)?,
        }
    }
    if message.unsorted {
        message.dedup_map_keys();
    }
    Ok(())
}

/// A message that is being decoded.
struct Message<'a> {
    shape: &'a Shape,
    map: &'a mut Map,
    level: Level,
    /// The highest field number so far; a field above it is not in the map yet.
    highest: u32,
    /// Whether some map had a key that was not above the previous one, so that there may be duplicate keys.
    unsorted: bool,
}

impl Message<'_> {
    fn slot(&mut self, slot: ProtoField, tag: Tag, reader: &mut Reader<'_>) -> Result<(), Error> {
        let field = self.shape.declared_field(slot);
        let level = self.level.fresh(slot.number > self.highest);
        self.highest = self.highest.max(slot.number);
        match (field.cardinality, field.shape()) {
            (Cardinality::One, Some(inner)) if field.inline => {
                message(delimited(reader, tag, field)?, inner, self.map, level)
            }
            (Cardinality::One, Some(inner)) if !inner.wrap => {
                self.nested(field, inner, delimited(reader, tag, field)?, level)
            }
            (Cardinality::One, _) => self.one(field, value::read(reader, tag, field, level)?, level.fresh),
            (Cardinality::List, _) => self.list(field, tag, reader, level),
            (Cardinality::Map, _) => self.entry(field, delimited(reader, tag, field)?, level),
        }
    }

    /// A single value. Zero means unset for a plain field, so it is omitted; a null time is always unset.
    fn one(&mut self, field: &Field, value: Tree, fresh: bool) -> Result<(), Error> {
        let unset = value.is_null()
            || (!field.ptr && is_zero(&value) && !matches!(field.value_type, FieldType::Bytes));
        match (unset, fresh) {
            (false, _) => *value_mut(self.map, field, fresh) = value,
            (true, true) => {}
            (true, false) => drop(self.map.remove(&field.name)),
        }
        Ok(())
    }

    /// A nested message. An empty one is kept only if the field is a pointer.
    fn nested(&mut self, field: &Field, inner: &Shape, bytes: &[u8], level: Level) -> Result<(), Error> {
        if bytes.is_empty() && !field.ptr {
            return Ok(());
        }
        let map = value_mut(self.map, field, level.fresh).map_or_default();
        message(bytes, inner, map, level.deeper()?)?;
        if map.is_empty() && !field.ptr {
            self.map.remove(&field.name);
        }
        Ok(())
    }

    fn list(&mut self, field: &Field, tag: Tag, reader: &mut Reader<'_>, level: Level) -> Result<(), Error> {
        let items = list_in(value_mut(self.map, field, level.fresh));
        let level = level.deeper()?;
        if tag.wire == DELIMITED && !value::is_delimited(&field.value_type) {
            return value::packed(reader.delimited()?, field, level, items);
        }
        element(reader, tag, field, level, items.push_mut(Tree::Null))
    }

    /// An entry of a map: a message with a key and a value.
    fn entry(&mut self, field: &Field, bytes: &[u8], level: Level) -> Result<(), Error> {
        let map = value_mut(self.map, field, level.fresh).map_or_default();
        let level = level.deeper()?;
        let mut key = CompactString::default();
        let mut value = value::zero(&field.value_type);
        let mut reader = Reader::new(bytes);
        while let Some(tag) = reader.next()? {
            match tag.number {
                1 => key = text(delimited(&mut reader, tag, field)?).into(),
                2 => element(&mut reader, tag, field, level, &mut value)?,
                _ => reader.skip(tag.wire)?,
            }
        }
        self.unsorted |= map
            .pairs()
            .last()
            .is_some_and(|(last, _)| last.as_str() >= key.as_str());
        map.push(key, value);
        Ok(())
    }

    /// Removes duplicate keys of every map; the last value wins.
    fn dedup_map_keys(&mut self) {
        for field in self
            .shape
            .fields
            .iter()
            .filter(|field| field.cardinality == Cardinality::Map)
        {
            if let Some(Tree::Map(map)) = self.map.get_mut(&field.name) {
                let pairs = map.pairs_mut();
                pairs.sort_by(|left, right| left.0.cmp(&right.0));
                pairs.dedup_by(|later, earlier| {
                    let same = later.0 == earlier.0;
                    if same {
                        std::mem::swap(later, earlier);
                    }
                    same
                });
            }
        }
    }
}

/// Decodes a value of a list or a map into `out`.
fn element(
    reader: &mut Reader<'_>,
    tag: Tag,
    field: &Field,
    level: Level,
    out: &mut Tree,
) -> Result<(), Error> {
    match field.shape() {
        Some(inner) if !inner.wrap => {
            let bytes = delimited(reader, tag, field)?;
            let fresh = out.as_map().is_none_or(Map::is_empty);
            message(bytes, inner, out.map_or_default(), level.deeper()?.fresh(fresh))
        }
        _ => {
            *out = value::read(reader, tag, field, level.fresh(true))?;
            Ok(())
        }
    }
}

/// The bytes of a length-delimited value.
fn delimited<'a>(reader: &mut Reader<'a>, tag: Tag, field: &Field) -> Result<&'a [u8], Error> {
    if tag.wire != DELIMITED {
        return Err(wrong_wire(tag, field));
    }
    reader.delimited()
}

fn wrong_wire(tag: Tag, field: &Field) -> Error {
    let field = field.name.clone();
    Error::FieldWire {
        wire: tag.wire,
        field,
    }
}

/// The tree node of a field's value.
fn value_mut<'m>(map: &'m mut Map, field: &Field, fresh: bool) -> &'m mut Tree {
    match fresh {
        true => map.push_null(field.name.clone()),
        false => map.entry(&field.name),
    }
}

fn list_in(out: &mut Tree) -> &mut Vec<Tree> {
    if !matches!(out, Tree::List(_)) {
        *out = Tree::List(Vec::new());
    }
    out.as_list_mut().expect("the node was just made a list")
}

fn is_zero(value: &Tree) -> bool {
    match value {
        Tree::Null => true,
        Tree::Bool(value) => !value,
        Tree::Int(number) => *number == 0,
        Tree::Float(number) => *number == 0.0,
        Tree::Str(text) => text.is_empty(),
        Tree::List(items) => items.is_empty(),
        Tree::Map(map) => map.is_empty(),
    }
}
