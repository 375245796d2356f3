//! Evaluation of compiled rules on an object (upstream: `validation.go`).

use std::ops::ControlFlow;
use std::sync::Arc;

use setpoint_api::field::{ErrorType, Errors, FieldError};
use setpoint_cel::{EvalError, Program, Value};
use setpoint_schema::Tree;
use setpoint_schema::custom::{Rule, Schema, Type};

use super::RuleValidator;
use super::compilation::{CompiledRule, OLD_SELF, SELF};
use super::ratcheting::CorrelatedAncestor;
use crate::custom::rules::text;

/// The most that one evaluation of an expression may cost.
const PER_CALL_LIMIT: u64 = 1_000_000;

/// The most that all evaluations of a request may cost.
pub const RUNTIME_COST_BUDGET: u64 = 10_000_000;

/// The most bytes of an evaluated message.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// A value whose rules are evaluated, and the old value that it is correlated with on update.
#[derive(Debug, Clone, Copy)]
pub struct RuleTarget<'a> {
    pub value: &'a Tree,
    pub old: Option<&'a Tree>,
    /// Whether rules that an unchanged value violates are warnings instead of errors.
    pub is_ratcheted: bool,
}

/// One node of the walk through an object.
#[derive(Clone, Copy)]
struct Node<'a> {
    schema: &'a Schema,
    value: &'a Tree,
    old: Option<&'a Tree>,
    ratcheting: Option<CorrelatedAncestor<'a>>,
}

/// The rest of the budget.
struct Evaluation {
    budget: u64,
}

impl RuleValidator {
    /// Evaluates the rules on a value and reports those that it violates. Returns what is left of the budget; `None` if it
    /// was exceeded, which is an error as well.
    pub fn validate(
        &self,
        schema: &Schema,
        target: RuleTarget<'_>,
        budget: u64,
        errors: &Errors,
    ) -> Option<u64> {
        let RuleTarget { value, old, .. } = target;
        let node = Node {
            schema,
            value,
            old,
            ratcheting: old
                .filter(|_| target.is_ratcheted)
                .map(|old| CorrelatedAncestor::root(schema, value, old)),
        };
        let mut evaluation = Evaluation { budget };
        let outcome = evaluation.validate(self, node, errors);
        outcome.is_continue().then_some(evaluation.budget)
    }
}

impl Evaluation {
    /// Evaluates the rules of a node and of those below it. Breaks once the budget is exceeded.
    fn validate(&mut self, validator: &RuleValidator, node: Node<'_>, errors: &Errors) -> ControlFlow<()> {
        if node.value.is_null() {
            return ControlFlow::Continue(());
        }
        self.validate_node(validator, node, errors)?;
        match node.value {
            Tree::List(items) => self.validate_items(validator, node, items, errors),
            Tree::Map(_) => {
                self.validate_map_values(validator, node, errors)?;
                self.validate_properties(validator, node, errors)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn validate_items(
        &mut self,
        validator: &RuleValidator,
        node: Node<'_>,
        items: &[Tree],
        errors: &Errors,
    ) -> ControlFlow<()> {
        let (Some(validator), Some(schema)) = (&validator.items, &node.schema.items) else {
            return ControlFlow::Continue(());
        };
        let old_items = node.schema.correlated_items(node.old);
        for (index, value) in items.iter().enumerate() {
            let old = old_items.find(value);
            let item = Node {
                schema,
                value,
                old,
                ratcheting: node
                    .ratcheting
                    .map(|ratcheting| ratcheting.item(schema, value, old)),
            };
            self.validate(validator, item, &errors.index(index))?;
        }
        ControlFlow::Continue(())
    }

    fn validate_map_values(
        &mut self,
        validator: &RuleValidator,
        node: Node<'_>,
        errors: &Errors,
    ) -> ControlFlow<()> {
        let (Some(validator), Some(schema), Some(map)) = (
            &validator.additional_properties,
            &node.schema.additional_properties,
            node.value.as_map(),
        ) else {
            return ControlFlow::Continue(());
        };
        for (key, value) in map.iter() {
            self.validate(validator, node.child(schema, key, value), &errors.key(key))?;
        }
        ControlFlow::Continue(())
    }

    fn validate_properties(
        &mut self,
        validator: &RuleValidator,
        node: Node<'_>,
        errors: &Errors,
    ) -> ControlFlow<()> {
        for (name, validator) in &validator.properties {
            let value = node.value.get(name);
            if let (Some(value), Some(schema)) = (value, node.schema.property(name)) {
                self.validate(validator, node.child(schema, name, value), &errors.at(name))?;
            }
        }
        ControlFlow::Continue(())
    }

    fn validate_node(
        &mut self,
        validator: &RuleValidator,
        node: Node<'_>,
        errors: &Errors,
    ) -> ControlFlow<()> {
        let report = Report { node, errors };
        if !validator.rules.is_empty() && self.budget == 0 {
            report.invalid(OUT_OF_BUDGET);
            return ControlFlow::Break(());
        }
        let is_transition = validator.rules.iter().any(CompiledRule::uses_old_self);
        for (compiled, rule) in validator.rules.iter().zip(node.schema.expressions()) {
            let program = match &compiled.rule {
                None => continue,
                Some(Err(error)) => {
                    report.invalid(&format!("rule compile error: {error}"));
                    continue;
                }
                Some(Ok(program)) => program,
            };
            if compiled.uses_old_self() && node.old.is_none() && !rule.optional_old_self {
                continue;
            }
            if !self.holds(program, rule, &report)? {
                let detail = self.message(compiled, rule, is_transition, &report)?;
                report.violation(compiled, rule, &detail);
            }
        }
        ControlFlow::Continue(())
    }

    /// Whether a rule holds. An error of the evaluation is reported here, and the rule counts as one that holds.
    fn holds(&mut self, program: &Program, rule: &Rule, report: &Report<'_>) -> ControlFlow<(), bool> {
        let node = report.node;
        let old = node.old.map(|old| program.bind(SELF, old));
        let old = match rule.optional_old_self {
            true => Value::Optional(old.map(Arc::new)),
            false => old.unwrap_or(Value::Null),
        };
        let evaluation = program.evaluate(vec![program.bind(SELF, node.value), old], PER_CALL_LIMIT);
        let Some(budget) = self.budget.checked_sub(evaluation.cost) else {
            report.invalid(OUT_OF_BUDGET);
            return ControlFlow::Break(());
        };
        self.budget = budget;
        let name = display(rule);
        match evaluation.value {
            Ok(value) => ControlFlow::Continue(matches!(value, Value::Bool(true))),
            Err(error @ EvalError::CostExceeded) => {
                report.invalid(&format!(
                    "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {name}"
                ));
                ControlFlow::Break(())
            }
            Err(EvalError::Failed(error)) if error.starts_with("no such overload") => {
                report.invalid(&format!(
                    "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {name}"
                ));
                ControlFlow::Continue(true)
            }
            Err(EvalError::Failed(error)) => {
                report.invalid(&format!("{error} evaluating rule: {name}"));
                ControlFlow::Continue(true)
            }
        }
    }

    /// The message of a rule that does not hold: of its message expression, or the constant one.
    fn message(
        &mut self,
        compiled: &CompiledRule,
        rule: &Rule,
        is_transition: bool,
        report: &Report<'_>,
    ) -> ControlFlow<(), String> {
        let Some(Ok(program)) = &compiled.message else {
            return ControlFlow::Continue(default_message(rule));
        };
        // As upstream, oldSelf is no optional value here, and exists only if a rule of the node uses it.
        let old = report.node.old.filter(|_| is_transition);
        let old = old.map(|old| program.bind(SELF, old));
        if old.is_none() && program.uses(OLD_SELF) {
            return ControlFlow::Continue(default_message(rule));
        }
        let variables = vec![program.bind(SELF, report.node.value), old.unwrap_or(Value::Null)];
        let evaluation = program.evaluate(variables, PER_CALL_LIMIT);
        let stop = |detail: &str| {
            report.violation_of_message(compiled, detail);
            ControlFlow::Break(())
        };
        let Some(budget) = self.budget.checked_sub(evaluation.cost) else {
            return stop(
                "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run",
            );
        };
        if let Err(EvalError::CostExceeded) = evaluation.value {
            let source = rule.message_expression.as_deref().unwrap_or_default();
            return stop(&format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {source:?}"
            ));
        }
        self.budget = budget;
        let value = evaluation.value.ok();
        let message = value.as_ref().and_then(Value::as_str).map(str::trim);
        let message = message.filter(|message| {
            !message.is_empty() && message.len() <= MAX_MESSAGE_BYTES && !message.contains('\n')
        });
        ControlFlow::Continue(message.map_or_else(|| default_message(rule), str::to_owned))
    }
}

impl<'a> Node<'a> {
    fn child(&self, schema: &'a Schema, key: &str, value: &'a Tree) -> Node<'a> {
        let old = self.old.and_then(|old| old.get(key));
        Node {
            schema,
            value,
            old: old.filter(|old| !old.is_null()),
            ratcheting: self
                .ratcheting
                .and_then(|ratcheting| ratcheting.key(key, schema, value)),
        }
    }
}

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// Reports the violations of one node.
struct Report<'a> {
    node: Node<'a>,
    errors: &'a Errors,
}

impl Report<'_> {
    /// An error that prints the type of the value instead of the value.
    fn invalid(&self, detail: &str) {
        let (error_type, message) = self.typed(detail);
        push(self.errors, error_type, message);
    }

    fn typed(&self, detail: &str) -> (ErrorType, String) {
        let name = match self.node.schema.value_type {
            None | Some(Type::IntOrString) => "",
            Some(own) => own.name(),
        };
        (ErrorType::Invalid, format!("Invalid value: {name:?}: {detail}"))
    }

    /// The violation of a rule, which is a warning if the value is unchanged.
    fn violation(&self, compiled: &CompiledRule, rule: &Rule, detail: &str) {
        let is_collection = matches!(self.node.schema.value_type, Some(Type::Object | Type::Array));
        let shown = match is_collection {
            true => String::new(),
            false => format!(": {}", text(self.node.value)),
        };
        let (error_type, message) = match rule.reason.as_deref() {
            Some("FieldValueForbidden") => (ErrorType::Forbidden, format!("Forbidden: {detail}")),
            Some("FieldValueRequired") => (ErrorType::Required, format!("Required value: {detail}")),
            Some("FieldValueDuplicate") => (ErrorType::Duplicate, format!("Duplicate value{shown}")),
            _ => (ErrorType::Invalid, format!("Invalid value{shown}: {detail}")),
        };
        self.add(compiled, error_type, message);
    }

    fn violation_of_message(&self, compiled: &CompiledRule, detail: &str) {
        let (error_type, message) = self.typed(detail);
        self.add(compiled, error_type, message);
    }

    fn add(&self, compiled: &CompiledRule, error_type: ErrorType, message: String) {
        let at = match &compiled.field_path {
            Some(path) if !path.is_empty() => self.errors.at(path),
            _ => self.errors.clone(),
        };
        let is_ratcheted = self.node.ratcheting.is_some_and(|one| one.is_unchanged());
        if is_ratcheted && !compiled.uses_old_self() {
            self.errors.warn(format!("{}: {message}", path_of(&at)));
        } else {
            push(&at, error_type, message);
        }
    }
}

fn push(errors: &Errors, error_type: ErrorType, message: String) {
    errors.push(FieldError {
        path: path_of(errors),
        error_type,
        message,
    });
}

/// The path as Kubernetes prints it: the root has none.
fn path_of(errors: &Errors) -> String {
    Some(errors.path())
        .filter(|path| !path.is_empty())
        .unwrap_or_else(|| "<nil>".to_owned())
}

fn default_message(rule: &Rule) -> String {
    match &rule.message {
        Some(message) => message.trim().to_owned(),
        None => format!("failed rule: {}", rule.expression.trim()),
    }
}

/// A rule in messages: its own message or else its expression.
fn display(rule: &Rule) -> &str {
    rule.message.as_deref().unwrap_or(&rule.expression).trim()
}
