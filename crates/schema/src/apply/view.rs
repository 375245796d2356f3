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

/// A key with its value in one document, in the other, or in both.
pub(super) type Both<'a> = (&'a str, Option<&'a Tree>, Option<&'a Tree>);

/// The keys of a struct or map and their values, sorted by key. Of a key given twice the later counts.
pub(super) fn pairs<'a>(
    place: Place<'a>,
    map: Option<&'a Map>,
    reading: Reading,
) -> Vec<(&'a str, &'a Tree)> {
    let Some(map) = map else { return Vec::new() };
    let mut pairs: Vec<(&str, &Tree)> = match place.kind {
        Kind::Struct(shape) => members(shape, map, reading)
            .map(|(field, value)| (field.name.as_str(), value))
            .collect(),
        _ => map.iter().rev().collect(),
    };
    if !pairs.is_sorted_by(|left, right| left.0 < right.0) {
        pairs.sort_by(|left, right| left.0.cmp(right.0));
        pairs.dedup_by(|later, earlier| later.0 == earlier.0);
    }
    pairs
}

/// Both documents' keys together, sorted.
pub(super) fn join<'a>(left: Vec<(&'a str, &'a Tree)>, right: Vec<(&'a str, &'a Tree)>) -> Vec<Both<'a>> {
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
        joined.push((key, left, right));
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
            let both = join(
                pairs(place, Some(left), reading),
                pairs(place, Some(right), reading),
            );
            both.into_iter()
                .all(|(key, left, right)| match (left, right, place.under(key)) {
                    (Some(left), Some(right), Some(place)) => same(place, left, right, reading),
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

/// The document with everything that canonical form shows, and nothing it leaves out.
pub(super) fn complete(place: Place<'_>, value: &Tree) -> Tree {
    match (place.kind, value) {
        (Kind::Struct(shape), Tree::Map(map)) => members(shape, map, Reading::Canonical)
            .map(|(field, value)| (field.name.clone(), complete(Place::of_field(field), value)))
            .collect::<Map>()
            .into(),
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
    let mut given: Vec<Option<&Tree>> = vec![None; shape.members().len()];
    let mut next = 0;
    for (key, value) in map.iter() {
        if let Some(at) = shape.position(key, next) {
            given[at] = Some(value);
            next = at + 1;
        }
    }
    let members = shape.members().iter().zip(given);
    members.filter_map(move |(field, value)| match reading {
        Reading::Literal => Some((field, value?)),
        Reading::Canonical => Some((field, shown(field, value)?)),
    })
}

/// What canonical form shows of a field.
fn shown<'a>(field: &'a Field, value: Option<&'a Tree>) -> Option<&'a Tree> {
    value.filter(|value| is_set(field, value)).or(field.zero.as_ref())
}
