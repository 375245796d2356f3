//! A message to a tree, by its shape.
//!
//! The tree has what JSON would show: inlined messages stand in their holder's object, zero values of plain fields are
//! left out, special types have their JSON form and are checked as those in JSON are, so that nothing is left to prune.
//! Fields the shape does not know are dropped in silence, as the format means them to be. A field that comes again
//! replaces the earlier one; messages are laid over each other.
//!
//! Fields mostly come by rising number. One whose number is above all earlier ones is new for certain, so that nothing
//! has to be searched for it.

mod value;

use compact_str::CompactString;
use setpoint_schema::shape::Slot;
use setpoint_schema::{Card, Field, Map, Of, Shape, Tree};

use super::envelope::{self, TypeMeta, text};
use super::error::Error;
use super::reader::{DELIMITED, Reader, Tag};
use crate::json::MAX_DEPTH;

/// Reads a document of a shape. What its envelope says it is comes back beside the tree, which has no type fields.
pub fn decode(bytes: &[u8], shape: &Shape) -> Result<(TypeMeta, Tree), Error> {
    let envelope = envelope::open(bytes)?;
    let mut map = Map::default();
    decode_message(envelope.message, shape, &mut map)?;
    Ok((envelope.type_meta, Tree::Map(map)))
}

/// Reads a bare message of a shape behind what a map already holds, which must be none of the message's own fields.
pub fn decode_message(bytes: &[u8], shape: &Shape, map: &mut Map) -> Result<(), Error> {
    if !super::has_form(shape) {
        return Err(Error::NoForm(shape.type_name().into()));
    }
    let level = Level {
        depth: 1,
        fresh: true,
    };
    message(bytes, shape, map, level)
}

/// Where in the tree a message goes.
#[derive(Clone, Copy)]
struct Level {
    /// How many lists and maps of the tree hold its fields. The tree is written as JSON later, so JSON's limit holds.
    depth: usize,
    /// None of its fields is in the map yet.
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

/// Reads a message into a map.
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
        match shape.slot_position(tag.number, guess) {
            Some(at) => {
                guess = at;
                message.slot(shape.slots()[at], tag, &mut reader)?;
            }
            None => reader.skip(tag.wire)?,
        }
    }
    if message.unsorted {
        message.settle_maps();
    }
    Ok(())
}

/// A message that is being read.
struct Message<'a> {
    shape: &'a Shape,
    map: &'a mut Map,
    level: Level,
    /// The highest number so far; a field above it is not in the map yet.
    highest: u32,
    /// Some map had a key that was not above the one before, so there may be keys twice.
    unsorted: bool,
}

impl Message<'_> {
    fn slot(&mut self, slot: Slot, tag: Tag, reader: &mut Reader<'_>) -> Result<(), Error> {
        let field = self.shape.slot_field(slot);
        let level = self.level.fresh(slot.number > self.highest);
        self.highest = self.highest.max(slot.number);
        match (field.card, field.shape()) {
            (Card::One, Some(inner)) if field.inline => {
                message(delimited(reader, tag, field)?, inner, self.map, level)
            }
            (Card::One, Some(inner)) if !inner.wrap => {
                self.nested(field, inner, delimited(reader, tag, field)?, level)
            }
            (Card::One, _) => self.one(field, value::read(reader, tag, field, level)?, level.fresh),
            (Card::List, _) => self.list(field, tag, reader, level),
            (Card::Map, _) => self.entry(field, delimited(reader, tag, field)?, level),
        }
    }

    /// A single value. Zero is what a plain field has when it is unset, so it does not show; a time that is null is
    /// unset wherever it is.
    fn one(&mut self, field: &Field, value: Tree, fresh: bool) -> Result<(), Error> {
        let unset = value.is_null() || (!field.ptr && is_zero(&value) && !matches!(field.of, Of::Bytes));
        match (unset, fresh) {
            (false, _) => *place(self.map, field, fresh) = value,
            (true, true) => {}
            (true, false) => drop(self.map.remove(&field.name)),
        }
        Ok(())
    }

    /// A message of its own, read in its place. One without content shows only where the field may be absent as such.
    fn nested(&mut self, field: &Field, inner: &Shape, bytes: &[u8], level: Level) -> Result<(), Error> {
        if bytes.is_empty() && !field.ptr {
            return Ok(());
        }
        let map = place(self.map, field, level.fresh).map_or_default();
        message(bytes, inner, map, level.deeper()?)?;
        if map.is_empty() && !field.ptr {
            self.map.remove(&field.name);
        }
        Ok(())
    }

    fn list(&mut self, field: &Field, tag: Tag, reader: &mut Reader<'_>, level: Level) -> Result<(), Error> {
        let items = list_in(place(self.map, field, level.fresh));
        let level = level.deeper()?;
        if tag.wire == DELIMITED && !value::is_delimited(&field.of) {
            return value::packed(reader.delimited()?, field, level, items);
        }
        element(reader, tag, field, level, items.push_mut(Tree::Null))
    }

    /// An entry of a map is a message of a key and a value.
    fn entry(&mut self, field: &Field, bytes: &[u8], level: Level) -> Result<(), Error> {
        let map = place(self.map, field, level.fresh).map_or_default();
        let level = level.deeper()?;
        let mut key = CompactString::default();
        let mut value = value::zero(&field.of);
        let mut reader = Reader::new(bytes);
        while let Some(tag) = reader.next()? {
            match tag.number {
                1 => key = text(delimited(&mut reader, tag, field)?).into(),
                2 => element(&mut reader, tag, field, level, &mut value)?,
                _ => reader.skip(tag.wire)?,
            }
        }
        self.unsorted |= map.pairs().last().is_some_and(|(last, _)| *last >= key);
        map.push(key, value);
        Ok(())
    }

    /// Makes every key of every map single; the last value counts.
    fn settle_maps(&mut self) {
        for field in self.shape.fields.iter().filter(|field| field.card == Card::Map) {
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

/// A value of a list or a map, read into its place.
fn element(
    reader: &mut Reader<'_>,
    tag: Tag,
    field: &Field,
    level: Level,
    place: &mut Tree,
) -> Result<(), Error> {
    match field.shape() {
        Some(inner) if !inner.wrap => {
            let bytes = delimited(reader, tag, field)?;
            let fresh = place.as_map().is_none_or(Map::is_empty);
            message(bytes, inner, place.map_or_default(), level.deeper()?.fresh(fresh))
        }
        _ => {
            *place = value::read(reader, tag, field, level.fresh(true))?;
            Ok(())
        }
    }
}

/// The bytes of a value that has its length before it.
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

/// Where a field's value stands.
fn place<'m>(map: &'m mut Map, field: &Field, fresh: bool) -> &'m mut Tree {
    match fresh {
        true => map.push_null(field.name.clone()),
        false => map.entry(&field.name),
    }
}

fn list_in(place: &mut Tree) -> &mut Vec<Tree> {
    if !matches!(place, Tree::List(_)) {
        *place = Tree::List(Vec::new());
    }
    place.as_list_mut().expect("the node was just made a list")
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
