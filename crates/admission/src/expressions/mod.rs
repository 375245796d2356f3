//! Evaluation of CEL expressions on a review: for admission policies, and for the match conditions of webhooks.
//!
//! [`Inputs`] are the values of the variables, [`Evaluator`] evaluates compiled expressions with them within a budget, and
//! [`MatchConditions`] decide whether a policy or a webhook applies. Expressions never wait, and each evaluation has a
//! limit on its cost, so that no expression holds up a request for long.

mod authorizer;
mod evaluator;
mod inputs;
mod match_conditions;

pub(crate) use authorizer::RequestAuthorizer;
pub(crate) use evaluator::{CompiledVariable, Evaluator, OutOfBudget};
pub(crate) use inputs::Inputs;
pub(crate) use match_conditions::{MatchCondition, MatchConditions};

use setpoint_kinds::admissionregistration::expressions::{Expression, ExpressionError};

/// What all expressions of a policy, with one set of parameters, may cost together.
pub(crate) const BUDGET: u64 = 10_000_000;
/// What the match conditions of a policy or of a webhook may cost together.
const MATCH_CONDITIONS_BUDGET: u64 = 2_500_000;

/// An expression of a stored object with its source. One that does not compile fails when it is evaluated.
#[derive(Debug)]
pub(crate) struct CompiledExpression {
    source: String,
    compiled: Result<Expression, ExpressionError>,
}

impl CompiledExpression {
    pub(crate) fn new(source: &str, compiled: Result<Expression, ExpressionError>) -> Self {
        Self {
            source: source.to_owned(),
            compiled,
        }
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    pub(crate) fn error(&self) -> Option<&ExpressionError> {
        self.compiled.as_ref().err()
    }
}

#[cfg(test)]
mod tests;
