//! The operand: a value and its static type, which is what Go's `reflect.Value` has.

use super::{ElementType, List, Map, Value};

/// A value as a pipeline passes it on. Fields and elements of untyped data have the static type `interface {}`, which
/// error messages show.
#[derive(Clone, Debug, Default)]
pub struct Operand {
    pub value: Value,
    /// Whether the static type is `interface {}`.
    pub is_interface: bool,
}

impl Operand {
    /// A value of its own type. Nil without a type is Go's invalid `reflect.Value`.
    pub fn new(value: Value) -> Self {
        Self {
            value,
            is_interface: false,
        }
    }

    /// A value in an `interface {}`.
    pub fn interface(value: Value) -> Self {
        Self {
            value,
            is_interface: true,
        }
    }

    /// An element of a slice or map.
    pub(crate) fn element(value: Value, element: ElementType) -> Self {
        Self {
            value,
            is_interface: element == ElementType::Any,
        }
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.is_interface || !matches!(self.value, Value::Nil)
    }

    /// Whether it is an `interface {}` without a value.
    pub(crate) fn is_nil_interface(&self) -> bool {
        self.is_interface && matches!(self.value, Value::Nil)
    }

    pub(crate) fn static_type(&self) -> &'static str {
        match self.is_interface {
            true => "interface {}",
            false => self.value.type_name(),
        }
    }

    /// The value without its interface.
    pub(crate) fn unwrapped(self) -> Self {
        Self::new(self.value)
    }

    pub fn as_str(&self) -> &str {
        match &self.value {
            Value::String(text) => text,
            _ => "",
        }
    }

    /// The number of an `int`, which the signature guarantees.
    pub fn as_int(&self) -> i64 {
        match self.value {
            Value::Int(value) | Value::Int64(value) => value,
            _ => 0,
        }
    }

    pub fn as_list(&self) -> Option<&List> {
        match &self.value {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    pub fn as_map(&self) -> Option<&Map> {
        match &self.value {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }
}
