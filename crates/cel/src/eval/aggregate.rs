//! Lists, maps and struct literals.

use std::sync::Arc;

use super::{EvalError, Frame, Outcome, no_such_overload};
use crate::cel_type::{ObjectType, Type};
use crate::library::cost;
use crate::plan::Step;
use crate::value::{Text, Value};

impl<'a> Frame<'a, '_> {
    pub(super) fn list(&mut self, items: &[(Step, bool)]) -> Outcome<'a> {
        let mut values = Vec::with_capacity(items.len());
        let mut outcome = Ok(());
        for (item, optional) in items {
            match self.entry(item, *optional) {
                Ok(value) => values.extend(value),
                Err(failed) => {
                    outcome = Err(failed);
                    break;
                }
            }
        }
        self.charge(cost::LIST)?;
        outcome.map(|()| Value::list(values))
    }

    /// The value of an entry; none if it is optional and absent.
    pub(super) fn entry(&mut self, step: &Step, optional: bool) -> Result<Option<Value<'a>>, EvalError> {
        match self.eval(step)? {
            Value::Optional(inner) if optional => Ok(inner.map(|value| (*value).clone())),
            _ if optional => Err(no_such_overload()),
            value => Ok(Some(value)),
        }
    }

    pub(super) fn map(&mut self, steps: &[(Step, Step, bool)]) -> Outcome<'a> {
        let entries = self.map_entries(steps);
        self.charge(cost::MAP)?;
        entries.map(Value::map)
    }

    fn map_entries(
        &mut self,
        steps: &[(Step, Step, bool)],
    ) -> Result<Vec<(Value<'a>, Value<'a>)>, EvalError> {
        let mut entries = Vec::with_capacity(steps.len());
        for (key, value, optional) in steps {
            let key = self.eval(key)?;
            if let Some(value) = self.entry(value, *optional)? {
                entries.push((key, value));
            }
        }
        Ok(entries)
    }

    pub(super) fn structure(
        &mut self,
        object: &Arc<ObjectType>,
        fields: &[(Arc<str>, Step, bool)],
    ) -> Outcome<'a> {
        let mut entries = Vec::with_capacity(fields.len());
        for (name, value, optional) in fields {
            if let Some(value) = self.entry(value, *optional)? {
                check_field(object, name, &value)?;
                entries.push((Value::String(Text::Shared(name.clone())), value));
            }
        }
        self.charge(cost::STRUCT)?;
        Ok(Value::object(object.clone(), entries))
    }
}

/// Checks a value whose type was not known before against the declared type of its field.
fn check_field(object: &ObjectType, name: &str, value: &Value<'_>) -> Result<(), EvalError> {
    if object.fields.get(name) != Some(&Type::String) || matches!(value, Value::String(_)) {
        return Ok(());
    }
    let (owner, own) = (&object.name, value.go_type());
    Err(EvalError::Failed(format!(
        "unexpected type {own} for {owner}Type '{name}' field"
    )))
}
