//! Conversion of a schema to the [`Shape`] that patches and server-side apply use.

use std::sync::Arc;

use super::{Schema, Type};
use crate::pack::Pack;
use crate::shape::{Cardinality, Field, FieldType, ListType, MapType, Shape, ShapeRef};

impl Schema {
    /// The shape of a whole object. `id` names the type in messages.
    pub fn to_shape(&self, id: &str) -> Shape {
        let mut fields = self.fields(id, self.preserve_unknown_fields);
        fields.retain(|field| !matches!(field.name.as_str(), "apiVersion" | "kind" | "metadata"));
        fields.insert(0, metadata());
        let mut shape = Shape::new(id, true, fields);
        (shape.preserve_unknown_fields, shape.literal) = (self.preserve_unknown_fields, true);
        shape
    }

    /// The properties. `preserve` is inherited: every node below one that preserves unknown fields does so too.
    fn fields(&self, id: &str, preserve: bool) -> Vec<Field> {
        let fields = self.properties.iter().map(|(name, schema)| {
            let mut field = schema.field(name, id, preserve);
            field.required = self
                .value_validation
                .as_ref()
                .is_some_and(|rules| rules.required.contains(name));
            field
        });
        fields.collect()
    }

    fn field(&self, name: &str, id: &str, preserve: bool) -> Field {
        let mut field = Field::new(name, FieldType::RawJson);
        let preserve = preserve || self.preserve_unknown_fields;
        field.ptr = true;
        field.default = self.default.clone();
        (field.cardinality, field.value_type) = match self.form() {
            Form::List(items) => (Cardinality::List, items.field_type(name, id, preserve)),
            Form::Map(Some(values)) => (Cardinality::Map, values.field_type(name, id, preserve)),
            Form::Map(None) => (Cardinality::Map, FieldType::RawJson),
            Form::Other => (Cardinality::One, self.field_type(name, id, preserve)),
        };
        if field.cardinality == Cardinality::List {
            field.list_type = self.list_type.or(Some(ListType::Atomic));
            field.list_keys = self.list_keys.clone();
        }
        field.map_type = self.map_type;
        field
    }

    /// The type of one value: an item of a list or a value of a map may be a list or map again.
    fn field_type(&self, name: &str, id: &str, preserve: bool) -> FieldType {
        let preserve = preserve || self.preserve_unknown_fields;
        let shape = match (self.value_type, self.form()) {
            (_, Form::List(_) | Form::Map(_)) => Shape {
                wrap: true,
                ..Shape::new(id, false, vec![self.field(name, id, preserve)])
            },
            (Some(Type::String), _) if self.is_text() => return FieldType::String,
            // For server-side apply, a string with a format is any scalar.
            (Some(Type::String), _) => return FieldType::IntOrString,
            (Some(Type::Boolean), _) => return FieldType::Bool,
            (Some(Type::Integer), _) => return FieldType::Int64,
            (Some(Type::Number), _) => return FieldType::Double,
            _ if self.is_struct() => self.structure(&format!("{id}.{name}"), preserve),
            _ => return FieldType::RawJson,
        };
        FieldType::Shape(ShapeRef::Own(Arc::new(shape)))
    }

    fn structure(&self, id: &str, preserve: bool) -> Shape {
        let mut fields = self.fields(id, preserve);
        if self.embedded_resource {
            fields.retain(|field| !matches!(field.name.as_str(), "apiVersion" | "kind" | "metadata"));
            fields.push(metadata());
        }
        let mut shape = Shape::new(id, self.embedded_resource, fields);
        shape.map_type = self.map_type.filter(|map| *map == MapType::Atomic);
        (shape.preserve_unknown_fields, shape.literal) = (preserve, true);
        shape
    }

    /// Whether a string is one for server-side apply as well.
    fn is_text(&self) -> bool {
        let rules = self.value_validation.as_deref();
        let format = rules.and_then(|rules| rules.format.as_deref());
        matches!(format, None | Some("" | "byte"))
    }

    fn is_struct(&self) -> bool {
        !self.properties.is_empty() || self.embedded_resource
    }

    fn form(&self) -> Form<'_> {
        match (self.value_type, &self.additional_properties, &self.items) {
            (Some(Type::Array), _, Some(items)) => Form::List(items),
            (Some(Type::Object), values, _) if !self.is_struct() => Form::Map(values.as_deref()),
            _ => Form::Other,
        }
    }
}

/// The JSON form of a value.
enum Form<'a> {
    List(&'a Schema),
    /// Values by key; without a schema, any JSON.
    Map(Option<&'a Schema>),
    Other,
}

/// Every object has the same metadata.
fn metadata() -> Field {
    let any = Pack::builtin().shape_of("", "v1", "ConfigMap");
    let field = any.and_then(|shape| shape.member("metadata"));
    field
        .expect("the pack has config maps, and they have metadata")
        .clone()
}
