//! The shape that patches and server-side apply walk, made of a schema.

use std::sync::Arc;

use super::{Schema, Type};
use crate::pack::Pack;
use crate::shape::{Card, Field, Link, ListType, MapType, Of, Shape};

impl Schema {
    /// The shape of a whole object. `id` names the type in messages.
    pub fn to_shape(&self, id: &str) -> Shape {
        let mut fields = self.fields(id, self.preserves);
        fields.retain(|field| !matches!(field.name.as_str(), "apiVersion" | "kind" | "metadata"));
        fields.insert(0, metadata());
        let mut shape = Shape::new(id, true, fields);
        (shape.open, shape.literal) = (self.preserves, true);
        shape
    }

    /// The properties. Whatever stands below something that keeps unknown fields is `open`, and keeps them too.
    fn fields(&self, id: &str, open: bool) -> Vec<Field> {
        let fields = self.properties.iter().map(|(name, schema)| {
            let mut field = schema.field(name, id, open);
            field.required = self
                .rules
                .as_ref()
                .is_some_and(|rules| rules.required.contains(name));
            field
        });
        fields.collect()
    }

    fn field(&self, name: &str, id: &str, open: bool) -> Field {
        let mut field = Field::new(name, Of::RawJson);
        let open = open || self.preserves;
        field.ptr = true;
        field.default = self.default.clone();
        (field.card, field.of) = match self.form() {
            Form::List(items) => (Card::List, items.of(name, id, open)),
            Form::Map(Some(values)) => (Card::Map, values.of(name, id, open)),
            Form::Map(None) => (Card::Map, Of::RawJson),
            Form::Other => (Card::One, self.of(name, id, open)),
        };
        if field.card == Card::List {
            field.list_type = self.list_type.or(Some(ListType::Atomic));
            field.list_keys = self.list_keys.clone();
        }
        field.map_type = self.map_type;
        field
    }

    /// What one value is: an item of a list or a value of a map may be a list or map again.
    fn of(&self, name: &str, id: &str, open: bool) -> Of {
        let open = open || self.preserves;
        let shape = match (self.of, self.form()) {
            (_, Form::List(_) | Form::Map(_)) => Shape {
                wrap: true,
                ..Shape::new(id, false, vec![self.field(name, id, open)])
            },
            (Some(Type::String), _) => return Of::String,
            (Some(Type::Boolean), _) => return Of::Bool,
            (Some(Type::Integer), _) => return Of::Int64,
            (Some(Type::Number), _) => return Of::Double,
            _ if self.is_struct() => self.structure(&format!("{id}.{name}"), open),
            _ => return Of::RawJson,
        };
        Of::Shape(Link::Own(Arc::new(shape)))
    }

    fn structure(&self, id: &str, open: bool) -> Shape {
        let mut fields = self.fields(id, open);
        if self.embeds {
            fields.retain(|field| !matches!(field.name.as_str(), "apiVersion" | "kind" | "metadata"));
            fields.push(metadata());
        }
        let mut shape = Shape::new(id, self.embeds, fields);
        shape.map_type = self.map_type.filter(|map| *map == MapType::Atomic);
        (shape.open, shape.literal) = (open, true);
        shape
    }

    fn is_struct(&self) -> bool {
        !self.properties.is_empty() || self.embeds
    }

    fn form(&self) -> Form<'_> {
        match (self.of, &self.additional, &self.items) {
            (Some(Type::Array), _, Some(items)) => Form::List(items),
            (Some(Type::Object), values, _) if !self.is_struct() => Form::Map(values.as_deref()),
            _ => Form::Other,
        }
    }
}

/// What a value is made of.
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
