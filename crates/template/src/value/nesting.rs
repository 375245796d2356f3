//! Deeply nested values. A loop of a template can nest values without limit, so that no function here recurses.

use std::rc::Rc;

use super::{Entries, List, Map, Value};
use crate::limits::Budget;

/// The deepest value that functions print, copy or merge.
pub(crate) const MAX_DEPTH: usize = 100;

/// Whether a value has the map somewhere inside. Each value that is visited is a step.
pub(super) fn contains(value: &Value, map: &Entries, budget: &Budget) -> Result<bool, String> {
    let mut pending = vec![value.clone()];
    while let Some(value) = pending.pop() {
        budget.charge(1)?;
        match &value {
            Value::List(list) => {
                pending.extend(list.items().iter().filter(|item| is_container(item)).cloned())
            }
            Value::Map(Map {
                entries: Some(entries),
                ..
            }) => {
                if Rc::ptr_eq(entries, map) {
                    return Ok(true);
                }
                pending.extend(
                    entries
                        .borrow()
                        .values()
                        .filter(|value| is_container(value))
                        .cloned(),
                );
            }
            _ => {}
        }
    }
    Ok(false)
}

fn is_container(value: &Value) -> bool {
    matches!(value, Value::List(_) | Value::Map(_))
}

impl Drop for List {
    fn drop(&mut self) {
        if let Some(items) = self.items.take().and_then(Rc::into_inner) {
            drop_all(items);
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if let Some(entries) = self.entries.take().and_then(Rc::into_inner) {
            drop_all(entries.into_inner().into_values().collect());
        }
    }
}

/// Drops values one after the other, since the drop of a nested value would recurse.
fn drop_all(mut pending: Vec<Value>) {
    while let Some(mut value) = pending.pop() {
        match &mut value {
            Value::List(list) => {
                pending.extend(list.items.take().and_then(Rc::into_inner).into_iter().flatten())
            }
            Value::Map(map) => {
                let entries = map.entries.take().and_then(Rc::into_inner);
                pending.extend(
                    entries
                        .into_iter()
                        .flat_map(|entries| entries.into_inner().into_values()),
                );
            }
            _ => {}
        }
    }
}
