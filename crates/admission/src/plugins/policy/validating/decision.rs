//! The decisions of a policy about a review with one set of parameters.

use setpoint_cel::Value;

use super::super::{FailurePolicy, Policy};
use super::compiled::{CompiledValidation, ValidatingPolicy};
use crate::expressions::{BUDGET, Evaluator, Inputs, OutOfBudget};

/// A longer message of an expression is not used.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// The decision of one validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    Admit,
    /// The reason is empty if the policy could not be evaluated.
    Deny {
        message: String,
        reason: String,
    },
}

/// The outcome of a policy.
#[derive(Debug, Default)]
pub(super) struct Evaluation {
    /// In the order of the validations.
    pub(super) decisions: Vec<Decision>,
    /// Key and value of audit annotations, or why there is no value.
    pub(super) annotations: Vec<(String, Result<String, String>)>,
}

/// Evaluates a policy.
pub(super) fn evaluate(policy: &ValidatingPolicy, inputs: &Inputs<'_>) -> Evaluation {
    let failed = |message: String| Evaluation {
        decisions: vec![of_error(policy.failure_policy(), message)],
        annotations: Vec::new(),
    };
    match policy.parts.conditions.evaluate(inputs, &policy.parts.variables) {
        Ok(true) => {}
        Ok(false) => return Evaluation::default(),
        Err(_) if policy.failure_policy() == FailurePolicy::Ignore => return Evaluation::default(),
        Err(message) => return failed(message),
    }
    let evaluated = evaluate_validations(policy, inputs)
        .and_then(|decisions| Ok((decisions, evaluate_annotations(policy, inputs)?)));
    match evaluated {
        Ok((decisions, annotations)) => Evaluation {
            decisions,
            annotations,
        },
        Err(error) => failed(error.to_string()),
    }
}

fn of_error(policy: FailurePolicy, message: String) -> Decision {
    match policy {
        FailurePolicy::Ignore => Decision::Admit,
        FailurePolicy::Fail => Decision::Deny {
            message,
            reason: String::new(),
        },
    }
}

fn evaluate_validations(
    policy: &ValidatingPolicy,
    inputs: &Inputs<'_>,
) -> Result<Vec<Decision>, OutOfBudget> {
    let mut evaluator = Evaluator::new(inputs, &policy.parts.variables, BUDGET);
    let mut results = Vec::with_capacity(policy.validations.len());
    for validation in &policy.validations {
        let result = evaluator.evaluate(&validation.expression)?;
        results.push(result.map(|value| matches!(value, Value::Bool(true))));
    }
    // Messages are computed even if no validation fails, as upstream: one that exceeds the budget fails the policy.
    let messages = evaluate_messages(policy, inputs, evaluator.budget());
    let decide = |(index, result): (usize, Result<bool, String>)| match (result, &messages) {
        (Err(message), _) => of_error(policy.failure_policy(), message),
        (Ok(_), Err(error)) => of_error(
            policy.failure_policy(),
            format!("failed messageExpression: {error}"),
        ),
        (Ok(true), _) => Decision::Admit,
        (Ok(false), Ok(messages)) => {
            let validation = &policy.validations[index];
            Decision::Deny {
                message: message_of(validation, messages[index].as_deref()),
                reason: validation.reason.clone(),
            }
        }
    };
    Ok(results.into_iter().enumerate().map(decide).collect())
}

/// The messages that expressions compute, by validation. One that fails has none.
fn evaluate_messages(
    policy: &ValidatingPolicy,
    inputs: &Inputs<'_>,
    budget: u64,
) -> Result<Vec<Option<String>>, OutOfBudget> {
    let mut evaluator = Evaluator::new(inputs, &policy.parts.variables, budget);
    let mut messages = Vec::with_capacity(policy.validations.len());
    for validation in &policy.validations {
        let Some(expression) = &validation.message_expression else {
            messages.push(None);
            continue;
        };
        let value = evaluator.evaluate(expression)?;
        let text = value.ok().and_then(|value| value.as_str().map(str::to_owned));
        messages.push(text);
    }
    Ok(messages)
}

/// The computed message, else the fixed one, else the expression. A computed one must be short and have one line.
fn message_of(validation: &CompiledValidation, computed: Option<&str>) -> String {
    let is_usable = |text: &&str| !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n');
    let computed = computed.map(str::trim).filter(is_usable);
    match (computed, validation.message.trim()) {
        (Some(text), _) => text.to_owned(),
        (None, "") => format!("failed expression: {}", validation.expression.source().trim()),
        (None, text) => text.to_owned(),
    }
}

/// An audit annotation: its key, and its value or why there is none.
type Annotation = (String, Result<String, String>);

/// The annotations that have a value, and the errors if the failure policy does not ignore them.
fn evaluate_annotations(
    policy: &ValidatingPolicy,
    inputs: &Inputs<'_>,
) -> Result<Vec<Annotation>, OutOfBudget> {
    let mut evaluator = Evaluator::new(inputs, &policy.parts.variables, BUDGET);
    let mut annotations = Vec::new();
    for annotation in &policy.annotations {
        let value = match evaluator.evaluate(&annotation.value)? {
            Ok(value) => value
                .as_str()
                .map(str::trim)
                .filter(|text| !text.is_empty())
                .map(|text| Ok(text.to_owned())),
            Err(message) => (policy.failure_policy() == FailurePolicy::Fail).then_some(Err(message)),
        };
        annotations.extend(value.map(|value| (annotation.key.clone(), value)));
    }
    Ok(annotations)
}
