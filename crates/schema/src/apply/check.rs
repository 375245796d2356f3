//! Whether a document that is applied fits its shape. The words are the reference server's.

use std::collections::BTreeSet;

use super::element::Element;
use super::place::{Kind, Place, Scalar, step};
use crate::patch::{go_text, go_type};
use crate::shape::{Field, Shape};
use crate::tree::{Map, Tree};

/// What is wrong with an applied document, or nothing.
pub(super) fn check(shape: &Shape, document: &Tree) -> Result<(), String> {
    let mut walk = Walk::default();
    walk.value(Place::of_shape(shape), document);
    match walk.problems.as_slice() {
        [] => Ok(()),
        [only] => Err(only.clone()),
        many => Err(format!("errors:\n  {}", many.join("\n  "))),
    }
}

#[derive(Default)]
struct Walk {
    path: String,
    problems: Vec<String>,
}

impl Walk {
    fn value(&mut self, place: Place<'_>, value: &Tree) {
        match (place.kind, value) {
            (_, Tree::Null) | (Kind::Any, _) => {}
            (Kind::Struct(_) | Kind::Map(_), Tree::Map(map)) => self.map(place, map),
            (Kind::List(field), Tree::List(items)) => self.list(place, field, items),
            (Kind::Scalar(scalar), value) => self.scalar(scalar, value),
            (Kind::Struct(_) | Kind::Map(_), other) => {
                self.report(format_args!("expected map, got &{{{}}}", go_text(other)));
            }
            (Kind::List(_), other) => self.report(format_args!("expected list, got &{{{}}}", go_text(other))),
        }
    }

    /// Nothing more is said of a struct once a field of it is unknown.
    fn map(&mut self, place: Place<'_>, map: &Map) {
        for (key, value) in map.iter() {
            let known = place.under(key);
            self.below(&Element::field(key), |walk| match known {
                Some(place) => walk.value(place, value),
                None => walk.report(format_args!("field not declared in schema")),
            });
            if known.is_none() {
                return;
            }
        }
    }

    fn list(&mut self, place: Place<'_>, field: &Field, items: &[Tree]) {
        let mut seen = BTreeSet::new();
        for (at, item) in items.iter().enumerate() {
            let element = match step(field, item) {
                _ if place.atomic => Element::Index(at as i64),
                Ok(element) => element,
                Err(why) => return self.report(format_args!("element {at}: {why}")),
            };
            if !seen.insert(element.clone()) {
                self.report(format_args!("duplicate entries for key {element}"));
            }
            self.below(&element, |walk| walk.value(Place::of_element(field), item));
        }
    }

    fn scalar(&mut self, scalar: Scalar, value: &Tree) {
        match (scalar, value) {
            (Scalar::Number, Tree::Int(_) | Tree::Float(_))
            | (Scalar::Text, Tree::Str(_))
            | (Scalar::Bool, Tree::Bool(_)) => {}
            (Scalar::Untyped, Tree::Int(_) | Tree::Float(_) | Tree::Str(_) | Tree::Bool(_)) => {}
            (Scalar::Number, other) => {
                self.report(format_args!(
                    "expected numeric (int or float), got {}",
                    go_type(other)
                ));
            }
            (Scalar::Text, other) => self.report(format_args!(
                "expected string, got &value.valueUnstructured{{Value:{}}}",
                go_syntax(other)
            )),
            (Scalar::Bool, other) => {
                self.report(format_args!("expected boolean, got &{{{}}}", go_text(other)))
            }
            (Scalar::Untyped, other) => {
                self.report(format_args!("expected any scalar, got &{{{}}}", go_text(other)));
            }
        }
    }

    fn below(&mut self, element: &Element, walk: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(&element.to_string());
        walk(self);
        self.path.truncate(length);
    }

    fn report(&mut self, problem: std::fmt::Arguments<'_>) {
        let colon = if self.path.is_empty() { "" } else { ": " };
        self.problems.push(format!("{}{colon}{problem}", self.path));
    }
}

/// A value in the syntax of the reference server's language.
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
