//! What is different between two documents, path by path.
//!
//! A struct or map that comes is added itself and with everything in it; the same when it goes. Where both have one, only
//! what differs inside counts. What is atomic differs as a whole, and so do structs, maps and lists without content.

use std::cmp::Ordering;

use smallvec::SmallVec;

use super::element::Element;
use super::field_set::{FieldSet, Node};
use super::place::{Kind, Place, step};
use super::view::{Reading, both, each, same};
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
    pub(super) fn into_set(self) -> FieldSet {
        self.modified.union(self.added)
    }

    /// Takes out of a set whatever changed, be it that it is gone.
    pub(super) fn take_from(&self, set: &mut FieldSet) {
        for changed in [&self.removed, &self.modified, &self.added] {
            set.subtract(changed);
        }
    }
}

fn walk(place: Place<'_>, old: Option<&Tree>, new: Option<&Tree>, reading: Reading) -> Nodes {
    match (old, new) {
        (Some(old), Some(new)) => walk_both(place, old, new, reading),
        (Some(old), None) => Nodes {
            removed: whole(place, old, reading),
            ..Nodes::default()
        },
        (None, Some(new)) => Nodes {
            added: whole(place, new, reading),
            ..Nodes::default()
        },
        (None, None) => Nodes::default(),
    }
}

fn walk_both(place: Place<'_>, old: &Tree, new: &Tree, reading: Reading) -> Nodes {
    if old == new {
        return Nodes::default();
    }
    match place.kind {
        _ if place.atomic => leaf(place, old, new, reading),
        Kind::Scalar(_) => leaf(place, old, new, reading),
        Kind::List(field) => {
            let (before, after) = (
                old.as_list().unwrap_or_default(),
                new.as_list().unwrap_or_default(),
            );
            if before.is_empty() && after.is_empty() {
                return leaf(place, old, new, reading);
            }
            let (before, after) = (by_step(field, before), by_step(field, after));
            walk_items(Place::of_element(field), before, after, reading)
        }
        Kind::Struct(_) | Kind::Map(_) | Kind::Any => {
            let both = both(place, old.as_map(), new.as_map(), reading);
            if both.is_empty() {
                return leaf(place, old, new, reading);
            }
            let mut nodes = Gather::default();
            for (key, place, old, new) in both {
                nodes.push(|| Element::field(key), walk(place, old, new, reading));
            }
            let mut nodes = nodes.finish();
            nodes.modified.member = matches!(place.kind, Kind::Any) && differ_in_kind(old, new);
            nodes
        }
    }
}

/// A value that comes or goes, with everything in it.
fn whole(place: Place<'_>, value: &Tree, reading: Reading) -> Node {
    let mut children = FieldSet::default();
    match (place.kind, value) {
        _ if place.atomic => {}
        (Kind::List(field), Tree::List(items)) => {
            children = FieldSet::with_capacity(items.len());
            for (element, same) in by_step(field, items) {
                children.push(element, whole_item(Place::of_element(field), &same, reading));
            }
        }
        (Kind::Struct(_) | Kind::Map(_) | Kind::Any, Tree::Map(map)) => {
            children = FieldSet::with_capacity(map.len());
            each(place, map, reading, |key, place, value| {
                children.push(Element::field(key), whole(place, value, reading));
            });
        }
        _ => {}
    }
    Node {
        member: true,
        ..Node::of(children)
    }
}

fn whole_item(place: Place<'_>, same: &[&Tree], reading: Reading) -> Node {
    match same {
        [only] => whole(place, only, reading),
        _ => Node::leaf(),
    }
}

fn leaf(place: Place<'_>, old: &Tree, new: &Tree, reading: Reading) -> Nodes {
    let mut nodes = Nodes::default();
    nodes.modified.member = !same(place, old, new, reading);
    nodes
}

/// Any JSON may turn from a map into something else. Null is a map without content.
fn differ_in_kind(old: &Tree, new: &Tree) -> bool {
    let is_map = |value: &Tree| matches!(value, Tree::Map(_) | Tree::Null);
    is_map(old) != is_map(new)
}

fn walk_items<'a>(place: Place<'_>, old: Vec<Items<'a>>, new: Vec<Items<'a>>, reading: Reading) -> Nodes {
    let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
    let mut nodes = Gather::default();
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return nodes.finish(),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => old.0.cmp(&new.0),
        };
        let before = old.next_if(|_| order.is_le());
        let after = new.next_if(|_| order.is_ge());
        let changed = walk_item(place, items(&before), items(&after), reading);
        let (element, _) = before.or(after).expect("one of both lists has an item left");
        nodes.push(|| element.clone(), changed);
    }
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

/// The items with one step; more than one if the list has it twice.
type Items<'a> = (Element, SmallVec<[&'a Tree; 1]>);

fn items<'b, 'a>(items: &'b Option<Items<'a>>) -> &'b [&'a Tree] {
    items.as_ref().map_or(&[], |(_, items)| items)
}

/// The items of a list by their step, sorted. An item that has none is passed over.
fn by_step<'a>(list: &Field, items: &'a [Tree]) -> Vec<Items<'a>> {
    let steps = items
        .iter()
        .filter_map(|item| Some((step(list, item).ok()?, item)));
    let mut steps: Vec<Items<'a>> = steps
        .map(|(element, item)| (element, SmallVec::from([item])))
        .collect();
    steps.sort_by(|left, right| left.0.cmp(&right.0));
    steps.dedup_by(|later, earlier| {
        let again = later.0 == earlier.0;
        if again {
            earlier.1.append(&mut later.1);
        }
        again
    });
    steps
}

/// The changes below one path, while they are gathered.
#[derive(Default)]
struct Gather {
    change: Change,
}

impl Gather {
    /// Adds what changed at a step, which is only made if something did.
    fn push(&mut self, element: impl Fn() -> Element, nodes: Nodes) {
        let sets = [
            (&mut self.change.removed, nodes.removed),
            (&mut self.change.modified, nodes.modified),
            (&mut self.change.added, nodes.added),
        ];
        for (set, node) in sets.into_iter().filter(|(_, node)| !node.is_empty()) {
            set.push(element(), node);
        }
    }

    fn finish(self) -> Nodes {
        Nodes {
            removed: Node::of(self.change.removed),
            modified: Node::of(self.change.modified),
            added: Node::of(self.change.added),
        }
    }
}
