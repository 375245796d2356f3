//! What is different between two documents, path by path.
//!
//! A struct or map that comes is added itself and with everything in it; the same when it goes. Where both have one, only
//! what differs inside counts. What is atomic differs as a whole, and so do structs, maps and lists without content.

use super::element::Element;
use super::field_set::{FieldSet, Node};
use super::place::{Kind, Place, step};
use super::view::{Reading, join, pairs, same};
use crate::shape::{Field, Shape};
use crate::tree::Tree;

/// What changed from one document to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) removed: FieldSet,
    /// There before and after, with different values.
    pub(super) modified: FieldSet,
    pub(super) added: FieldSet,
}

/// How one path and what is below it changed.
#[derive(Default)]
struct Nodes {
    removed: Node,
    modified: Node,
    added: Node,
}

/// What changed from one document to another, leaving out what is reset anyway.
pub(super) fn compare(
    shape: &Shape,
    (old, new): (&Tree, &Tree),
    reading: Reading,
    reset: &FieldSet,
) -> Change {
    let nodes = walk(Place::of_shape(shape), Some(old), Some(new), reading);
    Change {
        removed: nodes.removed.children.outside(reset),
        modified: nodes.modified.children.outside(reset),
        added: nodes.added.children.outside(reset),
    }
}

impl Change {
    /// What has a new value: modified or added.
    pub(super) fn set(&self) -> FieldSet {
        self.modified.union(&self.added)
    }
}

fn walk(place: Place<'_>, old: Option<&Tree>, new: Option<&Tree>, reading: Reading) -> Nodes {
    if old == new {
        return Nodes::default();
    }
    let mut nodes = match place.kind {
        _ if place.atomic => return leaf(place, old, new, reading),
        Kind::Scalar(_) => return leaf(place, old, new, reading),
        Kind::List(field) => {
            let (before, after) = (
                place.list_of(old).unwrap_or(&[]),
                place.list_of(new).unwrap_or(&[]),
            );
            if before.is_empty() && after.is_empty() {
                return leaf(place, old, new, reading);
            }
            walk_items(field, before, after, reading)
        }
        Kind::Struct(_) | Kind::Map(_) | Kind::Any => {
            let (before, after) = (place.map_of(old), place.map_of(new));
            let (before, after) = (pairs(place, before, reading), pairs(place, after, reading));
            if before.is_empty() && after.is_empty() {
                return leaf(place, old, new, reading);
            }
            let mut nodes = Gather::default();
            for (key, old, new) in join(before, after) {
                if let Some(place) = place.under(key) {
                    nodes.push(Element::field(key), walk(place, old, new, reading));
                }
            }
            nodes.finish()
        }
    };
    nodes.added.member |= old.is_none();
    nodes.removed.member |= new.is_none();
    nodes.modified.member |= matches!(place.kind, Kind::Any) && differ_in_kind(old, new);
    nodes
}

fn leaf(place: Place<'_>, old: Option<&Tree>, new: Option<&Tree>, reading: Reading) -> Nodes {
    let mut nodes = Nodes::default();
    match (old, new) {
        (None, _) => nodes.added.member = true,
        (_, None) => nodes.removed.member = true,
        (Some(old), Some(new)) => nodes.modified.member = !same(place, old, new, reading),
    }
    nodes
}

/// Any JSON may turn from a map into something else. Null is a map without content.
fn differ_in_kind(old: Option<&Tree>, new: Option<&Tree>) -> bool {
    let is_map = |value: &Tree| matches!(value, Tree::Map(_) | Tree::Null);
    matches!((old, new), (Some(old), Some(new)) if is_map(old) != is_map(new))
}

fn walk_items(list: &Field, old: &[Tree], new: &[Tree], reading: Reading) -> Nodes {
    let (old, new) = (by_step(list, old), by_step(list, new));
    let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
    let mut nodes = Gather::default();
    while let Some(element) = [old.peek(), new.peek()]
        .into_iter()
        .flatten()
        .map(|pair| &pair.0)
        .min()
        .cloned()
    {
        let old = old
            .next_if(|pair| pair.0 == element)
            .map(|pair| pair.1)
            .unwrap_or_default();
        let new = new
            .next_if(|pair| pair.0 == element)
            .map(|pair| pair.1)
            .unwrap_or_default();
        let changed = walk_item(Place::of_element(list), &old, &new, reading);
        nodes.push(element, changed);
    }
    nodes.finish()
}

/// An item, which may come twice: then nothing is known of its content, only that it is there.
fn walk_item(place: Place<'_>, old: &[&Tree], new: &[&Tree], reading: Reading) -> Nodes {
    let mut nodes = match (old.len(), new.len()) {
        (0..=1, 0..=1) => return walk(place, old.first().copied(), new.first().copied(), reading),
        (0..=1, _) => old.first().map(|old| walk(place, Some(old), None, reading)),
        (_, 0..=1) => new.first().map(|new| walk(place, None, Some(new), reading)),
        _ => None,
    }
    .unwrap_or_default();
    match (old.len(), new.len()) {
        (0..=1, _) => nodes.added.member = true,
        (_, 0..=1) => nodes.removed.member = true,
        _ => nodes.modified.member = old != new,
    }
    nodes
}

/// The items of a list by their step, sorted. An item that has none is passed over.
fn by_step<'a>(list: &Field, items: &'a [Tree]) -> Vec<(Element, Vec<&'a Tree>)> {
    let mut steps: Vec<(Element, &Tree)> = items
        .iter()
        .filter_map(|item| Some((step(list, item).ok()?, item)))
        .collect();
    steps.sort_by(|left, right| left.0.cmp(&right.0));
    let same = steps.chunk_by(|left, right| left.0 == right.0);
    same.map(|same| (same[0].0.clone(), same.iter().map(|pair| pair.1).collect()))
        .collect()
}

/// The changes below one path, while they are gathered.
#[derive(Default)]
struct Gather {
    change: Change,
}

impl Gather {
    fn push(&mut self, element: Element, nodes: Nodes) {
        self.change.removed.push(element.clone(), nodes.removed);
        self.change.modified.push(element.clone(), nodes.modified);
        self.change.added.push(element, nodes.added);
    }

    fn finish(self) -> Nodes {
        Nodes {
            removed: Node::of(self.change.removed),
            modified: Node::of(self.change.modified),
            added: Node::of(self.change.added),
        }
    }
}
