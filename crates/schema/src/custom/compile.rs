//! From the document of a schema to a [`Schema`].

use crate::shape::{ListType, MapType};
use crate::tree::{Map, Tree};

use super::{Bound, Pattern, Rule, Rules, Schema, Type};

impl Schema {
    /// Compiles an `openAPIV3Schema`. What the rules of definitions refuse is left out here.
    pub fn compile(document: &Tree) -> Schema {
        let flag = |name: &str| document.get(name).and_then(Tree::as_bool) == Some(true);
        let children = |name: &str| document.get(name).and_then(Tree::as_map);
        let rules = rules(document);
        Schema {
            of: type_of(document),
            nullable: flag("nullable"),
            preserves: flag("x-kubernetes-preserve-unknown-fields"),
            embeds: flag("x-kubernetes-embedded-resource"),
            properties: children("properties")
                .into_iter()
                .flat_map(Map::iter)
                .map(|(name, schema)| (name.into(), Schema::compile(schema)))
                .collect(),
            additional: document.get("additionalProperties").and_then(additional),
            items: document
                .get("items")
                .filter(|items| items.as_map().is_some())
                .map(|items| Box::new(Schema::compile(items))),
            default: document.get("default").cloned(),
            list_type: list_type(document),
            list_keys: document
                .items("x-kubernetes-list-map-keys")
                .iter()
                .filter_map(Tree::as_str)
                .map(Into::into)
                .collect(),
            map_type: map_type(document),
            rules: (!rules.is_empty()).then(|| Box::new(rules)),
        }
    }
}

fn type_of(document: &Tree) -> Option<Type> {
    if document.get("x-kubernetes-int-or-string").and_then(Tree::as_bool) == Some(true) {
        return Some(Type::IntOrString);
    }
    match document.str_at(&["type"])? {
        "object" => Some(Type::Object),
        "array" => Some(Type::Array),
        "string" => Some(Type::String),
        "integer" => Some(Type::Integer),
        "number" => Some(Type::Number),
        "boolean" => Some(Type::Boolean),
        _ => None,
    }
}

/// `true` allows anything, null included.
fn additional(value: &Tree) -> Option<Box<Schema>> {
    match value {
        Tree::Bool(true) => Some(Box::new(Schema {
            preserves: true,
            nullable: true,
            ..Schema::default()
        })),
        Tree::Map(_) => Some(Box::new(Schema::compile(value))),
        _ => None,
    }
}

fn list_type(document: &Tree) -> Option<ListType> {
    match document.str_at(&["x-kubernetes-list-type"])? {
        "atomic" => Some(ListType::Atomic),
        "set" => Some(ListType::Set),
        "map" => Some(ListType::Map),
        _ => None,
    }
}

fn map_type(document: &Tree) -> Option<MapType> {
    match document.str_at(&["x-kubernetes-map-type"])? {
        "atomic" => Some(MapType::Atomic),
        "granular" => Some(MapType::Granular),
        _ => None,
    }
}

fn rules(document: &Tree) -> Rules {
    let count = |name: &str| {
        let number = document.get(name).and_then(Tree::as_i64)?;
        u64::try_from(number).ok()
    };
    let several = |name: &str| document.items(name).iter().map(Schema::compile).collect();
    Rules {
        required: document
            .items("required")
            .iter()
            .filter_map(Tree::as_str)
            .map(Into::into)
            .collect(),
        enumeration: document.items("enum").to_vec(),
        format: document.str_at(&["format"]).map(Into::into),
        minimum: limit(document, "minimum", "exclusiveMinimum"),
        maximum: limit(document, "maximum", "exclusiveMaximum"),
        multiple_of: number(document.get("multipleOf")),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        pattern: document
            .str_at(&["pattern"])
            .and_then(|text| Pattern::new(text).ok()),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
        all_of: several("allOf"),
        any_of: several("anyOf"),
        one_of: several("oneOf"),
        not: document.get("not").map(|not| Box::new(Schema::compile(not))),
        expressions: document
            .items("x-kubernetes-validations")
            .iter()
            .map(expression)
            .collect(),
    }
}

fn expression(rule: &Tree) -> Rule {
    let text = |name: &str| rule.str_at(&[name]).filter(|text| !text.is_empty());
    Rule {
        expression: text("rule").unwrap_or_default().to_owned(),
        message: text("message").map(Into::into),
        message_expression: text("messageExpression").map(Into::into),
        reason: text("reason").map(Into::into),
        field_path: text("fieldPath").map(Into::into),
        optional_old_self: rule.get("optionalOldSelf").and_then(Tree::as_bool) == Some(true),
    }
}

fn limit(document: &Tree, name: &str, exclusive: &str) -> Option<(f64, Bound)> {
    let limit = number(document.get(name))?;
    let bound = match document.get(exclusive).and_then(Tree::as_bool) {
        Some(true) => Bound::Exclusive,
        _ => Bound::Inclusive,
    };
    Some((limit, bound))
}

/// A number as the rules compare it.
pub(super) fn number(value: Option<&Tree>) -> Option<f64> {
    match value? {
        Tree::Int(number) => Some(*number as f64),
        Tree::Float(number) => Some(*number),
        _ => None,
    }
}

impl Rules {
    fn is_empty(&self) -> bool {
        self.required.is_empty()
            && self.enumeration.is_empty()
            && self.format.is_none()
            && self.minimum.is_none()
            && self.maximum.is_none()
            && self.multiple_of.is_none()
            && self.min_length.is_none()
            && self.max_length.is_none()
            && self.pattern.is_none()
            && self.min_items.is_none()
            && self.max_items.is_none()
            && self.min_properties.is_none()
            && self.max_properties.is_none()
            && self.all_of.is_empty()
            && self.any_of.is_empty()
            && self.one_of.is_empty()
            && self.not.is_none()
            && self.expressions.is_empty()
    }
}

impl Pattern {
    /// Compiles a regular expression; otherwise says why it is none.
    pub fn new(text: &str) -> Result<Self, String> {
        let regex = regex::Regex::new(text).map_err(|error| error.to_string())?;
        Ok(Self {
            text: text.to_owned(),
            regex,
        })
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}
