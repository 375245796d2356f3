//! Variables and the fields and elements that are selected of them.

use super::{EvalError, Frame, Outcome, no_such_overload};
use crate::library::cost;
use crate::plan::{Attribute, Qualifier, Root, Step};
use crate::value::{List, Map, Text, Value};

impl<'a> Frame<'a, '_> {
    pub(super) fn attribute(&mut self, attribute: &Attribute) -> Outcome<'a> {
        let root = self.root(&attribute.root);
        if !matches!(attribute.root, Root::Computed(Step::Conditional(_))) {
            self.charge(cost::SELECT)?;
        }
        self.qualifiers(root?, &attribute.qualifiers)
    }

    pub(super) fn qualifiers(&mut self, mut value: Value<'a>, qualifiers: &[Qualifier]) -> Outcome<'a> {
        for (at, qualifier) in qualifiers.iter().enumerate() {
            value = match value {
                Value::Optional(inner) if at > 0 || !matches!(qualifier, Qualifier::Field(_)) => {
                    match self.optional_qualifier(inner.as_deref(), qualifier)? {
                        Some(value) => Value::some(value),
                        None => return Ok(Value::NONE),
                    }
                }
                value => match self.qualify(&value, qualifier)? {
                    Some(value) => value,
                    None => return Ok(Value::NONE),
                },
            };
        }
        Ok(value)
    }

    pub(super) fn root(&mut self, root: &Root) -> Outcome<'a> {
        match root {
            Root::Variable(at) => Ok(self.variables[*at].clone()),
            Root::Local(slot) => self.locals[*slot].clone(),
            Root::Computed(step) => self.eval(step),
        }
    }

    /// Selects from the content of an optional value.
    fn optional_qualifier(
        &mut self,
        inner: Option<&Value<'a>>,
        qualifier: &Qualifier,
    ) -> Result<Option<Value<'a>>, EvalError> {
        let Some(inner) = inner else { return Ok(None) };
        let found = match qualifier {
            Qualifier::Field(name) | Qualifier::OptionalField(name) => self.field(inner, name),
            Qualifier::Index(index) | Qualifier::OptionalIndex(index) => {
                let index = self.eval(index)?;
                element(inner, &index)
            }
        };
        self.charge_found(found)
    }

    /// Selects a field or an element. `None` is the absence of an optional one.
    fn qualify(&mut self, value: &Value<'a>, qualifier: &Qualifier) -> Result<Option<Value<'a>>, EvalError> {
        match qualifier {
            Qualifier::Field(name) => {
                self.charge(cost::SELECT)?;
                Ok(Some(self.field(value, name)?))
            }
            Qualifier::Index(index) => {
                let index = self.eval(index)?;
                self.charge(cost::SELECT)?;
                Ok(Some(element(value, &index)?))
            }
            Qualifier::OptionalField(name) => {
                let found = self.charge_found(self.field(value, name))?;
                Ok(found.map(Value::some))
            }
            Qualifier::OptionalIndex(index) => {
                let index = self.eval(index)?;
                let found = self.charge_found(element(value, &index))?;
                Ok(found.map(Value::some))
            }
        }
    }

    /// An optional selection costs nothing if nothing is there.
    fn charge_found(&mut self, found: Outcome<'a>) -> Result<Option<Value<'a>>, EvalError> {
        if found.is_ok() {
            self.charge(cost::SELECT)?;
        }
        Ok(found.ok())
    }

    pub(super) fn has(&mut self, attribute: &Attribute, name: &str) -> Outcome<'a> {
        let root = self.root(&attribute.root)?;
        let value = self.qualifiers(root, &attribute.qualifiers)?;
        self.charge(cost::SELECT)?;
        let value = match &value {
            Value::Optional(None) => return Ok(Value::Bool(false)),
            Value::Optional(Some(inner)) => inner,
            value => value,
        };
        match value {
            Value::Map(Map::Deferred) => match self.deferred.field(name) {
                Some(Err(failed)) => Err(failed),
                found => Ok(Value::Bool(found.is_some())),
            },
            Value::Map(map) => Ok(Value::Bool(
                map.get(&Value::String(Text::Borrowed(name))).is_some(),
            )),
            Value::List(_) => Err(field_of_list()),
            _ => Ok(Value::Bool(false)),
        }
    }

    pub(super) fn field(&self, value: &Value<'a>, name: &str) -> Outcome<'a> {
        let missing = || EvalError::Failed(format!("no such key: {name}"));
        match value {
            Value::Map(Map::Deferred) => self.deferred.field(name).unwrap_or_else(|| Err(missing())),
            Value::Map(map) => map
                .select(&Value::String(Text::Borrowed(name)))
                .ok_or_else(missing),
            Value::List(_) => Err(field_of_list()),
            _ => Err(missing()),
        }
    }
}

fn field_of_list() -> EvalError {
    EvalError::Failed("unsupported index type 'string' in list".to_owned())
}

fn element<'a>(value: &Value<'a>, index: &Value<'a>) -> Outcome<'a> {
    match value {
        Value::Map(map) => match_key(map, index),
        Value::List(list) => {
            let at = match index {
                Value::Int(at) => *at,
                Value::Uint(at) => i64::try_from(*at).unwrap_or(i64::MAX),
                Value::Double(at) if at.fract() == 0.0 => *at as i64,
                _ => return Err(no_such_overload()),
            };
            item(list, at).ok_or_else(|| EvalError::Failed(format!("index out of bounds: {at}")))
        }
        _ => Err(EvalError::Failed(format!("no such key: {}", index.display()))),
    }
}

fn item<'a>(list: &List<'a>, at: i64) -> Option<Value<'a>> {
    list.get(usize::try_from(at).ok()?)
}

fn match_key<'a>(map: &Map<'a>, key: &Value<'a>) -> Outcome<'a> {
    map.select(key)
        .ok_or_else(|| EvalError::Failed(format!("no such key: {}", key.display())))
}
