//! Schemas of variables: how the nodes of an object are read as values, and how large they may be.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cel_type::{ObjectType, Type};
use crate::parser::is_word_reserved;

/// The declared schema of a value: its type, its shape in an object, and how large it may be.
#[derive(Debug, Clone)]
pub struct ValueSchema {
    pub(crate) own_type: Type,
    pub(crate) shape: Shape,
    /// The most elements of a list or map, or the most characters of a string; `None` is not bounded.
    pub(crate) max_size: Option<u64>,
}

#[derive(Debug, Clone)]
pub(crate) enum Shape {
    Scalar,
    List(Arc<ValueSchema>, ListSemantics),
    Map(Arc<ValueSchema>),
    /// Fields by their name in expressions, which is escaped.
    Object(Arc<BTreeMap<String, FieldSchema>>),
}

/// A field of an object.
#[derive(Debug, Clone)]
pub(crate) struct FieldSchema {
    /// The name in the object.
    pub(crate) name: String,
    pub(crate) declared: ValueSchema,
}

/// How the items of a list are identified (`x-kubernetes-list-type`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ListSemantics {
    /// By their position.
    #[default]
    Atomic,
    /// By their value.
    Set,
    /// By the values of these fields.
    Map(Arc<[String]>),
}

/// The schema of the keys of a map. Kubernetes estimates costs as if keys were empty.
static KEYS: ValueSchema = ValueSchema {
    own_type: Type::String,
    shape: Shape::Scalar,
    max_size: Some(0),
};

/// The schema of a value about which nothing is declared.
pub(crate) static DYN: ValueSchema = ValueSchema {
    own_type: Type::Dyn,
    shape: Shape::Scalar,
    max_size: None,
};

impl ValueSchema {
    /// A value without fields or items, such as a string.
    pub fn scalar(own_type: Type) -> Self {
        Self {
            own_type,
            shape: Shape::Scalar,
            max_size: None,
        }
    }

    pub fn list(items: ValueSchema, semantics: ListSemantics) -> Self {
        Self {
            own_type: Type::list(items.own_type.clone()),
            shape: Shape::List(Arc::new(items), semantics),
            max_size: None,
        }
    }

    /// A map with string keys.
    pub fn map(values: ValueSchema) -> Self {
        Self {
            own_type: Type::map(Type::String, values.own_type.clone()),
            shape: Shape::Map(Arc::new(values)),
            max_size: None,
        }
    }

    /// An object. Fields have their names in the object; those that no expression can name are left out.
    pub fn object(name: &str, fields: impl IntoIterator<Item = (String, ValueSchema)>) -> Self {
        let mut by_name = BTreeMap::new();
        for (field, declared) in fields {
            if let Some(escaped) = escape(&field) {
                by_name.insert(
                    escaped,
                    FieldSchema {
                        name: field,
                        declared,
                    },
                );
            }
        }
        let types = by_name
            .iter()
            .map(|(name, field)| (name.clone(), field.declared.own_type.clone()));
        let object = ObjectType {
            name: name.to_owned(),
            fields: types.collect(),
            has_any_field: false,
        };
        Self {
            own_type: Type::Object(Arc::new(object)),
            shape: Shape::Object(Arc::new(by_name)),
            max_size: None,
        }
    }

    /// The same with a bound on its size.
    pub fn with_max_size(mut self, max_size: u64) -> Self {
        self.max_size = Some(max_size);
        self
    }

    /// The same value as an optional one. It is bound as the content of [`crate::Value::Optional`].
    pub fn into_optional(mut self) -> Self {
        self.own_type = Type::optional(self.own_type);
        self
    }

    pub fn own_type(&self) -> &Type {
        &self.own_type
    }

    /// The schema of a field, item (`@items`), key (`@keys`) or value (`@values`).
    pub(crate) fn child(&self, step: &str) -> Option<&ValueSchema> {
        match (&self.shape, step) {
            (Shape::List(items, _), "@items") => Some(items),
            (Shape::Map(values), "@values") => Some(values),
            (Shape::Map(_), "@keys") => Some(&KEYS),
            (Shape::Map(values), _) if !step.starts_with('@') => Some(values),
            (Shape::Object(fields), _) => find_field(fields, step).map(|field| &field.declared),
            _ => None,
        }
    }
}

/// A field by its name in expressions. A keyword, such as `namespace`, need not be escaped.
pub(crate) fn find_field<'a>(
    fields: &'a BTreeMap<String, FieldSchema>,
    name: &str,
) -> Option<&'a FieldSchema> {
    let field = fields.get(name);
    field.or_else(|| fields.get(&escape_keyword(name)?))
}

/// The escaped form of a keyword; `None` if the name is none.
pub(crate) fn escape_keyword(name: &str) -> Option<String> {
    is_word_reserved(name).then(|| format!("__{name}__"))
}

/// The name of a field in expressions; `None` if it has none.
///
/// ```
/// # use setpoint_cel::escape;
/// assert_eq!(escape("x-prop").as_deref(), Some("x__dash__prop"));
/// assert_eq!(escape("namespace").as_deref(), Some("__namespace__"));
/// ```
pub fn escape(name: &str) -> Option<String> {
    if let Some(keyword) = escape_keyword(name) {
        return Some(keyword);
    }
    let first = name.chars().next()?;
    if !(first.is_ascii_alphabetic() || first == '_') {
        return None;
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(character) = rest.chars().next() {
        let (text, length) = match character {
            '_' if rest.starts_with("__") => ("__underscores__", 2),
            '.' => ("__dot__", 1),
            '-' => ("__dash__", 1),
            '/' => ("__slash__", 1),
            other if other.is_ascii_alphanumeric() || other == '_' => (&rest[..1], 1),
            _ => return None,
        };
        escaped.push_str(text);
        rest = &rest[length..];
    }
    Some(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: Option<&str>) {
        assert_eq!(escape(name).as_deref(), expected);
    }

    #[test]
    fn names_that_are_no_identifiers_are_escaped() {
        check("simple", Some("simple"));
        check("a__b", Some("a__underscores__b"));
        check("a.b/c-d", Some("a__dot__b__slash__c__dash__d"));
        check("true", Some("__true__"));
        check("1st", None);
        check("a b", None);
        check("", None);
    }
}
