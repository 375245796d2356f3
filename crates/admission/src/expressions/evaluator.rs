//! [`Evaluator`]: evaluates the expressions of a policy one after the other, within a budget.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use setpoint_cel::{DeferredFields, EvalError, Value};
use setpoint_kinds::admissionregistration::expressions::PER_CALL_LIMIT;

use super::{CompiledExpression, Inputs};

/// A variable of a policy.
#[derive(Debug)]
pub(crate) struct CompiledVariable {
    pub(crate) name: String,
    pub(crate) expression: CompiledExpression,
}

/// The expressions cost more than their budget. Upstream's words are those of validations, also for other expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("validation failed due to running out of cost budget, no further validation rules will be run")]
pub(crate) struct OutOfBudget;

/// Evaluates expressions with the same inputs. Variables of the policy are evaluated once, when an expression first
/// selects them.
#[derive(Debug)]
pub(crate) struct Evaluator<'a> {
    inputs: &'a Inputs<'a>,
    composition: Composition<'a>,
    budget: u64,
}

impl<'a> Evaluator<'a> {
    pub(crate) fn new(inputs: &'a Inputs<'a>, variables: &'a [CompiledVariable], budget: u64) -> Self {
        let composition = Composition {
            inputs,
            variables,
            values: RefCell::default(),
            cost: Cell::new(0),
        };
        Self {
            inputs,
            composition,
            budget,
        }
    }

    /// The value of an expression or the message of its error.
    pub(crate) fn evaluate(
        &mut self,
        expression: &'a CompiledExpression,
    ) -> Result<Result<Value<'a>, String>, OutOfBudget> {
        let compiled = match &expression.compiled {
            Ok(compiled) => compiled,
            Err(error) => return Ok(Err(format!("compilation error: {error}"))),
        };
        let values = self.inputs.values(compiled);
        let evaluation = compiled
            .program
            .evaluate_with(values, &self.composition, PER_CALL_LIMIT);
        self.charge(self.composition.cost.take())?;
        self.charge(evaluation.cost)?;
        let describe = |error| format!("expression '{}' resulted in error: {error}", expression.source);
        Ok(evaluation.value.map_err(describe))
    }

    /// What the expressions may still cost.
    pub(crate) fn budget(&self) -> u64 {
        self.budget
    }

    fn charge(&mut self, cost: u64) -> Result<(), OutOfBudget> {
        self.budget = self.budget.checked_sub(cost).ok_or(OutOfBudget)?;
        Ok(())
    }
}

/// The variables of a policy, as fields of `variables`.
#[derive(Debug)]
struct Composition<'a> {
    inputs: &'a Inputs<'a>,
    variables: &'a [CompiledVariable],
    values: RefCell<BTreeMap<&'a str, Result<Value<'a>, EvalError>>>,
    /// What the evaluation of variables cost since it was last charged.
    cost: Cell<u64>,
}

impl<'a> DeferredFields<'a> for Composition<'a> {
    fn field(&self, name: &str) -> Option<Result<Value<'a>, EvalError>> {
        if let Some(known) = self.values.borrow().get(name) {
            return Some(known.clone());
        }
        // Of several variables with one name the last one counts.
        let variable = self.variables.iter().rfind(|variable| variable.name == name)?;
        let value = self.evaluate(variable);
        self.values.borrow_mut().insert(&variable.name, value.clone());
        Some(value)
    }
}

impl<'a> Composition<'a> {
    fn evaluate(&self, variable: &'a CompiledVariable) -> Result<Value<'a>, EvalError> {
        let name = &variable.name;
        let failed = |what: &str, error: String| {
            EvalError::Failed(format!("composited variable {name:?} fails to {what}: {error}"))
        };
        let compiled = match &variable.expression.compiled {
            Ok(compiled) => compiled,
            Err(error) => return Err(failed("compile", error.to_string())),
        };
        let values = self.inputs.values(compiled);
        let evaluation = compiled.program.evaluate_with(values, self, PER_CALL_LIMIT);
        self.cost.set(self.cost.get().saturating_add(evaluation.cost));
        evaluation
            .value
            .map_err(|error| failed("evaluate", error.to_string()))
    }
}
