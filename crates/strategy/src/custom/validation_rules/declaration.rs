//! The types of values in expressions, and how large they may be, declared from a structural schema.
//!
//! Upstream: apiserver `pkg/cel/common/schemas.go`, and `WithTypeAndObjectMeta` of apiextensions-apiserver. The sizes are
//! a part of the API, since the estimated cost of a rule is limited.

use std::sync::Arc;

use setpoint_cel::{ListSemantics, Type as CelType, ValueSchema, escape};
use setpoint_schema::custom::{Schema, Type};
use setpoint_schema::shape::ListType;
use setpoint_schema::{Tree, fields};

/// The name of the type of `self`, which no expression can name. Types below it are named after their path.
const SELF_TYPE: &str = "selfType0";

/// The most bytes of a request body, which bound the size of everything in it.
const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024;

/// The most characters of a string without a limit: those of a body with nothing else.
const MAX_STRING: u64 = MAX_REQUEST_BYTES - 2;

/// The most characters of `metadata.name`.
const MAX_NAME: u64 = 253;

/// The most characters of a duration or timestamp in JSON.
const MAX_TIME: u64 = 32;

/// The characters of a date in JSON.
const DATE: u64 = 12;

/// The declared type of a value.
#[derive(Debug, Clone)]
pub struct Declaration {
    value: ValueSchema,
    /// The fewest bytes that the value has in JSON.
    min_bytes: u64,
}

impl Declaration {
    /// The declaration of the value of a schema; `None` if its type is not specified. `is_resource_root`: the value has
    /// `apiVersion`, `kind` and metadata, of which expressions see the name and generateName.
    pub fn of(schema: &Schema, is_resource_root: bool) -> Option<Self> {
        declare(schema, is_resource_root, SELF_TYPE)
    }

    /// The declaration of a property of a resource.
    pub(super) fn of_resource_property(resource: &Schema, name: &str) -> Option<Self> {
        let implied = resource_properties(resource);
        let implied = implied.as_ref().and_then(|implied| {
            let (_, schema) = implied.iter().find(|(own, _)| *own == name)?;
            Some(schema)
        });
        let property = implied.or_else(|| resource.property(name))?;
        Self::of(property, property.embedded_resource)
    }

    /// Whether a schema has a declaration.
    pub(super) fn exists(schema: &Schema) -> bool {
        match (schema.value_type, &schema.items, values_of(schema)) {
            (None, ..) => false,
            (Some(Type::Array), items, _) => items.as_deref().is_some_and(Self::exists),
            (Some(Type::Object), _, Some(values)) => Self::exists(values),
            _ => true,
        }
    }

    pub(super) fn value(&self) -> &ValueSchema {
        &self.value
    }

    /// How often the value may be in one object, if no schema above limits it.
    pub fn max_cardinality(&self) -> u64 {
        MAX_REQUEST_BYTES / (self.min_bytes + 1)
    }

    fn new(value: ValueSchema, min_bytes: u64, max_size: u64) -> Self {
        Self {
            value: value.with_max_size(max_size),
            min_bytes,
        }
    }

    fn scalar(own_type: CelType, min_bytes: u64, max_size: u64) -> Self {
        Self::new(ValueSchema::scalar(own_type), min_bytes, max_size)
    }
}

fn declare(schema: &Schema, is_resource_root: bool, name: &str) -> Option<Declaration> {
    Some(match schema.value_type? {
        Type::IntOrString => {
            let max = max_length(schema).map_or(MAX_STRING, |length| length.saturating_mul(4));
            Declaration::scalar(CelType::Dyn, 1, max)
        }
        Type::Boolean => Declaration::scalar(CelType::Bool, 4, 0),
        Type::Integer => Declaration::scalar(CelType::Int, 1, 0),
        Type::Number => Declaration::scalar(CelType::Double, 1, 0),
        Type::String => declare_string(schema),
        Type::Array => declare_list(schema, name)?,
        Type::Object => match values_of(schema) {
            Some(values) => declare_map(schema, values, name)?,
            None => declare_object(schema, is_resource_root, name),
        },
    })
}

fn declare_string(schema: &Schema) -> Declaration {
    let rules = schema.value_validation.as_deref();
    match rules.and_then(|rules| rules.format.as_deref()) {
        Some("byte") => Declaration::scalar(CelType::Bytes, 2, max_length(schema).unwrap_or(MAX_STRING)),
        Some("duration") => Declaration::scalar(CelType::Duration, 3, MAX_TIME),
        Some("date") => Declaration::scalar(CelType::Timestamp, DATE, DATE),
        Some("date-time") => Declaration::scalar(CelType::Timestamp, 21, MAX_TIME),
        _ => {
            let max = max_length(schema).map(|length| length.saturating_mul(4));
            let max = max.or_else(|| longest_enum_value(schema));
            Declaration::scalar(CelType::String, 2, max.unwrap_or(MAX_STRING))
        }
    }
}

fn declare_list(schema: &Schema, name: &str) -> Option<Declaration> {
    let items = schema.items.as_deref()?;
    let items = declare(items, items.embedded_resource, &format!("{name}.@idx"))?;
    let max = limit(schema, |rules| rules.max_items);
    let max = max.unwrap_or((MAX_REQUEST_BYTES - 2) / (items.min_bytes + 1));
    let list = ValueSchema::list(items.value, semantics(schema));
    Some(Declaration::new(list, 2, max))
}

fn declare_map(schema: &Schema, values: &Schema, name: &str) -> Option<Declaration> {
    let values = declare(values, values.embedded_resource, &format!("{name}.@elem"))?;
    let max = limit(schema, |rules| rules.max_properties);
    let max = max.unwrap_or((MAX_REQUEST_BYTES - 2) / (values.min_bytes + 6));
    Some(Declaration::new(ValueSchema::map(values.value), 2, max))
}

fn declare_object(schema: &Schema, is_resource_root: bool, name: &str) -> Declaration {
    let implied = is_resource_root.then(|| resource_properties(schema)).flatten();
    let implied = implied.iter().flatten();
    let is_implied = |name: &str| implied.clone().any(|(own, _)| *own == name);
    let own = schema.properties.iter();
    let own = own.map(|(name, property)| (name.as_str(), property));
    let own = own.filter(|(name, _)| !is_implied(name));
    let properties = own.chain(implied.clone().map(|(name, property)| (*name, property)));

    let mut min_bytes = 2;
    let mut declared = Vec::new();
    for (property_name, property) in properties {
        let escaped = escape(property_name);
        let path = format!("{name}.{}", escaped.as_deref().unwrap_or(property_name));
        let Some(declaration) = declare(property, property.embedded_resource, &path) else {
            continue;
        };
        if is_required(schema, property_name) && property.default.is_none() {
            min_bytes += property_name.len() as u64 + declaration.min_bytes + 4;
        }
        declared.push((property_name.to_owned(), declaration.value));
    }
    Declaration::new(ValueSchema::object(name, declared), min_bytes, 0)
}

/// The properties that every resource has, unless its schema declares all of them.
fn resource_properties(schema: &Schema) -> Option<[(&'static str, Schema); 3]> {
    let metadata = schema.property(fields::METADATA);
    let name = metadata.and_then(|metadata| metadata.property(fields::NAME));
    let generate_name = metadata.and_then(|metadata| metadata.property(fields::GENERATE_NAME));
    let has_type =
        |property: Option<&Schema>, expected: Type| property.and_then(|one| one.value_type) == Some(expected);
    let is_declared = has_type(metadata, Type::Object)
        && [
            schema.property(fields::KIND),
            schema.property(fields::API_VERSION),
            name,
            generate_name,
        ]
        .into_iter()
        .all(|property| has_type(property, Type::String));
    if is_declared {
        return None;
    }
    let mut metadata = Schema::of_type(Type::Object);
    metadata.properties = vec![
        (fields::NAME.into(), string(name, MAX_NAME)),
        // The generated suffix has at least one character.
        (fields::GENERATE_NAME.into(), string(generate_name, MAX_NAME - 1)),
    ];
    Some([
        (fields::KIND, Schema::of_type(Type::String)),
        (fields::API_VERSION, Schema::of_type(Type::String)),
        (fields::METADATA, metadata),
    ])
}

/// A string of at most so many characters, or of fewer if the schema has a lower limit.
fn string(schema: Option<&Schema>, most: u64) -> Schema {
    let own = schema.and_then(max_length);
    let mut string = Schema::of_type(Type::String);
    string.value_validation.get_or_insert_default().max_length = Some(own.map_or(most, |own| own.min(most)));
    string
}

/// The schema of the values of a map.
fn values_of(schema: &Schema) -> Option<&Schema> {
    schema
        .additional_properties
        .as_deref()
        .filter(|values| !values.is_anything())
}

fn semantics(schema: &Schema) -> ListSemantics {
    match schema.list_type {
        Some(ListType::Set) => ListSemantics::Set,
        Some(ListType::Map) => {
            let keys = schema.list_keys.iter();
            let keys: Arc<[String]> = keys
                .map(|key| escape(key).unwrap_or_else(|| key.to_string()))
                .collect();
            ListSemantics::Map(keys)
        }
        Some(ListType::Atomic) | None => ListSemantics::Atomic,
    }
}

fn limit(
    schema: &Schema,
    of: impl FnOnce(&setpoint_schema::custom::ValueValidation) -> Option<u64>,
) -> Option<u64> {
    schema.value_validation.as_deref().and_then(of)
}

fn max_length(schema: &Schema) -> Option<u64> {
    limit(schema, |rules| rules.max_length)
}

fn longest_enum_value(schema: &Schema) -> Option<u64> {
    let values = schema.value_validation.as_deref()?.enum_values.values();
    let lengths = values
        .iter()
        .filter_map(Tree::as_str)
        .map(|value| value.len() as u64);
    (!values.is_empty()).then(|| lengths.max().unwrap_or_default())
}

fn is_required(schema: &Schema, name: &str) -> bool {
    let rules = schema.value_validation.as_deref();
    rules.is_some_and(|rules| rules.required.iter().any(|required| required == name))
}
