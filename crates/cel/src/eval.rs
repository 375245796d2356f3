//! Evaluation of a plan, with a bound on its cost.

mod collect;

use std::fmt;
use std::sync::Arc;

use crate::ast::operator;
use crate::cel_type::{ObjectType, Type};
use crate::library::cost;
use crate::plan::{Attribute, CallStep, Fold, Qualifier, Root, Step};
use crate::value::{List, Map, Text, Value};

/// Why an evaluation has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvalError {
    /// An error of the expression, such as a key that does not exist. Logical operators may absorb it.
    Failed(String),
    /// The cost is above the limit. Nothing absorbs it.
    CostExceeded,
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(message) => f.write_str(message),
            Self::CostExceeded => f.write_str("operation cancelled: actual cost limit exceeded"),
        }
    }
}

impl std::error::Error for EvalError {}

impl From<String> for EvalError {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

type Outcome<'a> = Result<Value<'a>, EvalError>;

/// Fields of an object that are computed when an expression first selects them: the variables of a policy.
pub trait DeferredFields<'a>: fmt::Debug {
    /// The value of a field; `None` if there is no such field.
    fn field(&self, name: &str) -> Option<Result<Value<'a>, EvalError>>;
}

/// The deferred fields of an expression without any.
#[derive(Debug)]
pub(crate) struct NoDeferredFields;

impl<'a> DeferredFields<'a> for NoDeferredFields {
    fn field(&self, _name: &str) -> Option<Outcome<'a>> {
        None
    }
}

/// The state of one evaluation.
#[derive(Debug)]
pub(crate) struct Frame<'a, 'd> {
    /// In the order of the environment's variables.
    pub(crate) variables: Vec<Value<'a>>,
    /// The fields of [`Map::Deferred`].
    deferred: &'d dyn DeferredFields<'a>,
    locals: Vec<Result<Value<'a>, EvalError>>,
    pub(crate) cost: u64,
    limit: u64,
}

impl<'a, 'd> Frame<'a, 'd> {
    pub(crate) fn new(variables: Vec<Value<'a>>, deferred: &'d dyn DeferredFields<'a>, limit: u64) -> Self {
        Self {
            variables,
            deferred,
            locals: Vec::new(),
            cost: 0,
            limit,
        }
    }

    fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        match self.cost > self.limit {
            true => Err(EvalError::CostExceeded),
            false => Ok(()),
        }
    }

    /// Evaluates a step.
    pub(crate) fn eval(&mut self, step: &Step) -> Outcome<'a> {
        match step {
            Step::Constant(value) => Ok(value.clone()),
            Step::Attribute(attribute) => self.attribute(attribute),
            Step::Has(attribute, field) => self.has(attribute, field),
            Step::And(terms) => self.logical(terms, false),
            Step::Or(terms) => self.logical(terms, true),
            Step::Conditional(steps) => {
                let [condition, yes, no] = &**steps;
                match self.eval(condition)? {
                    Value::Bool(true) => self.branch(yes),
                    Value::Bool(false) => self.branch(no),
                    _ => Err(no_such_overload()),
                }
            }
            Step::Member(item, list) => {
                let item = self.eval(item)?;
                Ok(Value::Bool(list.iter().any(|one| one.equals(&item))))
            }
            Step::NotStrictlyFalse(operand) => match self.eval(operand) {
                Err(EvalError::CostExceeded) => Err(EvalError::CostExceeded),
                outcome => {
                    self.charge(1)?;
                    Ok(Value::Bool(!matches!(outcome, Ok(Value::Bool(false)))))
                }
            },
            Step::Call(call) => self.call(call),
            Step::OptionalOr(steps, unwraps) => self.optional_or(steps, *unwraps),
            Step::List(items) => self.list(items),
            Step::Map(entries) => self.map(entries),
            Step::Struct(object, fields) => self.structure(object, fields),
            Step::Fold(fold) => self.fold(fold),
            Step::Bind(steps) => {
                let [init, result] = &**steps;
                let value = self.eval(init);
                if value == Err(EvalError::CostExceeded) {
                    return value;
                }
                self.locals.push(value);
                let outcome = self.eval(result);
                self.locals.pop();
                outcome
            }
        }
    }

    /// A branch of a conditional. The variable of an attribute costs nothing here.
    fn branch(&mut self, step: &Step) -> Outcome<'a> {
        match step {
            Step::Attribute(attribute) => {
                let root = self.root(&attribute.root)?;
                self.qualifiers(root, &attribute.qualifiers)
            }
            step => self.eval(step),
        }
    }

    fn attribute(&mut self, attribute: &Attribute) -> Outcome<'a> {
        let root = self.root(&attribute.root);
        if !matches!(attribute.root, Root::Computed(Step::Conditional(_))) {
            self.charge(cost::SELECT)?;
        }
        self.qualifiers(root?, &attribute.qualifiers)
    }

    fn qualifiers(&mut self, mut value: Value<'a>, qualifiers: &[Qualifier]) -> Outcome<'a> {
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

    fn root(&mut self, root: &Root) -> Outcome<'a> {
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

    fn has(&mut self, attribute: &Attribute, name: &str) -> Outcome<'a> {
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

    fn field(&self, value: &Value<'a>, name: &str) -> Outcome<'a> {
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

    /// `&&` decides on false and `||` on true, whatever the other operands are; otherwise the first error decides.
    fn logical(&mut self, terms: &[Step], decisive: bool) -> Outcome<'a> {
        let mut error = None;
        for term in terms {
            match self.eval(term) {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => {
                    error.get_or_insert_with(no_such_overload);
                }
                Err(EvalError::CostExceeded) => return Err(EvalError::CostExceeded),
                Err(failed) => {
                    error.get_or_insert(failed);
                }
            }
        }
        error.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn call(&mut self, call: &CallStep) -> Outcome<'a> {
        let mut args = Vec::with_capacity(call.args.len());
        let mut error = None;
        for (at, argument) in call.args.iter().enumerate() {
            match self.eval(argument) {
                Ok(value) => args.push(value),
                Err(EvalError::CostExceeded) => return Err(EvalError::CostExceeded),
                // Of one or two arguments all are evaluated, and the call is charged.
                Err(failed) if call.args.len() > 2 && at + 1 < call.args.len() => return Err(failed),
                Err(failed) => {
                    error.get_or_insert(failed);
                    args.push(Value::Null);
                }
            }
        }
        if let Some(failed) = error {
            self.charge(cost::of_call(call.function, call.overload, &args, None))?;
            return Err(failed);
        }
        let result = (call.code)(&args, call.regex.as_ref());
        let cost = cost::of_call(call.function, call.overload, &args, result.as_ref().ok());
        self.charge(cost)?;
        result.map_err(|why| EvalError::Failed(named_overload(call.function, &args, why)))
    }

    fn optional_or(&mut self, steps: &[Step; 2], unwraps: bool) -> Outcome<'a> {
        let [target, other] = steps;
        match self.eval(target)? {
            Value::Optional(None) => self.eval(other),
            Value::Optional(Some(value)) if unwraps => Ok((*value).clone()),
            value @ Value::Optional(_) => Ok(value),
            _ => Err(no_such_overload()),
        }
    }

    fn list(&mut self, items: &[(Step, bool)]) -> Outcome<'a> {
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
    fn entry(&mut self, step: &Step, optional: bool) -> Result<Option<Value<'a>>, EvalError> {
        match self.eval(step)? {
            Value::Optional(inner) if optional => Ok(inner.map(|value| (*value).clone())),
            _ if optional => Err(no_such_overload()),
            value => Ok(Some(value)),
        }
    }

    fn map(&mut self, steps: &[(Step, Step, bool)]) -> Outcome<'a> {
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

    fn structure(&mut self, object: &Arc<ObjectType>, fields: &[(Arc<str>, Step, bool)]) -> Outcome<'a> {
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

    fn fold(&mut self, fold: &Fold) -> Outcome<'a> {
        let range = self.eval(&fold.range)?;
        let init = self.eval(&fold.init);
        let slot = self.locals.len();
        self.locals.push(init);
        let outcome = self.iterate(fold, slot, &range);
        self.locals.truncate(slot + 1);
        let outcome = outcome.and_then(|()| self.eval(&fold.result));
        self.locals.truncate(slot);
        outcome
    }

    fn iterate(&mut self, fold: &Fold, slot: usize, range: &Value<'a>) -> Result<(), EvalError> {
        match range {
            Value::List(list) => {
                for at in 0..list.len() {
                    let Some(item) = list.get(at) else { break };
                    let index = i64::try_from(at).unwrap_or(i64::MAX);
                    let variables = match fold.has_two {
                        true => (Value::Int(index), Some(item)),
                        false => (item, None),
                    };
                    if !self.turn(fold, slot, variables)? {
                        break;
                    }
                }
                Ok(())
            }
            Value::Map(map) => {
                for (key, value) in map.entries() {
                    if !self.turn(fold, slot, (key, fold.has_two.then_some(value)))? {
                        break;
                    }
                }
                Ok(())
            }
            _ => Err(no_such_overload()),
        }
    }

    /// One turn of a loop. Returns whether it goes on.
    fn turn(
        &mut self,
        fold: &Fold,
        slot: usize,
        variables: (Value<'a>, Option<Value<'a>>),
    ) -> Result<bool, EvalError> {
        self.locals.truncate(slot + 1);
        self.locals.push(Ok(variables.0));
        self.locals.extend(variables.1.map(Ok));
        if let Value::Bool(false) = self.eval(&fold.condition)? {
            return Ok(false);
        }
        if let Some(collect) = &fold.collect
            && self.locals[slot].is_ok()
        {
            match self.collect(collect, slot) {
                Err(EvalError::CostExceeded) => return Err(EvalError::CostExceeded),
                Err(failed) => self.locals[slot] = Err(failed),
                Ok(()) => {}
            }
            return Ok(true);
        }
        let value = self.eval(&fold.step);
        if value == Err(EvalError::CostExceeded) {
            return Err(EvalError::CostExceeded);
        }
        self.locals[slot] = value;
        Ok(true)
    }
}

/// Evaluates a call whose arguments are constants.
pub(crate) fn constant(call: &CallStep) -> Result<Value<'static>, String> {
    let args: Vec<Value<'static>> = call
        .args
        .iter()
        .filter_map(|argument| match argument {
            Step::Constant(value) => Some(value.clone()),
            _ => None,
        })
        .collect();
    (call.code)(&args, call.regex.as_ref())
}

/// The error of an operator whose first operand has no such operator at all names it.
fn named_overload(function: &str, args: &[Value<'_>], why: String) -> String {
    let is_number = |value: &Value<'_>| matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_));
    let is_time = |value: &Value<'_>| matches!(value, Value::Duration(_) | Value::Timestamp(_));
    let is_text = |value: &Value<'_>| matches!(value, Value::String(_) | Value::Bytes(_));
    let Some(first) = args.first().filter(|_| why == "no such overload") else {
        return why;
    };
    let has_operator = match function {
        operator::ADD => {
            is_number(first) || is_time(first) || is_text(first) || matches!(first, Value::List(_))
        }
        operator::SUBTRACT => is_number(first) || is_time(first),
        operator::MULTIPLY | operator::DIVIDE => is_number(first),
        operator::MODULO => matches!(first, Value::Int(_) | Value::Uint(_)),
        operator::LESS | operator::LESS_EQUALS | operator::GREATER | operator::GREATER_EQUALS => {
            is_number(first) || is_time(first) || is_text(first) || matches!(first, Value::Bool(_))
        }
        "size" => false,
        _ => true,
    };
    match has_operator {
        true => why,
        false => format!("{why}: {function}"),
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

pub(crate) fn no_such_overload() -> EvalError {
    EvalError::Failed("no such overload".to_owned())
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.equals(other)
    }
}

#[cfg(test)]
mod tests;
