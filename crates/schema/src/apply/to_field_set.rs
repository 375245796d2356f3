//! The field set of a value, which its applier owns: every scalar and atomic value, every item of sets and associative
//! lists, and empty structs and maps.

use super::field_set::{FieldSet, FieldSetNode};
use super::path_element::PathElement;
use super::schema_node::{NodeKind, SchemaNode, path_element};
use super::traversal::{ReadMode, for_each_field};
use crate::shape::{Field, Shape};
use crate::tree::{Map, Tree};

impl FieldSet {
    /// The field set of a value, read literally.
    pub fn from_value(shape: &Shape, value: &Tree) -> FieldSet {
        node(SchemaNode::of_shape(shape), value).children
    }
}

fn node(schema: SchemaNode<'_>, value: &Tree) -> FieldSetNode {
    match (schema.kind, value) {
        (NodeKind::Scalar(_), _) => FieldSetNode::leaf(),
        _ if schema.atomic => FieldSetNode::leaf(),
        (NodeKind::List(field), Tree::List(items)) => of_items(field, items),
        (NodeKind::Struct(_) | NodeKind::Map(_) | NodeKind::Any, Tree::Map(map)) => of_pairs(schema, map),
        (_, Tree::Null) | (NodeKind::Struct(_) | NodeKind::Map(_) | NodeKind::List(_), _) => {
            FieldSetNode::default()
        }
        (NodeKind::Any, _) => FieldSetNode::leaf(),
    }
}

fn of_pairs(schema: SchemaNode<'_>, map: &Map) -> FieldSetNode {
    let mut children = FieldSet::default();
    for_each_field(schema, map, ReadMode::Literal, |key, below, value| {
        let mut child = node(below, value);
        child.member |= is_empty(value) || !schema.declares(key);
        children.push(PathElement::field(key), child);
    });
    FieldSetNode::of(children)
}

/// Of a duplicate item only the item itself is owned, since its content is ambiguous.
fn of_items(list: &Field, items: &[Tree]) -> FieldSetNode {
    let mut keyed_items: Vec<(PathElement, &Tree)> = items
        .iter()
        .filter_map(|item| Some((path_element(list, item).ok()?, item)))
        .collect();
    keyed_items.sort_by(|left, right| left.0.cmp(&right.0));
    let mut children = FieldSet::default();
    for same in keyed_items.chunk_by(|left, right| left.0 == right.0) {
        let mut child = match same {
            [(_, item)] => node(SchemaNode::of_element(list), item),
            _ => FieldSetNode::default(),
        };
        child.member = true;
        children.push(same[0].0.clone(), child);
    }
    FieldSetNode::of(children)
}

fn is_empty(value: &Tree) -> bool {
    match value {
        Tree::Null => true,
        Tree::Map(map) => map.is_empty(),
        _ => false,
    }
}
