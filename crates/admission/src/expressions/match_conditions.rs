//! [`MatchConditions`]: conditions on the request and its objects that all must be true for a policy or webhook to apply.

use serde::Deserialize;
use setpoint_cel::Value;
use setpoint_kinds::admissionregistration::expressions::{Compiler, OptionalVariables, ResultType};

use super::{CompiledExpression, CompiledVariable, Evaluator, Inputs, MATCH_CONDITIONS_BUDGET};

/// A match condition as webhook configurations and policies write it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct MatchCondition {
    pub(crate) name: String,
    pub(crate) expression: String,
}

/// Compiled match conditions.
#[derive(Debug, Default)]
pub(crate) struct MatchConditions {
    expressions: Vec<CompiledExpression>,
}

impl MatchConditions {
    /// Compiles the conditions of a webhook.
    #[allow(dead_code, reason = "for webhooks")]
    pub(crate) fn of_webhook(conditions: &[MatchCondition]) -> Self {
        let optional = OptionalVariables {
            params: false,
            authorizer: true,
        };
        Self::compile(&Compiler::default(), conditions, optional)
    }

    /// Compiles conditions. One that does not compile is an error of the evaluation.
    pub(crate) fn compile(
        compiler: &Compiler,
        conditions: &[MatchCondition],
        optional: OptionalVariables,
    ) -> Self {
        let compile = |condition: &MatchCondition| {
            let source = &condition.expression;
            CompiledExpression::new(source, compiler.compile(source, optional, ResultType::Bool))
        };
        Self {
            expressions: conditions.iter().map(compile).collect(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.expressions.is_empty()
    }

    /// Whether all conditions are true. One that is false decides, whatever the others are; otherwise an error does, and
    /// the caller applies its failure policy: `Fail` rejects the request with this message, `Ignore` skips the webhook or
    /// policy.
    ///
    /// Conditions have no `namespaceObject`.
    pub(crate) fn evaluate(
        &self,
        inputs: &Inputs<'_>,
        variables: &[CompiledVariable],
    ) -> Result<bool, String> {
        if self.is_empty() {
            return Ok(true);
        }
        let inputs = Inputs {
            namespace: None,
            ..*inputs
        };
        let mut evaluator = Evaluator::new(&inputs, variables, MATCH_CONDITIONS_BUDGET);
        let (mut is_false, mut errors) = (false, Vec::new());
        // All conditions are evaluated: if they exceed the budget together, that is an error even if one is false.
        for expression in &self.expressions {
            match evaluator
                .evaluate(expression)
                .map_err(|error| error.to_string())?
            {
                Ok(value) => is_false |= matches!(value, Value::Bool(false)),
                Err(error) => errors.push(error),
            }
        }
        match is_false {
            true => Ok(false),
            false => aggregate(errors).map_or(Ok(true), Err),
        }
    }
}

/// Several errors as one message, each once.
fn aggregate(errors: Vec<String>) -> Option<String> {
    let mut distinct: Vec<String> = Vec::new();
    for error in errors {
        if !distinct.contains(&error) {
            distinct.push(error);
        }
    }
    match &distinct[..] {
        [] => None,
        [only] => Some(only.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}
