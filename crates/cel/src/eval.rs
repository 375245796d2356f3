//! Evaluation of a plan, with a bound on its cost.

mod aggregate;
mod attribute;
mod collect;
mod comprehension;

use std::fmt;

use crate::ast::operator;
use crate::library::cost;
use crate::plan::{CallStep, Step};
use crate::value::Value;

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
