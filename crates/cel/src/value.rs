//! Values of expressions. Parts of objects are borrowed: a value of an object's field is a reference to its node.

mod compare;
mod node;
mod patch;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use setpoint_api::quantity::Quantity;

use crate::cel_type::{ObjectType, Type};
use crate::library::semver;
use crate::opaque::Opaque;
pub(crate) use compare::has_same_keys;
pub(crate) use node::Node;

/// A value.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Arc<[u8]>),
    Duration(SignedDuration),
    Timestamp(Timestamp),
    List(List<'a>),
    Map(Map<'a>),
    Optional(Option<Arc<Value<'a>>>),
    Type(Type),
    Opaque(Opaque),
}

/// Characters, borrowed from an object or computed.
#[derive(Debug, Clone)]
pub enum Text<'a> {
    Borrowed(&'a str),
    Shared(Arc<str>),
}

/// A list: the items of a node, or computed values.
#[derive(Debug, Clone)]
pub enum List<'a> {
    Node(Node<'a>),
    Values(Arc<Vec<Value<'a>>>),
    /// Two lists one after the other. Concatenation has a fixed cost, so that it must not copy.
    Concat(Arc<Concat<'a>>),
}

/// Two concatenated lists.
#[derive(Debug)]
pub struct Concat<'a> {
    left: List<'a>,
    right: List<'a>,
    length: usize,
    depth: usize,
}

/// Concatenations deeper than this are copied to one list, unless that would be longer than [`MAX_COPIED`].
const MAX_DEPTH: usize = 500;
const MAX_COPIED: usize = 1 << 20;

/// A map or an object: a node, or computed entries.
#[derive(Debug, Clone)]
pub enum Map<'a> {
    Node(Node<'a>),
    Entries(Arc<Entries<'a>>),
    /// An object whose fields are computed when they are selected.
    Deferred,
}

/// Computed entries in the order of insertion, with an index by key.
#[derive(Debug, Clone, Default)]
pub struct Entries<'a> {
    list: Vec<(Value<'a>, Value<'a>)>,
    index: HashMap<Key, usize>,
    /// The type of an object that the expression constructed; none of a map.
    object: Option<Arc<ObjectType>>,
    /// The value of every other key, when it is selected.
    default: Option<Arc<Value<'a>>>,
}

/// A key of a map. Numbers of different types are the same key if they are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Bool(bool),
    Integer(i128),
    /// The bits of a number that is not whole.
    Double(u64),
    String(Box<str>),
}

impl Text<'_> {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl<'a> Value<'a> {
    pub fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(Text::Shared(text.into()))
    }

    pub fn list(values: Vec<Value<'a>>) -> Self {
        Self::List(List::Values(Arc::new(values)))
    }

    /// A map with these entries. Of several with the same key the last one counts.
    pub fn map(entries: Vec<(Value<'a>, Value<'a>)>) -> Self {
        let mut map = Entries::default();
        for (key, value) in entries {
            map.set(key, value);
        }
        Self::Map(Map::Entries(Arc::new(map)))
    }

    /// A map with these entries in which every other key selects the default. `in` and `has()` still do not find it.
    pub fn map_with_default(entries: Vec<(Value<'a>, Value<'a>)>, default: Value<'a>) -> Self {
        let mut map = Entries {
            default: Some(Arc::new(default)),
            ..Entries::default()
        };
        for (key, value) in entries {
            map.set(key, value);
        }
        Self::Map(Map::Entries(Arc::new(map)))
    }

    pub fn quantity(quantity: Quantity) -> Self {
        Self::Opaque(Opaque::Quantity(quantity))
    }

    /// A semantic version; `None` if the text is none.
    pub fn semver(text: &str) -> Option<Self> {
        let version = semver::parse_strict(text).ok()?;
        Some(Self::Opaque(Opaque::Semver(Arc::new(version))))
    }

    /// An object with these fields.
    pub(crate) fn object(object: Arc<ObjectType>, fields: Vec<(Value<'a>, Value<'a>)>) -> Self {
        let mut map = Entries {
            object: Some(object),
            ..Entries::default()
        };
        for (name, value) in fields {
            map.set(name, value);
        }
        Self::Map(Map::Entries(Arc::new(map)))
    }

    /// An object whose fields an evaluation computes when they are selected.
    pub const DEFERRED: Value<'static> = Value::Map(Map::Deferred);

    pub(crate) fn some(value: Value<'a>) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    pub(crate) const NONE: Value<'static> = Value::Optional(None);

    /// The characters of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text.as_str()),
            _ => None,
        }
    }

    /// The type at run time. Of lists and maps it is that of the container alone.
    pub(crate) fn type_of(&self) -> Type {
        match self {
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Uint(_) => Type::Uint,
            Self::Double(_) => Type::Double,
            Self::String(_) => Type::String,
            Self::Bytes(_) => Type::Bytes,
            Self::Duration(_) => Type::Duration,
            Self::Timestamp(_) => Type::Timestamp,
            Self::List(_) => Type::list(Type::Dyn),
            Self::Map(Map::Node(node)) => node.map_type(),
            Self::Map(Map::Entries(entries)) => match &entries.object {
                Some(object) => Type::Object(object.clone()),
                None => Type::map(Type::Dyn, Type::Dyn),
            },
            Self::Map(Map::Deferred) => Type::map(Type::Dyn, Type::Dyn),
            Self::Optional(_) => Type::optional(Type::Dyn),
            Self::Type(_) => Type::Type(Type::Dyn.into()),
            Self::Opaque(opaque) => Type::Opaque(opaque.type_name()),
        }
    }

    /// The number of characters, bytes, items or entries; 1 for all other values. Costs are computed from it.
    pub(crate) fn cost_size(&self) -> u64 {
        match self {
            Self::Optional(Some(value)) => value.cost_size(),
            Self::Opaque(opaque) => opaque.cost_size(),
            other => other.size().map_or(1, |size| size as u64),
        }
    }

    /// The result of `size()`.
    pub(crate) fn size(&self) -> Option<usize> {
        match self {
            Self::String(text) => Some(text.as_str().chars().count()),
            Self::Bytes(bytes) => Some(bytes.len()),
            Self::List(list) => Some(list.len()),
            Self::Map(map) => Some(map.len()),
            _ => None,
        }
    }

    /// Whether it is the zero value of its type: for `optional.ofNonZeroValue`.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null | Self::Optional(None) => true,
            Self::Bool(value) => !value,
            Self::Int(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::Duration(value) => value.is_zero(),
            Self::Timestamp(_) | Self::Optional(Some(_)) | Self::Type(_) | Self::Opaque(_) => false,
            Self::String(_) | Self::Bytes(_) | Self::List(_) | Self::Map(_) => self.size() == Some(0),
        }
    }
}

impl<'a> List<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Node(node) => node.items().len(),
            Self::Values(values) => values.len(),
            Self::Concat(both) => both.length,
        }
    }

    pub(crate) fn get(&self, mut index: usize) -> Option<Value<'a>> {
        let mut list = self;
        loop {
            match list {
                Self::Node(node) => return node.item(index),
                Self::Values(values) => return values.get(index).cloned(),
                Self::Concat(both) if index < both.left.len() => list = &both.left,
                Self::Concat(both) => {
                    index -= both.left.len();
                    list = &both.right;
                }
            }
        }
    }

    /// The list of the items of this one and then those of another.
    pub(crate) fn concat(&self, other: &List<'a>) -> Result<List<'a>, String> {
        if other.len() == 0 {
            return Ok(self.clone());
        }
        if self.len() == 0 {
            return Ok(other.clone());
        }
        let depth = self.depth().max(other.depth()) + 1;
        let length = self.len().saturating_add(other.len());
        if depth <= MAX_DEPTH {
            let (left, right) = (self.clone(), other.clone());
            return Ok(Self::Concat(Arc::new(Concat {
                left,
                right,
                length,
                depth,
            })));
        }
        if length > MAX_COPIED {
            return Err("list is too large".to_owned());
        }
        Ok(Self::Values(Arc::new(self.iter().chain(other.iter()).collect())))
    }

    fn depth(&self) -> usize {
        match self {
            Self::Concat(both) => both.depth,
            _ => 0,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Value<'a>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    pub(crate) fn to_vec(&self) -> Vec<Value<'a>> {
        self.iter().collect()
    }
}

impl<'a> Map<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Node(node) => node.entries().len(),
            Self::Entries(entries) => entries.list.len(),
            Self::Deferred => 0,
        }
    }

    pub(crate) fn get(&self, key: &Value<'_>) -> Option<Value<'a>> {
        match self {
            Self::Node(node) => node.field(key.as_str()?),
            Self::Entries(entries) => {
                let at = entries.index.get(&Key::of(key)?)?;
                Some(entries.list[*at].1.clone())
            }
            Self::Deferred => None,
        }
    }

    /// The value of a key that is selected: its own, or the default of the map.
    pub(crate) fn select(&self, key: &Value<'_>) -> Option<Value<'a>> {
        let default = || match self {
            Self::Entries(entries) => entries.default.as_deref().cloned(),
            _ => None,
        };
        self.get(key).or_else(default)
    }

    pub(crate) fn to_entries(&self) -> Entries<'a> {
        let mut copy = Entries::default();
        for (key, value) in self.entries() {
            copy.set(key, value);
        }
        copy
    }

    pub(crate) fn entries(&self) -> Vec<(Value<'a>, Value<'a>)> {
        match self {
            Self::Node(node) => node.entries(),
            Self::Entries(entries) => entries.list.clone(),
            Self::Deferred => Vec::new(),
        }
    }
}

impl<'a> Entries<'a> {
    /// Adds an entry; an error if the key exists.
    pub(crate) fn insert(&mut self, key: Value<'a>, value: Value<'a>) -> Result<(), String> {
        let exists = Key::of(&key).is_some_and(|hashed| self.index.contains_key(&hashed));
        if exists {
            return Err(format!("insert failed: key {} already exists", key.display()));
        }
        self.set(key, value);
        Ok(())
    }

    /// Adds or replaces an entry. A key that no expression can look up, such as a list, is only listed.
    fn set(&mut self, key: Value<'a>, value: Value<'a>) {
        let Some(hashed) = Key::of(&key) else {
            self.list.push((key, value));
            return;
        };
        match self.index.get(&hashed) {
            Some(at) => self.list[*at].1 = value,
            None => {
                self.index.insert(hashed, self.list.len());
                self.list.push((key, value));
            }
        }
    }
}

impl Key {
    fn of(value: &Value<'_>) -> Option<Self> {
        Some(match value {
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(number) => Self::Integer(i128::from(*number)),
            Value::Uint(number) => Self::Integer(i128::from(*number)),
            Value::Double(number) if number.fract() == 0.0 && number.abs() < 2_f64.powi(65) => {
                Self::Integer(*number as i128)
            }
            Value::Double(number) => Self::Double(number.to_bits()),
            Value::String(text) => Self::String(text.as_str().into()),
            _ => return None,
        })
    }
}

impl Value<'_> {
    /// A scalar as errors print it.
    pub(crate) fn display(&self) -> String {
        match self {
            Value::Bool(value) => value.to_string(),
            Value::Int(number) => number.to_string(),
            Value::Uint(number) => number.to_string(),
            Value::Double(number) => crate::library::convert::shortest_double(*number, 21),
            Value::String(text) => text.as_str().to_owned(),
            other => other.type_of().to_string(),
        }
    }
}

/// A value as text, for tests and messages: strings are quoted, and every type has a form of its own.
pub fn display(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => format!("{number}u"),
        Value::Double(_) => format!("double({})", value.display()),
        Value::String(text) => format!("{:?}", text.as_str()),
        Value::Bytes(bytes) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("bytes({digits})")
        }
        Value::Duration(duration) => {
            format!(
                "google.protobuf.Duration({})",
                crate::time::format_duration(*duration)
            )
        }
        Value::Timestamp(timestamp) => format!("google.protobuf.Timestamp({timestamp})"),
        Value::List(list) => {
            let items: Vec<String> = list.iter().map(|item| display(&item)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let entries = map.entries();
            let mut entries: Vec<String> = entries
                .iter()
                .map(|(key, value)| format!("{}: {}", display(key), display(value)))
                .collect();
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Optional(None) => "none".to_owned(),
        Value::Optional(Some(value)) => format!("some({})", display(value)),
        Value::Type(own) => format!("type({})", own.name()),
        Value::Opaque(opaque) => opaque.type_name().to_owned(),
    }
}
