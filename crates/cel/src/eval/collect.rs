//! Lists and maps that loops build: entries are added in place, since a step that is evaluated would copy the list.

use std::sync::Arc;

use super::{EvalError, Frame, no_such_overload};
use crate::library::cost;
use crate::plan::{Collect, CollectEntry, Step};
use crate::value::{Entries, List, Map, Value};

impl<'a> Frame<'a, '_> {
    /// Adds to the list or map that a loop builds in place. A step that is evaluated would copy it.
    pub(super) fn collect(&mut self, collect: &Collect, slot: usize) -> Result<(), EvalError> {
        if let Some(filter) = &collect.filter {
            match self.eval(filter)? {
                Value::Bool(true) => {}
                Value::Bool(false) => return Ok(()),
                _ => return Err(no_such_overload()),
            }
        }
        self.charge(cost::SELECT)?;
        let mut accumulator = std::mem::replace(&mut self.locals[slot], Ok(Value::Null));
        let outcome = match &mut accumulator {
            Ok(Value::List(List::Values(values))) => self.append(&collect.entry, Arc::make_mut(values)),
            Ok(Value::Map(Map::Entries(entries))) => self.insert(&collect.entry, Arc::make_mut(entries)),
            _ => Err(no_such_overload()),
        };
        self.locals[slot] = accumulator;
        outcome
    }

    fn append(&mut self, entry: &CollectEntry, values: &mut Vec<Value<'a>>) -> Result<(), EvalError> {
        let CollectEntry::Item(item) = entry else {
            return Err(no_such_overload());
        };
        let value = self.eval(item);
        // A list of one item is created and added.
        let created = if matches!(item, Step::Constant(_)) {
            0
        } else {
            cost::LIST
        };
        self.charge(created + 1)?;
        values.push(value?);
        Ok(())
    }

    fn insert(&mut self, entry: &CollectEntry, entries: &mut Entries<'a>) -> Result<(), EvalError> {
        match entry {
            CollectEntry::KeyAndValue(key, value) => {
                let key = self.eval(key)?;
                let value = self.eval(value);
                self.charge(1)?;
                entries.insert(key, value?)?;
            }
            CollectEntry::Entries(step) => {
                let added = self.eval(step);
                self.charge(1)?;
                let Value::Map(map) = added? else {
                    return Err(no_such_overload());
                };
                for (key, value) in map.entries() {
                    entries.insert(key, value)?;
                }
            }
            CollectEntry::Item(_) => return Err(no_such_overload()),
        }
        Ok(())
    }
}
