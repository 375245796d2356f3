//! Deep equality, as Go's `reflect.DeepEqual` has it: types must be equal, too.

use std::rc::Rc;

use super::Value;
use crate::limits::Budget;

/// Whether two values are deeply equal. Each pair that is compared is a step.
pub(crate) fn deep_equal(a: &Value, b: &Value, budget: &Budget) -> Result<bool, String> {
    let mut pending = vec![(a.clone(), b.clone())];
    while let Some((a, b)) = pending.pop() {
        budget.charge(1)?;
        if a.type_name() != b.type_name() || a.is_nil() != b.is_nil() {
            return Ok(false);
        }
        let is_equal = match (&a, &b) {
            (Value::List(a), Value::List(b)) => {
                let (a, b) = (a.items(), b.items());
                pending.extend(a.iter().cloned().zip(b.iter().cloned()));
                a.len() == b.len()
            }
            (Value::Map(a), Value::Map(b)) => {
                let (a, b) = (a.entries(), b.entries());
                let is_same_shape = a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| a.0 == b.0);
                pending.extend(a.into_iter().map(|a| a.1).zip(b.into_iter().map(|b| b.1)));
                is_same_shape
            }
            _ => equal_scalars(&a, &b),
        };
        if !is_equal {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equal_scalars(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::Complex(a, b), Value::Complex(c, d)) => (a, b) == (c, d),
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Time(a), Value::Time(b)) => a == b,
        (Value::Version(a), Value::Version(b)) => a == b,
        (Value::Function(a), Value::Function(b)) => Rc::ptr_eq(a, b),
        _ => a.as_integer() == b.as_integer(),
    }
}
