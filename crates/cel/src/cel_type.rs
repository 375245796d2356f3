//! Types of expressions and of values.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::value_schema::escape_keyword;

/// The type of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// Known only at run time.
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Arc<Type>),
    Map(Arc<(Type, Type)>),
    Optional(Arc<Type>),
    /// The type of a type, such as that of `int`.
    Type(Arc<Type>),
    /// An object with declared fields.
    Object(Arc<ObjectType>),
    /// A type of a library, such as `kubernetes.Quantity`.
    Opaque(&'static str),
    /// A type parameter of a declaration.
    Param(&'static str),
    /// A type that is inferred during a check.
    Variable(usize),
    /// The type of an expression with an error, compatible with all types so that an error is reported once.
    Error,
}

/// An object type: its name and the types of its fields.
#[derive(Debug, PartialEq, Eq)]
pub struct ObjectType {
    pub name: String,
    pub fields: BTreeMap<String, Type>,
    /// Whether every other name is a field, too, whose type is known only at run time.
    pub has_any_field: bool,
}

impl ObjectType {
    /// The type of a field.
    pub(crate) fn field(&self, name: &str) -> Option<Type> {
        let declared = self.fields.get(name);
        let declared = declared.or_else(|| self.fields.get(&escape_keyword(name)?));
        declared
            .cloned()
            .or_else(|| self.has_any_field.then_some(Type::Dyn))
    }
}

impl Type {
    pub fn list(element: Type) -> Self {
        Self::List(Arc::new(element))
    }

    pub fn map(key: Type, value: Type) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    pub fn optional(value: Type) -> Self {
        Self::Optional(Arc::new(value))
    }

    /// The name of the type without its parameters.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Null => "null_type".to_owned(),
            Self::Duration => "google.protobuf.Duration".to_owned(),
            Self::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Self::List(_) => "list".to_owned(),
            Self::Map(_) => "map".to_owned(),
            Self::Optional(_) => "optional_type".to_owned(),
            Self::Type(_) => "type".to_owned(),
            other => other.to_string(),
        }
    }

    /// The type as the API names it: with the full names of durations and timestamps.
    pub fn canonical_name(&self) -> String {
        match self {
            Self::List(element) => format!("list({})", element.canonical_name()),
            Self::Map(entry) => format!("map({}, {})", entry.0.canonical_name(), entry.1.canonical_name()),
            Self::Optional(inner) => format!("optional_type({})", inner.canonical_name()),
            Self::Type(inner) if **inner == Self::Type(Self::Dyn.into()) => "type(type)".to_owned(),
            Self::Type(inner) => format!("type({})", inner.canonical_name()),
            other => other.name(),
        }
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Whether values of this type have the size 1.
    pub(crate) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool | Self::Int | Self::Uint | Self::Double | Self::Duration | Self::Timestamp => true,
            Self::Optional(inner) => inner.is_scalar(),
            _ => false,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Duration => f.write_str("duration"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::List(element) => write!(f, "list({element})"),
            Self::Map(entry) => write!(f, "map({}, {})", entry.0, entry.1),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Type(inner) => write!(f, "type({inner})"),
            Self::Object(object) => f.write_str(&object.name),
            Self::Opaque(name) | Self::Param(name) => f.write_str(name),
            Self::Variable(number) => write!(f, "_var{number}"),
            Self::Error => f.write_str("!error!"),
        }
    }
}
