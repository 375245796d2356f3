//! How documents are read for comparison: by their keys, in order, and with what is not written but counts as there.
//!
//! A stored document of a built-in kind shows some fields even when they are unset (an empty `spec`, a null list) and
//! leaves out others when they have their zero value. Two documents that write the same object differently must not
//! differ in ownership, so they are read as if written in canonical form. What a client applies, on the other hand, is
//! read literally: a null or an empty list that it names is a wish.

use super::element::order;
use super::place::{Kind, Place};
use crate::shape::{Field, Shape};
use crate::tree::{Map, Tree};
use crate::write::is_set;

/// How absent and zero values are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// As the document stands.
    Literal,
    /// As if the document were written in canonical form.
    Canonical,
}

/// What stands under a key of a struct or map.
pub(super) type Under<'a> = (&'a str, Place<'a>, &'a Tree);

/// What stands under a key in one document, in the other, or in both.
pub(super) type Both<'a> = (&'a str, Place<'a>, Option<&'a Tree>, Option<&'a Tree>);

/// What a struct or map holds. Of a key given twice the later counts.
pub(super) fn each<'a>(place: Place<'a>, map: &'a Map, reading: Reading) -> Vec<Under<'a>> {
    match place.kind {
        Kind::Struct(shape) => {
            let named = members(shape, map, reading)
                .map(|(field, value)| (field.name.as_str(), Place::of_field(field), value));
            let free = beyond(shape, Some(map)).into_iter();
            named
                .chain(free.map(|(key, value)| (key, Place::FREE, value)))
                .collect()
        }
        _ => {
            let below = place.of_values();
            let pairs = sorted(Some(map)).into_iter();
            pairs.map(|(key, value)| (key, below, value)).collect()
        }
    }
}

/// What two structs or maps hold.
pub(super) fn both<'a>(
    place: Place<'a>,
    left: Option<&'a Map>,
    right: Option<&'a Map>,
    reading: Reading,
) -> Vec<Both<'a>> {
    let Kind::Struct(shape) = place.kind else {
        return join(place.of_values(), sorted(left), sorted(right));
    };
    let slots = slots(shape, left, reading)
        .into_iter()
        .zip(slots(shape, right, reading));
    let members = shape.members().iter().zip(slots);
    let named = members
        .filter(|(_, (left, right))| left.is_some() || right.is_some())
        .map(|(field, (left, right))| (field.name.as_str(), Place::of_field(field), left, right));
    named
        .chain(join(Place::FREE, beyond(shape, left), beyond(shape, right)))
        .collect()
}

/// What stands in an open struct besides its members, by its keys.
fn beyond<'a>(shape: &Shape, map: Option<&'a Map>) -> Vec<(&'a str, &'a Tree)> {
    if !shape.open {
        return Vec::new();
    }
    let mut pairs = sorted(map);
    pairs.retain(|(key, _)| shape.member(key).is_none());
    pairs
}

/// The pairs of a map by their keys, of each key the last.
fn sorted(map: Option<&Map>) -> Vec<(&str, &Tree)> {
    let mut pairs: Vec<(&str, &Tree)> = map.into_iter().flat_map(Map::iter).collect();
    if !pairs.is_sorted_by(|left, right| left.0 < right.0) {
        pairs.reverse();
        pairs.sort_by(|left, right| left.0.cmp(right.0));
        pairs.dedup_by(|later, earlier| later.0 == earlier.0);
    }
    pairs
}

fn join<'a>(
    place: Place<'a>,
    left: Vec<(&'a str, &'a Tree)>,
    right: Vec<(&'a str, &'a Tree)>,
) -> Vec<Both<'a>> {
    let mut joined = Vec::with_capacity(left.len().max(right.len()));
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let Some(key) = [left.peek(), right.peek()]
        .into_iter()
        .flatten()
        .map(|pair| pair.0)
        .min()
    {
        let left = left.next_if(|pair| pair.0 == key).map(|pair| pair.1);
        let right = right.next_if(|pair| pair.0 == key).map(|pair| pair.1);
        joined.push((key, place, left, right));
    }
    joined
}

/// Whether two values are the same, read in this way. The order of keys says nothing, null is not absent.
pub(super) fn same(place: Place<'_>, left: &Tree, right: &Tree, reading: Reading) -> bool {
    if left == right {
        return true;
    }
    match (left, right) {
        (Tree::Map(left), Tree::Map(right)) => {
            let mut both = both(place, Some(left), Some(right), reading).into_iter();
            both.all(|(_, place, left, right)| match (left, right) {
                (Some(left), Some(right)) => same(place, left, right, reading),
                _ => false,
            })
        }
        (Tree::List(left), Tree::List(right)) => {
            let element = match place.kind {
                Kind::List(field) => Place::of_element(field),
                _ => place,
            };
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| same(element, left, right, reading))
        }
        _ => order(left, right).is_eq(),
    }
}

/// The document with everything that canonical form shows, and no zero value it leaves out. What the shape does not know
/// stays as it is.
pub(super) fn complete(place: Place<'_>, value: &Tree) -> Tree {
    match (place.kind, value) {
        (Kind::Struct(shape), Tree::Map(map)) => {
            let known = members(shape, map, Reading::Canonical)
                .map(|(field, value)| (field.name.clone(), complete(Place::of_field(field), value)));
            let beyond = map.pairs().iter().filter(|(key, _)| shape.member(key).is_none());
            known.chain(beyond.cloned()).collect::<Map>().into()
        }
        (Kind::Map(field), Tree::Map(map)) => {
            let values = map.pairs().iter();
            let values = values.map(|(key, value)| (key.clone(), complete(Place::of_element(field), value)));
            values.collect::<Map>().into()
        }
        (Kind::List(field), Tree::List(items)) => {
            let items = items.iter();
            Tree::List(
                items
                    .map(|item| complete(Place::of_element(field), item))
                    .collect(),
            )
        }
        (_, value) => value.clone(),
    }
}

/// The fields of a struct that are there, in declaration order.
fn members<'a>(
    shape: &'a Shape,
    map: &'a Map,
    reading: Reading,
) -> impl Iterator<Item = (&'a Field, &'a Tree)> {
    let members = shape.members().iter().zip(slots(shape, Some(map), reading));
    members.filter_map(|(field, value)| Some((field, value?)))
}

/// For each member of a struct its value, if it is there. A struct that is not there has none.
fn slots<'a>(shape: &'a Shape, map: Option<&'a Map>, reading: Reading) -> Vec<Option<&'a Tree>> {
    let members = shape.members();
    let mut slots = vec![None; members.len()];
    let Some(map) = map else { return slots };
    let mut next = 0;
    for (key, value) in map.iter() {
        if let Some(at) = shape.position(key, next) {
            slots[at] = Some(value);
            next = at + 1;
        }
    }
    if reading == Reading::Canonical && !shape.literal {
        let fields = slots.iter_mut().zip(members);
        fields.for_each(|(slot, field)| *slot = shown(field, *slot));
    }
    slots
}

/// What canonical form shows of a field.
fn shown<'a>(field: &'a Field, value: Option<&'a Tree>) -> Option<&'a Tree> {
    value.filter(|value| is_set(field, value)).or(field.zero.as_ref())
}
