//! Type check of an applied configuration against its shape. The errors have the text of the reference server.

use std::collections::BTreeSet;

use super::path_element::PathElement;
use super::schema_node::{NodeKind, ScalarType, SchemaNode, path_element};
use crate::patch::{go_text, go_type};
use crate::shape::{Field, Shape};
use crate::tree::{Map, Tree};

/// Checks an applied configuration.
pub(super) fn check(shape: &Shape, applied: &Tree) -> Result<(), String> {
    let mut walk = Walk::default();
    walk.value(SchemaNode::of_shape(shape), applied);
    match walk.errors.as_slice() {
        [] => Ok(()),
        [only] => Err(only.clone()),
        many => Err(format!("errors:\n  {}", many.join("\n  "))),
    }
}

/// Whether an object has the types of its shape and no other fields, so that its fields can be owned. Lists may have
/// duplicate entries.
pub fn is_typed(shape: &Shape, object: &Tree) -> bool {
    let mut walk = Walk {
        allows_duplicates: true,
        ..Walk::default()
    };
    walk.value(SchemaNode::of_shape(shape), object);
    walk.errors.is_empty()
}

#[derive(Default)]
struct Walk {
    path: String,
    errors: Vec<String>,
    allows_duplicates: bool,
}

impl Walk {
    fn value(&mut self, node: SchemaNode<'_>, value: &Tree) {
        match (node.kind, value) {
            (_, Tree::Null) | (NodeKind::Any, _) => {}
            (NodeKind::Struct(_) | NodeKind::Map(_), Tree::Map(map)) => self.map(node, map),
            (NodeKind::List(field), Tree::List(items)) => self.list(node, field, items),
            (NodeKind::Scalar(scalar), value) => self.scalar(scalar, value),
            (NodeKind::Struct(_) | NodeKind::Map(_), other) => {
                self.report(format_args!("expected map, got &{{{}}}", go_text(other)));
            }
            (NodeKind::List(_), other) => {
                self.report(format_args!("expected list, got &{{{}}}", go_text(other)))
            }
        }
    }

    /// Checks stop at the first unknown field of a struct.
    fn map(&mut self, node: SchemaNode<'_>, map: &Map) {
        for (key, value) in map.iter() {
            let child = node.child(key);
            self.below(&PathElement::field(key), |walk| match child {
                Some(node) => walk.value(node, value),
                None => walk.report(format_args!("field not declared in schema")),
            });
            if child.is_none() {
                return;
            }
        }
    }

    fn list(&mut self, node: SchemaNode<'_>, field: &Field, items: &[Tree]) {
        let mut seen = BTreeSet::new();
        for (at, item) in items.iter().enumerate() {
            let element = match path_element(field, item) {
                _ if node.atomic => PathElement::Index(at as i64),
                Ok(element) => element,
                Err(why) => return self.report(format_args!("element {at}: {why}")),
            };
            if !seen.insert(element.clone()) && !self.allows_duplicates {
                self.report(format_args!("duplicate entries for key {element}"));
            }
            self.below(&element, |walk| walk.value(SchemaNode::of_element(field), item));
        }
    }

    fn scalar(&mut self, scalar: ScalarType, value: &Tree) {
        match (scalar, value) {
            (ScalarType::Number, Tree::Int(_) | Tree::Float(_))
            | (ScalarType::Text, Tree::Str(_))
            | (ScalarType::Bool, Tree::Bool(_)) => {}
            (ScalarType::Untyped, Tree::Int(_) | Tree::Float(_) | Tree::Str(_) | Tree::Bool(_)) => {}
            (ScalarType::Number, other) => {
                self.report(format_args!(
                    "expected numeric (int or float), got {}",
                    go_type(other)
                ));
            }
            (ScalarType::Text, other) => self.report(format_args!(
                "expected string, got &value.valueUnstructured{{Value:{}}}",
                go_syntax(other)
            )),
            (ScalarType::Bool, other) => {
                self.report(format_args!("expected boolean, got &{{{}}}", go_text(other)))
            }
            (ScalarType::Untyped, other) => {
                self.report(format_args!("expected any scalar, got &{{{}}}", go_text(other)));
            }
        }
    }

    fn below(&mut self, element: &PathElement, walk: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(&element.to_string());
        walk(self);
        self.path.truncate(length);
    }

    fn report(&mut self, error: std::fmt::Arguments<'_>) {
        let colon = if self.path.is_empty() { "" } else { ": " };
        self.errors.push(format!("{}{colon}{error}", self.path));
    }
}

/// A value in Go's `%#v` format.
fn go_syntax(value: &Tree) -> String {
    match value {
        Tree::Str(text) => format!("{text:?}"),
        Tree::Null => "interface {}(nil)".into(),
        Tree::List(items) => {
            let items: Vec<_> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Tree::Map(map) => {
            let mut pairs: Vec<_> = map.iter().collect();
            pairs.sort_by(|left, right| left.0.cmp(right.0));
            let pairs: Vec<_> = pairs
                .into_iter()
                .map(|(key, value)| format!("{key:?}:{}", go_syntax(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", pairs.join(", "))
        }
        scalar => go_text(scalar),
    }
}
