//! Values as a Go template has them: the types of decoded YAML and JSON, and those that functions return. A value knows
//! its Go type, which printing and error messages show.

mod equality;
mod json;
mod nesting;
mod operand;
mod version;

use std::cell::{Ref, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use jiff::Zoned;

pub(crate) use equality::deep_equal;
pub use json::NumberType;
pub(crate) use nesting::MAX_DEPTH;
pub use operand::Operand;
pub(crate) use version::Version;

use crate::functions::Function;
use crate::limits::Budget;

/// A value with its Go type. Maps are shared and can be changed by functions; all other values are immutable.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// `nil`.
    #[default]
    Nil,
    Bool(bool),
    /// Go's `int`: constants of templates, and lengths.
    Int(i64),
    /// `int64`: integers of data.
    Int64(i64),
    /// `uint8`: a byte of a string.
    Uint8(u8),
    Uint64(u64),
    /// `float64`.
    Float(f64),
    /// `complex128`.
    Complex(f64, f64),
    String(Rc<str>),
    List(List),
    Map(Map),
    /// `time.Time`.
    Time(Rc<Zoned>),
    /// `*semver.Version`.
    Version(Rc<Version>),
    /// A function, which only `call` uses.
    Function(Rc<Function>),
}

/// The element type of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    Any,
    String,
    Int,
    /// `[]interface {}`, of the slices that `chunk` returns.
    List,
}

/// A Go slice.
#[derive(Clone, Debug)]
pub struct List {
    element: ElementType,
    /// `None` is a nil slice.
    items: Option<Rc<Vec<Value>>>,
}

/// The entries of a map, which all copies of it share.
type Entries = Rc<RefCell<BTreeMap<String, Value>>>;

/// A Go map with string keys.
#[derive(Clone, Debug)]
pub struct Map {
    element: ElementType,
    /// `None` is a nil map.
    entries: Option<Entries>,
}

impl Value {
    pub fn string(text: impl Into<Rc<str>>) -> Self {
        Self::String(text.into())
    }

    /// A `[]interface {}`.
    pub fn list(items: Vec<Self>) -> Self {
        Self::List(List::new(ElementType::Any, items))
    }

    /// A `[]string`.
    pub fn strings<T: Into<Rc<str>>>(items: impl IntoIterator<Item = T>) -> Self {
        let items = items.into_iter().map(Self::string).collect();
        Self::List(List::new(ElementType::String, items))
    }

    /// A `map[string]interface {}`.
    pub fn map(entries: BTreeMap<String, Self>) -> Self {
        Self::Map(Map::new(ElementType::Any, entries))
    }

    /// The Go type, as `%T` prints it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Int64(_) => "int64",
            Self::Uint8(_) => "uint8",
            Self::Uint64(_) => "uint64",
            Self::Float(_) => "float64",
            Self::Complex(..) => "complex128",
            Self::String(_) => "string",
            Self::List(list) => list.type_name(),
            Self::Map(map) => map.type_name(),
            Self::Time(_) => "time.Time",
            Self::Version(_) => "*semver.Version",
            Self::Function(_) => "func(...interface {}) interface {}",
        }
    }

    /// The Go kind, as `reflect.Kind` prints it.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Self::Nil => "invalid",
            Self::List(_) => "slice",
            Self::Map(_) => "map",
            Self::Time(_) => "struct",
            Self::Version(_) => "ptr",
            Self::Function(_) => "func",
            _ => self.type_name(),
        }
    }

    /// Whether `if` takes the value as true: it is not the zero value of its type, nor empty.
    pub fn is_true(&self) -> bool {
        match self {
            Self::Nil => false,
            Self::Bool(value) => *value,
            Self::Int(value) | Self::Int64(value) => *value != 0,
            Self::Uint8(value) => *value != 0,
            Self::Uint64(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Complex(real, imaginary) => *real != 0.0 || *imaginary != 0.0,
            Self::String(text) => !text.is_empty(),
            Self::List(list) => !list.items().is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::Time(_) | Self::Version(_) | Self::Function(_) => true,
        }
    }

    /// Whether it is nil, or a slice or map that is.
    pub(crate) fn is_nil(&self) -> bool {
        match self {
            Self::Nil => true,
            Self::List(list) => list.items.is_none(),
            Self::Map(map) => map.entries.is_none(),
            _ => false,
        }
    }

    /// The signed or unsigned integer, of any Go type.
    pub(crate) fn as_integer(&self) -> Option<i128> {
        match self {
            Self::Int(value) | Self::Int64(value) => Some(i128::from(*value)),
            Self::Uint8(value) => Some(i128::from(*value)),
            Self::Uint64(value) => Some(i128::from(*value)),
            _ => None,
        }
    }
}

impl List {
    pub fn new(element: ElementType, items: Vec<Value>) -> Self {
        Self {
            element,
            items: Some(Rc::new(items)),
        }
    }

    /// The nil slice.
    pub fn nil(element: ElementType) -> Self {
        Self { element, items: None }
    }

    pub fn items(&self) -> &[Value] {
        self.items.as_deref().map_or(&[], Vec::as_slice)
    }

    pub fn element(&self) -> ElementType {
        self.element
    }

    fn type_name(&self) -> &'static str {
        match self.element {
            ElementType::Any => "[]interface {}",
            ElementType::String => "[]string",
            ElementType::Int => "[]int",
            ElementType::List => "[][]interface {}",
        }
    }
}

impl Map {
    pub fn new(element: ElementType, entries: BTreeMap<String, Value>) -> Self {
        Self {
            element,
            entries: Some(Rc::new(RefCell::new(entries))),
        }
    }

    /// The nil map.
    pub fn nil() -> Self {
        Self {
            element: ElementType::Any,
            entries: None,
        }
    }

    pub fn element(&self) -> ElementType {
        self.element
    }

    pub fn len(&self) -> usize {
        self.entries.as_ref().map_or(0, |entries| entries.borrow().len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn find(&self, key: &str) -> Option<Value> {
        self.entries.as_ref()?.borrow().get(key).cloned()
    }

    /// The entries, in the order of their keys.
    pub fn entries(&self) -> Vec<(String, Value)> {
        let copy = |entries: Ref<'_, BTreeMap<String, Value>>| {
            let pairs = entries.iter().map(|(key, value)| (key.clone(), value.clone()));
            pairs.collect()
        };
        self.entries
            .as_ref()
            .map_or_else(Vec::new, |entries| copy(entries.borrow()))
    }

    /// Sets an entry, for all that share the map. Entries of a nil map cannot be set, and no map may contain itself.
    pub(crate) fn insert(&self, key: &str, value: Value, budget: &Budget) -> Result<(), String> {
        let entries = self.entries.as_ref().ok_or("assignment to entry in nil map")?;
        if nesting::contains(&value, entries, budget)? {
            return Err("a map cannot contain itself".to_owned());
        }
        entries.borrow_mut().insert(key.to_owned(), value);
        Ok(())
    }

    pub(crate) fn remove(&self, key: &str) {
        if let Some(entries) = &self.entries {
            entries.borrow_mut().remove(key);
        }
    }

    fn type_name(&self) -> &'static str {
        match self.element {
            ElementType::String => "map[string]string",
            _ => "map[string]interface {}",
        }
    }
}
