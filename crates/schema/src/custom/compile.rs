//! Compilation of an `openAPIV3Schema` into a [`Schema`].

use crate::shape::{ListType, MapType};
use crate::tree::{Map, Tree};

use super::{Bound, Enumeration, Pattern, Rule, Schema, Type, ValueValidation};

impl Schema {
    /// Compiles an `openAPIV3Schema`. Whatever CustomResourceDefinition validation rejects is ignored here.
    pub fn compile(source: &Tree) -> Schema {
        let flag = |name: &str| source.get(name).and_then(Tree::as_bool) == Some(true);
        let children = |name: &str| source.get(name).and_then(Tree::as_map);
        let rules = rules(source);
        Schema {
            value_type: type_of(source),
            nullable: flag("nullable"),
            preserve_unknown_fields: flag("x-kubernetes-preserve-unknown-fields"),
            embedded_resource: flag("x-kubernetes-embedded-resource"),
            properties: children("properties")
                .into_iter()
                .flat_map(Map::iter)
                .map(|(name, schema)| (name.into(), Schema::compile(schema)))
                .collect(),
            additional_properties: source.get("additionalProperties").and_then(additional),
            items: source
                .get("items")
                .filter(|items| items.as_map().is_some())
                .map(|items| Box::new(Schema::compile(items))),
            default: source.get("default").cloned(),
            list_type: list_type(source),
            list_keys: source
                .items("x-kubernetes-list-map-keys")
                .iter()
                .filter_map(Tree::as_str)
                .map(Into::into)
                .collect(),
            map_type: map_type(source),
            value_validation: (!rules.is_empty()).then(|| Box::new(rules)),
            ..Schema::default()
        }
    }
}

fn type_of(source: &Tree) -> Option<Type> {
    if source.get("x-kubernetes-int-or-string").and_then(Tree::as_bool) == Some(true) {
        return Some(Type::IntOrString);
    }
    match source.str_at(&["type"])? {
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
            preserve_unknown_fields: true,
            nullable: true,
            ..Schema::default()
        })),
        Tree::Map(_) => Some(Box::new(Schema::compile(value))),
        _ => None,
    }
}

fn list_type(source: &Tree) -> Option<ListType> {
    match source.str_at(&["x-kubernetes-list-type"])? {
        "atomic" => Some(ListType::Atomic),
        "set" => Some(ListType::Set),
        "map" => Some(ListType::Map),
        _ => None,
    }
}

fn map_type(source: &Tree) -> Option<MapType> {
    match source.str_at(&["x-kubernetes-map-type"])? {
        "atomic" => Some(MapType::Atomic),
        "granular" => Some(MapType::Granular),
        _ => None,
    }
}

fn rules(source: &Tree) -> ValueValidation {
    let count = |name: &str| {
        let number = source.get(name).and_then(Tree::as_i64)?;
        u64::try_from(number).ok()
    };
    let several = |name: &str| source.items(name).iter().map(Schema::compile).collect();
    ValueValidation {
        required: source
            .items("required")
            .iter()
            .filter_map(Tree::as_str)
            .map(Into::into)
            .collect(),
        enum_values: Enumeration::of(source.items("enum")),
        format: source.str_at(&["format"]).map(Into::into),
        minimum: limit(source, "minimum", "exclusiveMinimum"),
        maximum: limit(source, "maximum", "exclusiveMaximum"),
        multiple_of: number(source.get("multipleOf")),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        pattern: source.str_at(&["pattern"]).map(Pattern::new),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
        all_of: several("allOf"),
        any_of: several("anyOf"),
        one_of: several("oneOf"),
        not: source.get("not").map(|not| Box::new(Schema::compile(not))),
        expressions: source
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

fn limit(source: &Tree, name: &str, exclusive: &str) -> Option<(f64, Bound)> {
    let limit = number(source.get(name))?;
    let bound = match source.get(exclusive).and_then(Tree::as_bool) {
        Some(true) => Bound::Exclusive,
        _ => Bound::Inclusive,
    };
    Some((limit, bound))
}

/// A number as limits compare it.
pub(super) fn number(value: Option<&Tree>) -> Option<f64> {
    match value? {
        Tree::Int(number) => Some(*number as f64),
        Tree::Float(number) => Some(*number),
        _ => None,
    }
}

impl ValueValidation {
    fn is_empty(&self) -> bool {
        self.required.is_empty()
            && self.enum_values.is_empty()
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
