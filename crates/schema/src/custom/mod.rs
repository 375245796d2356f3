//! The shape of a custom kind: what its definition's OpenAPI schema says, compiled once.
//!
//! A [`Schema`] is a structural schema. [`Schema::prune`] drops what it does not know, [`Schema::fill`] fills in
//! defaults, [`Schema::validate`] and [`Schema::duplicates`] report what breaks its rules, and [`Schema::to_shape`] makes the [`crate::Shape`] that
//! patches and server-side apply walk.
//!
//! This room knows one node of a schema at a time and no definition as a whole: which schemas are allowed at all is a
//! rule of the kind that defines them.
//!
//! Start reading at [`Schema`], then `validate`.

mod compile;
mod fill;
mod formats;
mod judge;
mod prune;
mod shape;
mod unchanged;
mod unique;
mod validate;

pub use judge::{Judge, Rule, Verdict};
pub use validate::{Report, Subject};

use compact_str::CompactString;

use crate::shape::{ListType, MapType};
use crate::tree::Tree;

/// One node of a structural schema.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    pub of: Option<Type>,
    pub nullable: bool,
    /// Fields that are not named are kept.
    pub preserves: bool,
    /// A whole object of some kind stands here.
    pub embeds: bool,
    /// In the order of the definition.
    pub properties: Vec<(CompactString, Schema)>,
    /// What every value of a map is; absent if there are only properties.
    pub additional: Option<Box<Schema>>,
    pub items: Option<Box<Schema>>,
    pub default: Option<Tree>,
    pub list_type: Option<ListType>,
    pub list_keys: Vec<CompactString>,
    pub map_type: Option<MapType>,
    /// Few nodes have any.
    pub rules: Option<Box<Rules>>,
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

/// What a value must be besides its type.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub required: Vec<CompactString>,
    pub enumeration: Vec<Tree>,
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
    /// Rules that are expressions.
    pub expressions: Vec<Rule>,
}

/// Whether a limit itself is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    Inclusive,
    Exclusive,
}

/// A regular expression with its text.
#[derive(Clone, Debug)]
pub struct Pattern {
    pub text: String,
    regex: regex::Regex,
}

impl Type {
    /// The word of the schema; an integer or string has two.
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
    /// The schema of a property.
    pub fn property(&self, name: &str) -> Option<&Schema> {
        let mut properties = self.properties.iter();
        properties.find(|(own, _)| own == name).map(|(_, schema)| schema)
    }

    /// The schema of what stands under a key: a property, or the value of a map.
    pub fn under(&self, key: &str) -> Option<&Schema> {
        self.property(key).or(self.additional.as_deref())
    }

    /// Whether this is what `additionalProperties: true` says of values.
    pub(crate) fn is_anything(&self) -> bool {
        self.of.is_none() && self.nullable && self.preserves && self.properties.is_empty()
    }

    /// Whether an object is embedded anywhere below.
    pub fn has_embedded(&self) -> bool {
        self.embeds
            || self.properties.iter().any(|(_, schema)| schema.has_embedded())
            || self
                .additional
                .as_ref()
                .is_some_and(|schema| schema.has_embedded())
            || self.items.as_ref().is_some_and(|schema| schema.has_embedded())
    }

    /// Whether anything below has a default.
    pub fn has_defaults(&self) -> bool {
        self.default.is_some()
            || self.properties.iter().any(|(_, schema)| schema.has_defaults())
            || self
                .additional
                .as_ref()
                .is_some_and(|schema| schema.has_defaults())
            || self.items.as_ref().is_some_and(|schema| schema.has_defaults())
    }
}

#[cfg(test)]
mod tests;
