//! Removal of a set of paths from a value, and the declared fields above them.

use super::field_set::{FieldSet, FieldSetNode};
use super::path_element::PathElement;
use super::schema_node::{NodeKind, SchemaNode, path_element};
use crate::shape::Shape;
use crate::tree::Tree;

/// The object without the paths of a set. A collection that becomes empty becomes null.
pub(super) fn remove(shape: &Shape, mut object: Tree, paths: &FieldSet) -> Tree {
    remove_paths(SchemaNode::of_shape(shape), &mut object, paths);
    object
}

fn remove_paths(schema: SchemaNode<'_>, value: &mut Tree, paths: &FieldSet) {
    if schema.atomic || paths.is_empty() {
        return;
    }
    let empty = match (schema.kind, &mut *value) {
        (NodeKind::List(list), Tree::List(items)) => {
            items.retain_mut(|item| {
                let element = path_element(list, item).ok();
                retain(
                    SchemaNode::of_element(list),
                    item,
                    element.and_then(|element| paths.at(&element)),
                )
            });
            items.is_empty()
        }
        (NodeKind::Struct(_) | NodeKind::Map(_) | NodeKind::Any, Tree::Map(map)) => {
            map.retain(|key, value| match schema.child(key) {
                Some(schema) => retain(schema, value, paths.at(&PathElement::field(key))),
                None => true,
            });
            map.is_empty()
        }
        _ => false,
    };
    if empty {
        *value = Tree::Null;
    }
}

/// Removes the paths below a value, and returns whether the value itself stays.
fn retain(schema: SchemaNode<'_>, value: &mut Tree, node: Option<&FieldSetNode>) -> bool {
    let Some(node) = node else { return true };
    if !node.member {
        remove_paths(schema, value, &node.children);
    }
    !node.member
}

/// The set with every declared field above one of its paths (upstream: `EnsureNamedFieldsAreMembers`). Fields of structs
/// exist with their content; keys of maps and items of lists are owned by themselves.
pub(super) fn with_named_fields(shape: &Shape, set: &FieldSet) -> FieldSet {
    add_named_fields(Some(SchemaNode::of_shape(shape)), set)
}

fn add_named_fields(schema: Option<SchemaNode<'_>>, set: &FieldSet) -> FieldSet {
    let mut result = FieldSet::default();
    for (element, node) in set.iter() {
        let named =
            matches!((element, schema), (PathElement::Field(name), Some(schema)) if schema.declares(name));
        let below = schema.and_then(|schema| schema.at(element));
        let node = FieldSetNode {
            member: node.member || named,
            children: add_named_fields(below, &node.children),
        };
        result.push(element.clone(), node);
    }
    result
}
