//! Structural schemas of custom resources, compiled once from the CustomResourceDefinition's OpenAPI schema.
//!
//! A [`Schema`] is one node of a structural schema. [`Schema::prune`] drops unknown fields, [`Schema::apply_defaults`] fills in
//! defaults, [`Schema::validate`] and [`Schema::duplicates`] report violations, and [`Schema::to_shape`]
//! makes the [`crate::Shape`] that patches and server-side apply use.
//!
//! This module knows one node of a schema at a time and no CustomResourceDefinition as a whole: which schemas are allowed
//! at all is decided by the validation of that kind.
//!
//! Start reading at [`Schema`], then `validate`.

mod alternatives;
mod compile;
mod correlation;
mod defaulting;
mod duplicates;
mod enumeration;
mod formats;
mod number;
mod path;
mod pattern;
mod prune;
mod ratcheting;
mod rule;
mod shape;
mod validate;

pub use correlation::CorrelatedItems;
pub use defaulting::DefaultsTooLarge;
pub use enumeration::Enumeration;
pub use formats::is_recognized as is_recognized_format;
pub use pattern::Pattern;
pub use rule::Rule;
pub use validate::{SchemaViolation, ViolationKind, type_name};

use std::sync::OnceLock;

use compact_str::CompactString;

use crate::shape::{ListType, MapType};
use crate::tree::Tree;

/// Up to this many properties are scanned for a name.
const SCANNED_PROPERTIES: usize = 32;

/// One node of a structural schema.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    pub value_type: Option<Type>,
    pub nullable: bool,
    /// `x-kubernetes-preserve-unknown-fields`: unknown fields are kept.
    pub preserve_unknown_fields: bool,
    /// `x-kubernetes-embedded-resource`: the value is a whole object of some kind.
    pub embedded_resource: bool,
    /// In the order of the CustomResourceDefinition.
    pub properties: Vec<(CompactString, Schema)>,
    /// The schema of every value of a map; absent if there are only properties.
    pub additional_properties: Option<Box<Schema>>,
    pub items: Option<Box<Schema>>,
    pub default: Option<Tree>,
    pub list_type: Option<ListType>,
    pub list_keys: Vec<CompactString>,
    pub map_type: Option<MapType>,
    /// Boxed, since few nodes have any.
    pub value_validation: Option<Box<ValueValidation>>,
    /// The positions of the properties sorted by name, if there are many. Sorted by the first lookup.
    properties_by_name: OnceLock<Box<[usize]>>,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
}

/// The validations of a value besides its type.
#[derive(Clone, Debug, Default)]
pub struct ValueValidation {
    pub required: Vec<CompactString>,
    pub enum_values: Enumeration,
    pub format: Option<CompactString>,
    pub minimum: Option<(f64, Bound)>,
    pub maximum: Option<(f64, Bound)>,
    pub multiple_of: Option<f64>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub pattern: Option<Pattern>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
    pub all_of: Vec<Schema>,
    pub any_of: Vec<Schema>,
    pub one_of: Vec<Schema>,
    pub not: Option<Box<Schema>>,
    /// `x-kubernetes-validations`: CEL validation rules.
    pub expressions: Vec<Rule>,
}

/// Whether a limit itself is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    Inclusive,
    Exclusive,
}

impl Type {
    /// The name in error messages; an integer or string has two.
    pub fn name(self) -> &'static str {
        match self {
            Type::Object => "object",
            Type::Array => "array",
            Type::String => "string",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Boolean => "boolean",
            Type::IntOrString => "integer,string",
        }
    }
}

impl Schema {
    /// A schema that specifies only the type.
    pub fn of_type(value_type: Type) -> Self {
        Self {
            value_type: Some(value_type),
            ..Self::default()
        }
    }

    /// The schema of a property.
    pub fn property(&self, name: &str) -> Option<&Schema> {
        let at = match self.properties.len() {
            0..=SCANNED_PROPERTIES => self.properties.iter().position(|(own, _)| own == name)?,
            _ => self.search_property(name)?,
        };
        Some(&self.properties[at].1)
    }

    /// The position of the first property with a name, among many.
    fn search_property(&self, name: &str) -> Option<usize> {
        let name_at = |at: usize| self.properties[at].0.as_str();
        let sorted = self.properties_by_name.get_or_init(|| {
            let mut positions: Box<[usize]> = (0..self.properties.len()).collect();
            positions.sort_by_key(|at| name_at(*at));
            positions
        });
        let first = sorted.partition_point(|at| name_at(*at) < name);
        sorted.get(first).copied().filter(|at| name_at(*at) == name)
    }

    /// The schema of the value under a key: of the property, or of the map's values.
    pub fn child(&self, key: &str) -> Option<&Schema> {
        self.property(key).or(self.additional_properties.as_deref())
    }

    /// Whether this is the schema of values under `additionalProperties: true`.
    pub fn is_anything(&self) -> bool {
        self.value_type.is_none()
            && self.nullable
            && self.preserve_unknown_fields
            && self.properties.is_empty()
    }

    /// Whether this node or any below is an embedded resource.
    pub fn has_embedded_resource(&self) -> bool {
        self.embedded_resource
            || self
                .properties
                .iter()
                .any(|(_, schema)| schema.has_embedded_resource())
            || self
                .additional_properties
                .as_ref()
                .is_some_and(|schema| schema.has_embedded_resource())
            || self
                .items
                .as_ref()
                .is_some_and(|schema| schema.has_embedded_resource())
    }

    /// Whether this node or any below has a default.
    pub fn has_defaults(&self) -> bool {
        self.default.is_some()
            || self.properties.iter().any(|(_, schema)| schema.has_defaults())
            || self
                .additional_properties
                .as_ref()
                .is_some_and(|schema| schema.has_defaults())
            || self.items.as_ref().is_some_and(|schema| schema.has_defaults())
    }
}

#[cfg(test)]
mod tests;
