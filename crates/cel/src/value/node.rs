//! Nodes of objects: the only module that reads the representation of an object.

use std::sync::Arc;

use base64::Engine;
use setpoint_schema::Tree;

use super::{List, Map, Text, Value};
use crate::cel_type::Type;
use crate::value_schema::{DYN, ListSemantics, Shape, ValueSchema, escape, find_field};

/// A node of an object with its declared schema.
#[derive(Debug, Clone, Copy)]
pub struct Node<'a> {
    tree: &'a Tree,
    declared: &'a ValueSchema,
}

impl<'a> Value<'a> {
    /// The value of a tree about which nothing is declared: times and quantities are strings.
    pub fn from_tree(tree: &'a Tree) -> Self {
        Node::new(tree, &DYN).value()
    }
}

impl<'a> Node<'a> {
    pub(crate) fn new(tree: &'a Tree, declared: &'a ValueSchema) -> Self {
        Self { tree, declared }
    }

    /// The value of the node, by its declared type.
    pub(crate) fn value(self) -> Value<'a> {
        match (self.tree, &self.declared.own_type) {
            (Tree::Null, _) => Value::Null,
            (Tree::Bool(value), _) => Value::Bool(*value),
            (Tree::Int(value), Type::Double) => Value::Double(*value as f64),
            (Tree::Int(value), _) => Value::Int(*value),
            (Tree::Float(value), Type::Int) if value.fract() == 0.0 => Value::Int(*value as i64),
            (Tree::Float(value), _) => Value::Double(*value),
            (Tree::Str(text), Type::Bytes) => decode_base64(text),
            (Tree::Str(text), Type::Timestamp) => {
                crate::time::parse_timestamp(text).map_or(Value::Null, Value::Timestamp)
            }
            (Tree::Str(text), Type::Duration) => {
                crate::time::parse_duration(text).map_or(Value::Null, Value::Duration)
            }
            (Tree::Str(text), _) => Value::String(Text::Borrowed(text)),
            (Tree::List(_), _) => Value::List(List::Node(self)),
            (Tree::Map(_), _) => Value::Map(Map::Node(self)),
        }
    }

    pub(super) fn items(self) -> &'a [Tree] {
        self.tree.as_list().unwrap_or_default()
    }

    pub(super) fn item(self, index: usize) -> Option<Value<'a>> {
        let declared = match &self.declared.shape {
            Shape::List(items, _) => items,
            _ => &DYN,
        };
        self.items()
            .get(index)
            .map(|tree| Node { tree, declared }.value())
    }

    /// How its items are identified, if it is a list.
    pub(super) fn semantics(self) -> Option<&'a ListSemantics> {
        match &self.declared.shape {
            Shape::List(_, semantics) => Some(semantics),
            _ => None,
        }
    }

    /// The value of a field by its name in expressions, or of a key of a map. A declared field that is null is absent.
    pub(super) fn field(self, name: &str) -> Option<Value<'a>> {
        let (tree, declared) = match &self.declared.shape {
            Shape::Object(fields) => {
                let field = find_field(fields, name)?;
                let tree = self.tree.get(&field.name).filter(|tree| !tree.is_null())?;
                (tree, &field.declared)
            }
            Shape::Map(values) => (self.tree.get(name)?, &**values),
            _ => (self.tree.get(name)?, &DYN),
        };
        Some(Node { tree, declared }.value())
    }

    /// Equality with another object of the same declared type; `None` if this is no object with declared fields. Fields
    /// that are not declared are compared as they are.
    pub(super) fn equals_object(self, other: Node<'_>) -> Option<bool> {
        let Shape::Object(fields) = &self.declared.shape else {
            return None;
        };
        let (own, other_map) = (self.tree.as_map()?, other.tree.as_map()?);
        if own.len() != other_map.len() {
            return Some(false);
        }
        let is_declared = |key: &str| escape(key).is_some_and(|name| fields.contains_key(&name));
        let declared = fields
            .keys()
            .all(|name| match (self.field(name), other.field(name)) {
                (Some(own), Some(other)) => own.equals(&other),
                (own, other) => own.is_none() && other.is_none(),
            });
        let mut undeclared = own.iter().filter(|(key, _)| !is_declared(key));
        Some(
            declared
                && undeclared
                    .all(|(key, tree)| other_map.get(key).is_none_or(|other| tree.semantic_eq(other))),
        )
    }

    /// Keys and values. The keys of an object are its field names in expressions.
    pub(super) fn entries(self) -> Vec<(Value<'a>, Value<'a>)> {
        let Some(map) = self.tree.as_map() else {
            return Vec::new();
        };
        match &self.declared.shape {
            Shape::Object(fields) => fields
                .iter()
                .filter_map(|(name, field)| {
                    let tree = map.get(&field.name)?;
                    let declared = &field.declared;
                    Some((
                        Value::String(Text::Borrowed(name)),
                        Node { tree, declared }.value(),
                    ))
                })
                .collect(),
            shape => {
                let declared = match shape {
                    Shape::Map(values) => values,
                    _ => &DYN,
                };
                map.iter()
                    .map(|(key, tree)| {
                        (
                            Value::String(Text::Borrowed(key)),
                            Node { tree, declared }.value(),
                        )
                    })
                    .collect()
            }
        }
    }

    pub(super) fn map_type(self) -> Type {
        match &self.declared.own_type {
            object @ Type::Object(_) => object.clone(),
            _ => Type::map(Type::Dyn, Type::Dyn),
        }
    }
}

fn decode_base64(text: &str) -> Value<'static> {
    let decoded = base64::engine::general_purpose::STANDARD.decode(text);
    Value::Bytes(Arc::from(decoded.unwrap_or_default()))
}
