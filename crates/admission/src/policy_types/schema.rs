//! The schema of a kind as expressions see it, by the rules of upstream's OpenAPI schemas.

use setpoint_cel::{ListSemantics, Type, ValueSchema};
use setpoint_schema::{Cardinality, Field, FieldType, Shape};
use setpoint_strategy::Kind;

/// The schema of a kind; none if it has no type.
pub(super) fn schema_of(kind: &dyn Kind) -> Option<ValueSchema> {
    of_shape(kind.shape(), &kind.info().gvk.kind, &mut Vec::new())
}

/// The schema of an object. A type that contains itself has no fields in there.
fn of_shape(shape: &Shape, name: &str, parents: &mut Vec<String>) -> Option<ValueSchema> {
    if let (true, Some(field)) = (shape.wrap, shape.fields.first()) {
        return of_field(field, name, parents);
    }
    let is_recursive = !shape.id.is_empty() && parents.iter().any(|parent| *parent == shape.id);
    if is_recursive {
        return Some(ValueSchema::object(name, []));
    }
    parents.push(shape.id.to_string());
    let fields = shape.members().iter().filter_map(|field| {
        let own = of_field(field, &format!("{name}.{}", field.name), parents)?;
        Some((field.name.to_string(), own))
    });
    let fields: Vec<(String, ValueSchema)> = fields.collect();
    parents.pop();
    Some(ValueSchema::object(name, fields))
}

/// The schema of a field; none if upstream's OpenAPI schema of it has no type, as for quantities.
fn of_field(field: &Field, name: &str, parents: &mut Vec<String>) -> Option<ValueSchema> {
    let own = of_value(field, name, parents)?;
    Some(match field.cardinality {
        Cardinality::One => own,
        Cardinality::List => ValueSchema::list(own, ListSemantics::Atomic),
        Cardinality::Map => ValueSchema::map(own),
    })
}

fn of_value(field: &Field, name: &str, parents: &mut Vec<String>) -> Option<ValueSchema> {
    let own = match &field.value_type {
        FieldType::String | FieldType::Duration => Type::String,
        FieldType::Bool => Type::Bool,
        FieldType::Int32 | FieldType::Int64 => Type::Int,
        FieldType::Double => Type::Double,
        FieldType::Bytes => Type::Bytes,
        FieldType::Time | FieldType::MicroTime => Type::Timestamp,
        FieldType::IntOrString => Type::Dyn,
        FieldType::RawJson => return of_raw(field, name),
        FieldType::Quantity
        | FieldType::SchemaOrBool(_)
        | FieldType::SchemaOrArray(_)
        | FieldType::SchemaOrStrings(_) => return None,
        FieldType::Shape(link) => return of_shape(link.shape(), name, parents),
    };
    Some(ValueSchema::scalar(own))
}

/// Any JSON: an object without fields, such as RawExtension, or without a type, such as the default of a CRD's schema.
fn of_raw(field: &Field, name: &str) -> Option<ValueSchema> {
    let raw_type = field.rules.as_ref().and_then(|rules| rules.raw_type.as_deref());
    match raw_type {
        Some(raw_type) if raw_type.ends_with("JSON") => None,
        _ => Some(ValueSchema::object(name, [])),
    }
}
