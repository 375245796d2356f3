//! The merge of a configuration into an object without field ownership: for policies that change objects.

use super::check::check;
use super::merge::merge;
use super::path_element::PathElement;
use super::schema_node::{NodeKind, SchemaNode};
use crate::shape::Shape;
use crate::tree::Tree;

/// Why a configuration is not merged. The texts are those of the reference server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// The configuration does not have the types of the schema.
    #[error("failed to convert patch object to typed object: {0}")]
    Untyped(String),
    /// The configuration has lists, maps or structs that can only be replaced as a whole, at these paths: to set one of
    /// their fields would remove the others.
    #[error("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}", .0.join(", "))]
    Atomic(Vec<String>),
}

/// Merges a configuration into an object: structs, maps, sets and associative lists are merged, scalars are replaced.
pub fn merge_configuration(object: &Tree, configuration: &Tree, shape: &Shape) -> Result<Tree, MergeError> {
    check(shape, configuration).map_err(MergeError::Untyped)?;
    let mut atomics = Vec::new();
    find_atomics(SchemaNode::of_shape(shape), configuration, "", &mut atomics);
    match atomics.is_empty() {
        true => Ok(merge(shape, object, configuration)),
        false => Err(MergeError::Atomic(atomics)),
    }
}

/// Adds the paths of atomic lists, maps and structs. Items are named by their index; the values of maps are not visited.
fn find_atomics(node: SchemaNode<'_>, value: &Tree, path: &str, atomics: &mut Vec<String>) {
    match (node.kind, value) {
        (NodeKind::Struct(_) | NodeKind::Map(_), Tree::Map(map)) => {
            if node.atomic {
                atomics.push(path.to_owned());
            }
            for (key, value) in map.iter().filter(|(key, _)| node.declares(key)) {
                if let Some(child) = node.child(key) {
                    let path = format!("{path}{}", PathElement::field(key));
                    find_atomics(child, value, &path, atomics);
                }
            }
        }
        (NodeKind::List(field), Tree::List(items)) => {
            if node.atomic {
                atomics.push(path.to_owned());
            }
            for (at, item) in items.iter().enumerate() {
                let path = format!("{path}{}", PathElement::Index(at as i64));
                find_atomics(SchemaNode::of_element(field), item, &path, atomics);
            }
        }
        _ => {}
    }
}
