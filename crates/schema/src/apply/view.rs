//! How documents are read for comparison: by their keys, in order, and with what is not written but counts as there.
//!
//! A stored document of a built-in kind shows some fields even when they are unset (an empty `spec`, a null list) and
//! leaves out others when they have their zero value. Two documents that write the same object differently must not
//! differ in ownership, so they are read as if written in canonical form. What a client applies, on the other hand, is
//! read literally: a null or an empty list that it names is a wish.

use smallvec::SmallVec;

use super::element::order;
use super::place::{Kind, Place};
use crate::shape::{Field, Shape};
use crate::tree::{Map, Tree};
use crate::write::shown;

/// Most structs have no more members than this.
const FEW_MEMBERS: usize = 64;

/// How absent and zero values are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// As the document stands.
    Literal,
    /// As if the document were written in canonical form.
    Canonical,
}

/// What stands under a key in one document, in the other, or in both.
pub(super) type Both<'a> = (&'a str, Place<'a>, Option<&'a Tree>, Option<&'a Tree>);

/// Visits what a struct or map holds: declared fields by rising name, then the rest. Of a key given twice the later counts.
pub(super) fn each<'a>(
    place: Place<'a>,
    map: &'a Map,
    reading: Reading,
    mut visit: impl FnMut(&'a str, Place<'a>, &'a Tree),
) {
    let Kind::Struct(shape) = place.kind else {
        let below = place.of_values();
        return sorted(Some(map))
            .iter()
            .for_each(|(key, value)| visit(key, below, value));
    };
    let slots = Slots::of(shape, Some(map), reading);
    for (at, field) in shape.members_by_name() {
        if let Some(value) = slots.find(at, field) {
            visit(&field.name, Place::of_field(field), value);
        }
    }
    let free = beyond(shape, Some(map)).into_iter();
    free.for_each(|(key, value)| visit(key, Place::FREE, value));
}

/// What two structs or maps hold, in the same order.
pub(super) fn both<'a>(
    place: Place<'a>,
    left: Option<&'a Map>,
    right: Option<&'a Map>,
    reading: Reading,
) -> Vec<Both<'a>> {
    let Kind::Struct(shape) = place.kind else {
        return join(place.of_values(), sorted(left), sorted(right));
    };
    let free = join(Place::FREE, beyond(shape, left), beyond(shape, right));
    let [left, right] = [left, right].map(|map| Slots::of(shape, map, reading));
    let named = shape.members_by_name().filter_map(|(at, field)| {
        let (left, right) = (left.find(at, field), right.find(at, field));
        let held = left.is_some() || right.is_some();
        held.then(|| (field.name.as_str(), Place::of_field(field), left, right))
    });
    named.chain(free).collect()
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
    let slots = Slots::of(shape, Some(map), reading);
    let members = shape.members().iter().enumerate();
    members.filter_map(move |(at, field)| Some((field, slots.find(at, field)?)))
}

/// For each member of a struct its value. A struct that is not there has none.
struct Slots<'a> {
    values: SmallVec<[Option<&'a Tree>; FEW_MEMBERS]>,
    reading: Reading,
}

impl<'a> Slots<'a> {
    fn of(shape: &Shape, map: Option<&'a Map>, reading: Reading) -> Self {
        let mut values = SmallVec::from_elem(None, shape.members().len());
        let mut next = 0;
        for (key, value) in map.into_iter().flat_map(Map::iter) {
            if let Some(at) = shape.position(key, next) {
                values[at] = Some(value);
                next = at + 1;
            }
        }
        let reading = if shape.literal { Reading::Literal } else { reading };
        Slots { values, reading }
    }

    /// The value of the member at a place, or what canonical form shows of it.
    fn find(&self, at: usize, field: &'a Field) -> Option<&'a Tree> {
        match self.reading {
            Reading::Literal => self.values[at],
            Reading::Canonical => shown(field, self.values[at]),
        }
    }
}
