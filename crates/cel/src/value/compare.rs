//! Equality and order of values.

use std::cmp::Ordering;

use super::{List, Map, Value};
use crate::cel_type::Type;
use crate::value_schema::ListSemantics;

impl Value<'_> {
    /// Equality. Numbers of different types are equal if their amounts are; values of other different types never are.
    pub(crate) fn equals(&self, other: &Value<'_>) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(own), Value::Bool(other)) => own == other,
            (Value::String(own), Value::String(other)) => own.as_str() == other.as_str(),
            (Value::Bytes(own), Value::Bytes(other)) => own == other,
            (Value::Duration(own), Value::Duration(other)) => own == other,
            (Value::Timestamp(own), Value::Timestamp(other)) => own == other,
            (Value::List(own), Value::List(other)) => own.equals(other),
            (Value::Map(own), Value::Map(other)) => own.equals(other),
            (Value::Optional(own), Value::Optional(other)) => match (own, other) {
                (None, None) => true,
                (Some(own), Some(other)) => own.equals(other),
                _ => false,
            },
            (Value::Type(own), Value::Type(other)) => is_same_type(own, other),
            (Value::Opaque(own), Value::Opaque(other)) => own == other,
            _ => compare_numbers(self, other) == Some(Ordering::Equal),
        }
    }

    /// The order of two values; an error if they have none.
    pub(crate) fn compare(&self, other: &Value<'_>) -> Result<Ordering, String> {
        let order = match (self, other) {
            (Value::Bool(own), Value::Bool(other)) => Some(own.cmp(other)),
            (Value::String(own), Value::String(other)) => Some(own.as_str().cmp(other.as_str())),
            (Value::Bytes(own), Value::Bytes(other)) => Some(own.cmp(other)),
            (Value::Duration(own), Value::Duration(other)) => Some(own.cmp(other)),
            (Value::Timestamp(own), Value::Timestamp(other)) => Some(own.cmp(other)),
            _ => {
                let is_nan = |value: &Value<'_>| matches!(value, Value::Double(number) if number.is_nan());
                if is_nan(self) || is_nan(other) {
                    return Err("NaN values cannot be ordered".to_owned());
                }
                compare_numbers(self, other)
            }
        };
        order.ok_or_else(|| "no such overload".to_owned())
    }
}

impl List<'_> {
    fn equals(&self, other: &List<'_>) -> bool {
        if self.len() != other.len() {
            return false;
        }
        match self.semantics().or_else(|| other.semantics()) {
            Some(ListSemantics::Set) => self.iter().all(|item| other.iter().any(|one| one.equals(&item))),
            Some(ListSemantics::Map(keys)) => self.iter().all(|item| {
                let same = other.iter().find(|one| has_same_keys(&item, one, keys));
                same.is_some_and(|same| same.equals(&item))
            }),
            _ => self
                .iter()
                .zip(other.iter())
                .all(|(own, other)| own.equals(&other)),
        }
    }

    /// The semantics of a list whose items are not identified by their position.
    pub(crate) fn semantics(&self) -> Option<&ListSemantics> {
        match self {
            List::Node(node) => node.semantics().filter(|own| **own != ListSemantics::Atomic),
            List::Values(_) | List::Concat(_) => None,
        }
    }
}

/// Whether two items of a list have the same values in the key fields.
pub(crate) fn has_same_keys(own: &Value<'_>, other: &Value<'_>, keys: &[String]) -> bool {
    let (Value::Map(own), Value::Map(other)) = (own, other) else {
        return false;
    };
    keys.iter().all(|key| {
        let key = Value::string(key.as_str());
        match (own.get(&key), other.get(&key)) {
            (Some(own), Some(other)) => own.equals(&other),
            (None, None) => true,
            _ => false,
        }
    })
}

impl Map<'_> {
    fn equals(&self, other: &Map<'_>) -> bool {
        if let (Map::Node(own), Map::Node(other)) = (self, other)
            && let Some(is_equal) = own.equals_object(*other)
        {
            return is_equal;
        }
        self.len() == other.len()
            && self.entries().iter().all(|(key, value)| {
                let same = other.get(key);
                same.is_some_and(|same| same.equals(value))
            })
    }
}

fn is_same_type(own: &Type, other: &Type) -> bool {
    match (own, other) {
        (Type::List(_), Type::List(_))
        | (Type::Map(_), Type::Map(_))
        | (Type::Optional(_), Type::Optional(_))
        | (Type::Type(_), Type::Type(_)) => true,
        (Type::Object(own), Type::Object(other)) => own.name == other.name,
        _ => own == other,
    }
}

/// The order of two numbers of any types.
fn compare_numbers(own: &Value<'_>, other: &Value<'_>) -> Option<Ordering> {
    match (own, other) {
        (Value::Int(own), Value::Int(other)) => Some(own.cmp(other)),
        (Value::Uint(own), Value::Uint(other)) => Some(own.cmp(other)),
        (Value::Double(own), Value::Double(other)) => own.partial_cmp(other),
        (Value::Int(own), Value::Uint(other)) => Some(i128::from(*own).cmp(&i128::from(*other))),
        (Value::Uint(own), Value::Int(other)) => Some(i128::from(*own).cmp(&i128::from(*other))),
        (Value::Int(own), Value::Double(other)) => compare_to_double(i128::from(*own), *other),
        (Value::Uint(own), Value::Double(other)) => compare_to_double(i128::from(*own), *other),
        (Value::Double(own), Value::Int(other)) => {
            compare_to_double(i128::from(*other), *own).map(Ordering::reverse)
        }
        (Value::Double(own), Value::Uint(other)) => {
            compare_to_double(i128::from(*other), *own).map(Ordering::reverse)
        }
        _ => None,
    }
}

/// Compares exactly where the double is in the range of integers, which is all that matters for 64 bits.
fn compare_to_double(integer: i128, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    if double.abs() >= 2_f64.powi(65) {
        return 0.0.partial_cmp(&double);
    }
    let whole = double.trunc() as i128;
    match integer.cmp(&whole) {
        Ordering::Equal => 0.0.partial_cmp(&(double - double.trunc())),
        order => Some(order),
    }
}
