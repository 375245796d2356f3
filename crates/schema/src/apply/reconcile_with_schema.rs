//! Reconciliation of stored field sets with a schema that has changed since: what was granular and is atomic now is owned
//! as a whole.

use super::field_set::{FieldSet, FieldSetNode};
use super::schema_node::SchemaNode;
use crate::shape::Shape;

/// Reconciles a manager's field set with the shape.
pub(super) fn reconcile_field_set(shape: &Shape, fields: &mut FieldSet) {
    let schema = SchemaNode::of_shape(shape);
    if is_outdated(schema, fields) {
        *fields = reconciled(schema, fields);
    }
}

fn is_outdated(schema: SchemaNode<'_>, set: &FieldSet) -> bool {
    set.iter().any(|(element, node)| match schema.at(element) {
        Some(schema) if schema.atomic => !node.children.is_empty(),
        Some(schema) => is_outdated(schema, &node.children),
        None => false,
    })
}

fn reconciled(schema: SchemaNode<'_>, set: &FieldSet) -> FieldSet {
    let mut reconciled = FieldSet::default();
    for (element, node) in set.iter() {
        let node = match schema.at(element) {
            Some(schema) if schema.atomic => FieldSetNode::leaf(),
            Some(schema) => FieldSetNode {
                member: node.member,
                children: self::reconciled(schema, &node.children),
            },
            None => node.clone(),
        };
        reconciled.push(element.clone(), node);
    }
    reconciled
}
