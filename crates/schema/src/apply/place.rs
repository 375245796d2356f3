//! What stands at a place of a document, as ownership sees it: a struct, a map, a list or a scalar, and whether it is
//! owned as a whole.
//!
//! Lists are owned as a whole unless their field says that they are sets or associative; structs and maps are owned
//! part by part unless their field or type says that they are atomic. Any JSON in a built-in kind is owned as a whole;
//! in a custom kind, where the field names no built-in raw type, it is owned part by part through its maps.

use compact_str::CompactString;

use super::element::Element;
use crate::shape::{Card, Field, ListType, MapType, Of, Shape};
use crate::tree::Tree;

/// What stands at a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) kind: Kind<'a>,
    /// It is owned as a whole.
    pub(super) atomic: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind<'a> {
    Struct(&'a Shape),
    /// A map whose values are described by the field.
    Map(&'a Field),
    /// A list whose items are described by the field.
    List(&'a Field),
    Scalar(Scalar),
    /// Any JSON.
    Any,
}

/// What values a scalar may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Number,
    Text,
    Bool,
    Untyped,
}

impl<'a> Place<'a> {
    pub(super) fn of_shape(shape: &'a Shape) -> Self {
        match shape.fields.first() {
            Some(field) if shape.wrap => Place::of_field(field),
            _ => Place {
                kind: Kind::Struct(shape),
                atomic: shape.map_type == Some(MapType::Atomic),
            },
        }
    }

    /// The value of a struct's field.
    pub(super) fn of_field(field: &'a Field) -> Self {
        match field.card {
            Card::List => Place::of_list(field),
            Card::Map => Place {
                kind: Kind::Map(field),
                atomic: field.map_type == Some(MapType::Atomic),
            },
            Card::One => {
                let mut place = Place::of_element(field);
                place.atomic |= field.map_type == Some(MapType::Atomic);
                place
            }
        }
    }

    /// An item of a list or a value of a map.
    pub(super) fn of_element(field: &'a Field) -> Self {
        let kind = match &field.of {
            Of::Shape(link) => return Place::of_shape(link.shape()),
            Of::Int32 | Of::Int64 | Of::Double => Kind::Scalar(Scalar::Number),
            Of::Bool => Kind::Scalar(Scalar::Bool),
            Of::String | Of::Bytes | Of::Duration => Kind::Scalar(Scalar::Text),
            Of::Time | Of::MicroTime | Of::Quantity | Of::IntOrString => Kind::Scalar(Scalar::Untyped),
            Of::RawJson | Of::SchemaOrBool(_) | Of::SchemaOrArray(_) | Of::SchemaOrStrings(_) => Kind::Any,
        };
        Place {
            kind,
            atomic: matches!(kind, Kind::Any) && !is_free(field),
        }
    }

    /// Any JSON, owned part by part through its maps.
    pub(super) const FREE: Self = Place {
        kind: Kind::Any,
        atomic: false,
    };

    /// What stands under any key of a map.
    pub(super) fn of_values(self) -> Place<'a> {
        match self.kind {
            Kind::Map(field) => Place::of_element(field),
            _ => self,
        }
    }

    /// What stands under a key, or nothing if no such key is declared.
    pub(super) fn under(&self, key: &str) -> Option<Place<'a>> {
        match self.kind {
            Kind::Struct(shape) => match shape.member(key) {
                Some(field) => Some(Place::of_field(field)),
                None => shape.open.then_some(Place::FREE),
            },
            Kind::Map(field) => Some(Place::of_element(field)),
            Kind::Any => Some(*self),
            Kind::List(_) | Kind::Scalar(_) => None,
        }
    }

    /// What stands at a step, or nothing if there is no such place.
    pub(super) fn at(&self, element: &Element) -> Option<Place<'a>> {
        match (self.kind, element) {
            (_, Element::Field(name)) => self.under(name),
            (Kind::List(field), _) => Some(Place::of_element(field)),
            _ => None,
        }
    }

    /// Whether the key is a declared field, rather than a key of a map.
    pub(super) fn names(&self, key: &str) -> bool {
        matches!(self.kind, Kind::Struct(shape) if shape.member(key).is_some())
    }

    fn of_list(field: &'a Field) -> Self {
        Place {
            kind: Kind::List(field),
            atomic: !matches!(field.list_type, Some(ListType::Set | ListType::Map)),
        }
    }
}

/// Whether any JSON here is a part of a custom kind, rather than one of the built-in raw types.
fn is_free(field: &Field) -> bool {
    matches!(field.of, Of::RawJson) && field.rules.as_ref().is_none_or(|rules| rules.raw.is_none())
}

/// The step to an item of a list that is a set or associative, or the reason why it has none.
pub(super) fn step(list: &Field, item: &Tree) -> Result<Element, String> {
    match list.list_type {
        Some(ListType::Map) => keyed_step(list, item),
        _ => match item {
            Tree::Map(_) => Err("associative list without keys has an element that's a map type".into()),
            Tree::List(_) => Err("not supported: associative list with lists as elements".into()),
            Tree::Null => Err("associative list without keys has an element that's an explicit null".into()),
            scalar => Ok(Element::Value(scalar.clone())),
        },
    }
}

fn keyed_step(list: &Field, item: &Tree) -> Result<Element, String> {
    let map = match item {
        Tree::Map(map) => map,
        Tree::Null => return Err("associative list with keys may not have a null element".into()),
        _ => return Err("associative list with keys may not have non-map elements".into()),
    };
    let value = |key: &CompactString| map.get(key).or_else(|| default_key(list, key));
    let keys = list.list_keys.iter();
    let keys: Vec<_> = keys
        .filter_map(|key| Some((key.clone(), value(key)?.clone())))
        .collect();
    if keys.is_empty() {
        let names: Vec<_> = list.list_keys.iter().map(|key| format!("{key:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            names.join(" ")
        ));
    }
    Ok(Element::keys(keys))
}

/// What a key that is not given counts as: its default, or the zero value it would show.
fn default_key<'a>(list: &'a Field, key: &str) -> Option<&'a Tree> {
    let field = list.shape()?.member(key)?;
    let zero = || field.zero.as_ref().filter(|zero| !field.ptr && !zero.is_null());
    field.default.as_ref().or_else(zero)
}
