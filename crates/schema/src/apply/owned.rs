//! What somebody owns who says a document: every scalar and everything atomic in it, every item of its sets and
//! associative lists, and the structs and maps that are there without any content.

use super::element::Element;
use super::field_set::{FieldSet, Node};
use super::place::{Kind, Place, step};
use super::view::{Reading, each};
use crate::shape::{Field, Shape};
use crate::tree::{Map, Tree};

impl FieldSet {
    /// What a document says, read literally.
    pub fn of(shape: &Shape, document: &Tree) -> FieldSet {
        node(Place::of_shape(shape), document).children
    }
}

fn node(place: Place<'_>, value: &Tree) -> Node {
    match (place.kind, value) {
        (Kind::Scalar(_), _) => Node::leaf(),
        _ if place.atomic => Node::leaf(),
        (Kind::List(field), Tree::List(items)) => of_items(field, items),
        (Kind::Struct(_) | Kind::Map(_) | Kind::Any, Tree::Map(map)) => of_pairs(place, map),
        (_, Tree::Null) | (Kind::Struct(_) | Kind::Map(_) | Kind::List(_), _) => Node::default(),
        (Kind::Any, _) => Node::leaf(),
    }
}

fn of_pairs(place: Place<'_>, map: &Map) -> Node {
    let mut children = FieldSet::default();
    each(place, map, Reading::Literal, |key, below, value| {
        let mut child = node(below, value);
        child.member |= is_void(value) || !place.names(key);
        children.push(Element::field(key), child);
    });
    Node::of(children)
}

/// Of an item that comes twice only the item itself is owned, since its content is not clear.
fn of_items(list: &Field, items: &[Tree]) -> Node {
    let mut steps: Vec<(Element, &Tree)> = items
        .iter()
        .filter_map(|item| Some((step(list, item).ok()?, item)))
        .collect();
    steps.sort_by(|left, right| left.0.cmp(&right.0));
    let mut children = FieldSet::default();
    for same in steps.chunk_by(|left, right| left.0 == right.0) {
        let mut child = match same {
            [(_, item)] => node(Place::of_element(list), item),
            _ => Node::default(),
        };
        child.member = true;
        children.push(same[0].0.clone(), child);
    }
    Node::of(children)
}

fn is_void(value: &Tree) -> bool {
    match value {
        Tree::Null => true,
        Tree::Map(map) => map.is_empty(),
        _ => false,
    }
}
