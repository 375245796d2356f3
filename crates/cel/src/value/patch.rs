//! Results of expressions that construct patches: as trees, and with the names of their types checked.

use base64::Engine;
use setpoint_schema::Tree;

use super::{Map, Value};

impl Value<'_> {
    /// The value as the tree of an object; `None` if it cannot be a part of one.
    pub fn to_tree(&self) -> Option<Tree> {
        Some(match self {
            Value::Null => Tree::Null,
            Value::Bool(value) => Tree::Bool(*value),
            Value::Int(value) => Tree::Int(*value),
            Value::Uint(value) => i64::try_from(*value).map_or(Tree::Float(*value as f64), Tree::Int),
            Value::Double(value) => Tree::Float(*value),
            Value::String(text) => Tree::from(text.as_str()),
            Value::Bytes(bytes) => Tree::from(base64::engine::general_purpose::STANDARD.encode(bytes)),
            Value::Duration(duration) => Tree::from(crate::time::format_duration(*duration)),
            Value::Timestamp(timestamp) => Tree::from(timestamp.to_string()),
            Value::List(list) => {
                let items: Option<Vec<Tree>> = list.iter().map(|item| item.to_tree()).collect();
                Tree::List(items?)
            }
            Value::Map(map) => {
                let mut tree = Tree::default();
                tree.map_or_default();
                for (key, value) in map.entries() {
                    tree.set(&[key.as_str()?], value.to_tree()?);
                }
                tree
            }
            Value::Optional(_) | Value::Type(_) | Value::Opaque(_) => return None,
        })
    }

    /// The values of a list; none of any other value.
    pub fn items(&self) -> Vec<Self> {
        match self {
            Value::List(list) => list.to_vec(),
            _ => Vec::new(),
        }
    }

    /// The value of a field or of a string key.
    pub fn find(&self, name: &str) -> Option<Self> {
        match self {
            Value::Map(map) => map.get(&Value::string(name)),
            _ => None,
        }
    }

    /// The objects in this one whose type is not named after their path, such as `Object.spec.other` at `Object.spec`.
    pub fn type_name_errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        if let Value::Map(Map::Entries(entries)) = self
            && let Some(object) = &entries.object
        {
            self.check_type_names(&object.name, &mut errors);
        }
        errors
    }

    fn check_type_names(&self, expected: &str, errors: &mut Vec<String>) {
        match self {
            Value::Map(Map::Entries(entries)) => {
                let own = entries.object.as_ref().map(|object| &object.name);
                if let Some(own) = own.filter(|own| *own != expected) {
                    errors.push(format!(
                        "unexpected type name {own:?}, expected {expected:?}, which matches field name path from root Object type"
                    ));
                }
                for (key, value) in &entries.list {
                    match (own, key.as_str()) {
                        (Some(_), Some(name)) => {
                            value.check_type_names(&format!("{expected}.{name}"), errors)
                        }
                        _ => value.check_type_names(expected, errors),
                    }
                }
            }
            Value::List(list) => list
                .iter()
                .for_each(|item| item.check_type_names(expected, errors)),
            _ => {}
        }
    }

    /// The name of the Go type that holds such a value, as errors of upstream's conversions print it.
    pub(crate) fn go_type(&self) -> &'static str {
        match self {
            Value::Null => "structpb.NullValue",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int64",
            Value::Uint(_) => "uint64",
            Value::Double(_) => "float64",
            Value::String(_) => "string",
            Value::Bytes(_) => "[]uint8",
            Value::Duration(_) => "time.Duration",
            Value::Timestamp(_) => "time.Time",
            Value::List(_) => "[]ref.Val",
            Value::Map(_) => "map[ref.Val]ref.Val",
            Value::Optional(_) | Value::Type(_) | Value::Opaque(_) => "interface {}",
        }
    }
}
