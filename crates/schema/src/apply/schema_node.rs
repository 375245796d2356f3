//! The schema of one value as ownership sees it: a struct, a map, a list or a scalar, and whether it is atomic, that is
//! owned as a whole.
//!
//! Lists are atomic unless their list type is `set` or `map`; structs and maps are granular unless their map type is
//! `atomic`. Any JSON in a built-in kind is atomic; in a custom kind, where the field has no built-in raw type, its schema
//! is deduced from the value: maps are granular, all else is atomic.

use compact_str::CompactString;

use super::path_element::PathElement;
use crate::shape::{Cardinality, Field, FieldType, ListType, MapType, Shape};
use crate::tree::{Map, Tree};

/// The schema of one value.
#[derive(Clone, Copy, Debug)]
pub(super) struct SchemaNode<'a> {
    pub(super) kind: NodeKind<'a>,
    /// The value is owned as a whole.
    pub(super) atomic: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum NodeKind<'a> {
    Struct(&'a Shape),
    /// A map whose values are described by the field.
    Map(&'a Field),
    /// A list whose items are described by the field.
    List(&'a Field),
    Scalar(ScalarType),
    /// Any JSON.
    Any,
}

/// The JSON types that a scalar may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScalarType {
    Number,
    Text,
    Bool,
    Untyped,
}

impl<'a> SchemaNode<'a> {
    pub(super) fn of_shape(shape: &'a Shape) -> Self {
        match shape.fields.first() {
            Some(field) if shape.wrap => SchemaNode::of_field(field),
            _ => SchemaNode {
                kind: NodeKind::Struct(shape),
                atomic: shape.map_type == Some(MapType::Atomic),
            },
        }
    }

    /// The value of a struct's field.
    pub(super) fn of_field(field: &'a Field) -> Self {
        match field.cardinality {
            Cardinality::List => SchemaNode::of_list(field),
            Cardinality::Map => SchemaNode {
                kind: NodeKind::Map(field),
                atomic: field.map_type == Some(MapType::Atomic),
            },
            Cardinality::One => {
                let mut node = SchemaNode::of_element(field);
                node.atomic |= field.map_type == Some(MapType::Atomic);
                node
            }
        }
    }

    /// An item of a list or a value of a map.
    pub(super) fn of_element(field: &'a Field) -> Self {
        let kind = match &field.value_type {
            FieldType::Shape(reference) => return SchemaNode::of_shape(reference.shape()),
            FieldType::Int32 | FieldType::Int64 | FieldType::Double => NodeKind::Scalar(ScalarType::Number),
            FieldType::Bool => NodeKind::Scalar(ScalarType::Bool),
            FieldType::String | FieldType::Bytes | FieldType::Duration => NodeKind::Scalar(ScalarType::Text),
            FieldType::Time | FieldType::MicroTime | FieldType::Quantity | FieldType::IntOrString => {
                NodeKind::Scalar(ScalarType::Untyped)
            }
            FieldType::RawJson
            | FieldType::SchemaOrBool(_)
            | FieldType::SchemaOrArray(_)
            | FieldType::SchemaOrStrings(_) => NodeKind::Any,
        };
        SchemaNode {
            kind,
            atomic: matches!(kind, NodeKind::Any) && !is_deduced(field),
        }
    }

    /// Any JSON whose schema is deduced from the value: maps are granular.
    pub(super) const DEDUCED: Self = SchemaNode {
        kind: NodeKind::Any,
        atomic: false,
    };

    /// The node of every value of a map.
    pub(super) fn of_values(self) -> SchemaNode<'a> {
        match self.kind {
            NodeKind::Map(field) => SchemaNode::of_element(field),
            _ => self,
        }
    }

    /// The node of the value under a key, or nothing if no such key is declared.
    pub(super) fn child(&self, key: &str) -> Option<SchemaNode<'a>> {
        match self.kind {
            NodeKind::Struct(shape) => match shape.member(key) {
                Some(field) => Some(SchemaNode::of_field(field)),
                None => shape.preserve_unknown_fields.then_some(SchemaNode::DEDUCED),
            },
            NodeKind::Map(field) => Some(SchemaNode::of_element(field)),
            NodeKind::Any => Some(*self),
            NodeKind::List(_) | NodeKind::Scalar(_) => None,
        }
    }

    /// The node at a path element, or nothing if the schema has none.
    pub(super) fn at(&self, element: &PathElement) -> Option<SchemaNode<'a>> {
        match (self.kind, element) {
            (_, PathElement::Field(name)) => self.child(name),
            (NodeKind::List(field), _) => Some(SchemaNode::of_element(field)),
            _ => None,
        }
    }

    /// Whether the key is a declared field, rather than a key of a map.
    pub(super) fn declares(&self, key: &str) -> bool {
        matches!(self.kind, NodeKind::Struct(shape) if shape.member(key).is_some())
    }

    fn of_list(field: &'a Field) -> Self {
        SchemaNode {
            kind: NodeKind::List(field),
            atomic: !matches!(field.list_type, Some(ListType::Set | ListType::Map)),
        }
    }
}

/// Whether any JSON here is a field of a custom kind, rather than one of the built-in raw types.
fn is_deduced(field: &Field) -> bool {
    matches!(field.value_type, FieldType::RawJson)
        && field.rules.as_ref().is_none_or(|rules| rules.raw_type.is_none())
}

/// The path element of an item of a set or an associative list, or the reason why it has none.
pub(super) fn path_element(list: &Field, item: &Tree) -> Result<PathElement, String> {
    match list.list_type {
        Some(ListType::Map) => keyed_path_element(list, item),
        _ => match item {
            Tree::Map(_) => Err("associative list without keys has an element that's a map type".into()),
            Tree::List(_) => Err("not supported: associative list with lists as elements".into()),
            Tree::Null => Err("associative list without keys has an element that's an explicit null".into()),
            scalar => Ok(PathElement::Value(scalar.clone())),
        },
    }
}

fn keyed_path_element(list: &Field, item: &Tree) -> Result<PathElement, String> {
    let map = match item {
        Tree::Map(map) => map,
        Tree::Null => return Err("associative list with keys may not have a null element".into()),
        _ => return Err("associative list with keys may not have non-map elements".into()),
    };
    let keys: Vec<_> = key_values(list, map)
        .map(|(key, value)| (CompactString::from(key), value.clone()))
        .collect();
    if keys.is_empty() {
        let names: Vec<_> = list.list_keys.iter().map(|key| format!("{key:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            names.join(" ")
        ));
    }
    Ok(PathElement::keys(keys))
}

/// The keys of an item of an associative list and their values.
pub(super) fn key_values<'a>(list: &'a Field, item: &'a Map) -> impl Iterator<Item = (&'a str, &'a Tree)> {
    list.list_keys.iter().filter_map(move |key| {
        let value = item.get(key).or_else(|| default_key(list, key))?;
        Some((key.as_str(), value))
    })
}

/// The value of an absent key: its default, or the zero value that is written for it.
fn default_key<'a>(list: &'a Field, key: &str) -> Option<&'a Tree> {
    let field = list.shape()?.member(key)?;
    let zero = || field.zero.as_ref().filter(|zero| !field.ptr && !zero.is_null());
    field.default.as_ref().or_else(zero)
}
