//! The shape that patches and server-side apply walk, made of a schema.

use std::sync::Arc;

use super::{Schema, Type};
use crate::pack::Pack;
use crate::shape::{Card, Field, Link, ListType, MapType, Of, Shape};

impl Schema {
    /// The shape of a whole object. `id` names the type in messages.
    pub fn to_shape(&self, id: &str) -> Shape {
        let mut fields = self.fields(id);
        fields.retain(|field| !matches!(field.name.as_str(), "apiVersion" | "kind" | "metadata"));
        fields.insert(0, metadata());
        Shape::new(id, true, fields)
    }

    fn fields(&self, id: &str) -> Vec<Field> {
        let fields = self.properties.iter().map(|(name, schema)| {
            let mut field = schema.field(name, id);
            field.required = self
                .rules
                .as_ref()
                .is_some_and(|rules| rules.required.contains(name));
            field
        });
        fields.collect()
    }

    fn field(&self, name: &str, id: &str) -> Field {
        let mut field = Field::new(name, Of::RawJson);
        field.ptr = true;
        field.default = self.default.clone();
        (field.card, field.of) = match (self.of, &self.additional, &self.items) {
            (Some(Type::Array), _, Some(items)) => (Card::List, items.of(name, id)),
            (Some(Type::Object), Some(values), _) if self.properties.is_empty() => {
                (Card::Map, values.of(name, id))
            }
            _ => (Card::One, self.of(name, id)),
        };
        if field.card == Card::List {
            field.list_type = self.list_type.or(Some(ListType::Atomic));
            field.list_keys = self.list_keys.clone();
        }
        field.map_type = self.map_type;
        field
    }

    /// What one value is.
    fn of(&self, name: &str, id: &str) -> Of {
        match self.of {
            Some(Type::String) => Of::String,
            Some(Type::Boolean) => Of::Bool,
            Some(Type::Integer) => Of::Int64,
            Some(Type::Number) => Of::Double,
            Some(Type::IntOrString) => Of::IntOrString,
            // What keeps unknown fields is merged by what stands there.
            Some(Type::Object) if !self.preserves && (!self.properties.is_empty() || self.embeds) => {
                let id = format!("{id}.{name}");
                let mut fields = self.fields(&id);
                if self.embeds {
                    fields.retain(|field| field.name != "metadata");
                    fields.push(metadata());
                }
                let mut shape = Shape::new(&id, self.embeds, fields);
                shape.map_type = self.map_type.filter(|map| *map == MapType::Atomic);
                Of::Shape(Link::Own(Arc::new(shape)))
            }
            _ => Of::RawJson,
        }
    }
}

/// Every object has the same metadata.
fn metadata() -> Field {
    let any = Pack::builtin().shape_of("", "v1", "ConfigMap");
    let field = any.and_then(|shape| shape.member("metadata"));
    field
        .expect("the pack has config maps, and they have metadata")
        .clone()
}
