//! `x-kubernetes-validations`: the fields of each rule, whether its expressions compile, and what they may cost.

mod cost;

use setpoint_api::field::{DisplayJson, ErrorType, Errors, FieldError};
use setpoint_schema::custom::{Schema, Type};
use setpoint_schema::fields;
use setpoint_strategy::custom::validation_rules::{
    CompiledRule, Declaration, compile_rules, resolve_field_path,
};

use super::Node;
use super::keywords::{self, Context};
use crate::apiextensions::custom_resource_definition::internal;
use cost::{MAX_EXPRESSION_COST, TotalCost, cost_message};

const REASONS: &[&str] = &[
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// The node of a structural schema that rules are checked against.
#[derive(Debug, Clone, Copy)]
pub(super) struct RuleNode<'a> {
    schema: &'a Schema,
    is_resource_root: bool,
    /// How often the value may be in an object by the limits of lists and maps above; `None` without such limits.
    max_cardinality: Option<u64>,
}

/// The errors and the cost of the rules of a schema.
#[derive(Debug)]
pub(super) struct RuleChecks {
    /// Reported after the other errors of the schema.
    errors: Vec<FieldError>,
    total: TotalCost,
    /// The schema is unchanged by an update: the cost of one expression is not limited.
    is_unchanged: bool,
}

impl<'a> RuleNode<'a> {
    pub(super) fn root(schema: &'a Schema) -> Self {
        Self {
            schema,
            is_resource_root: true,
            max_cardinality: Some(1),
        }
    }

    pub(super) fn property(self, name: &str) -> Option<Self> {
        Some(self.child(self.schema.property(name)?))
    }

    pub(super) fn additional_properties(self) -> Option<Self> {
        Some(self.child(self.schema.additional_properties.as_deref()?))
    }

    pub(super) fn items(self) -> Option<Self> {
        Some(self.child(self.schema.items.as_deref()?))
    }

    fn child(self, schema: &'a Schema) -> Self {
        let rules = self.schema.value_validation.as_deref();
        let factor = match self.schema.value_type {
            Some(Type::Array) => rules.and_then(|rules| rules.max_items),
            Some(Type::Object) if self.schema.additional_properties.is_some() => {
                rules.and_then(|rules| rules.max_properties)
            }
            _ => Some(1),
        };
        let both = self.max_cardinality.zip(factor);
        Self {
            schema,
            is_resource_root: schema.embedded_resource,
            max_cardinality: both.map(|(own, factor)| own.saturating_mul(factor)),
        }
    }
}

impl RuleChecks {
    pub(super) fn new(is_unchanged: bool) -> Self {
        Self {
            errors: Vec::new(),
            total: TotalCost::default(),
            is_unchanged,
        }
    }

    /// Reports what was found, at last the cost of all rules together.
    pub(super) fn report(self, root: &Errors) {
        self.errors.into_iter().for_each(|error| root.push(error));
        self.total.report(root);
    }

    fn push(&mut self, at: &Errors, error_type: ErrorType, message: String) {
        let path = at.path();
        self.errors.push(FieldError {
            path,
            error_type,
            message,
        });
    }

    fn invalid(&mut self, at: &Errors, value: impl DisplayJson, detail: &str) {
        let message = format!("Invalid value: {}: {detail}", value.display_json());
        self.push(at, ErrorType::Invalid, message);
    }
}

/// Validates the rules of a node. Expressions are checked if there are no errors in the node and below it since so many
/// errors were `reported`.
pub(super) fn validate(node: &Node<'_>, context: &Context<'_>, reported: usize, checks: &mut RuleChecks) {
    let rules = node.children(fields::X_KUBERNETES_VALIDATIONS);
    if rules.is_empty() {
        return;
    }
    for rule in &rules {
        validate_texts(rule);
        validate_field_path(node, rule);
    }
    let Some(rule_node) = context.rules.filter(|_| node.errors.len() == reported) else {
        return;
    };
    let Some(declaration) = Declaration::of(rule_node.schema, rule_node.is_resource_root) else {
        let message = "Internal error: internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
        let at = node.errors.at(fields::X_KUBERNETES_VALIDATIONS);
        checks.push(&at, ErrorType::Internal, message.to_owned());
        return;
    };
    let cardinality = rule_node
        .max_cardinality
        .unwrap_or_else(|| declaration.max_cardinality());
    let compiled = compile_rules(rule_node.schema, &declaration);
    for (rule, compiled) in rules.iter().zip(&compiled) {
        check_cost(rule, compiled, cardinality, checks);
        check_compilation(rule, compiled, checks);
        check_message(rule, compiled, checks);
        check_old_self(rule, compiled, context, checks);
    }
}

fn check_cost(rule: &Node<'_>, compiled: &CompiledRule, cardinality: u64, checks: &mut RuleChecks) {
    let at = rule.errors.at(fields::RULE);
    let cost = compiled.max_cost().saturating_mul(cardinality);
    if cost > MAX_EXPRESSION_COST && !checks.is_unchanged {
        let message = cost_message("estimated rule cost", cost, MAX_EXPRESSION_COST);
        checks.push(&at, ErrorType::Forbidden, format!("Forbidden: {message}"));
    }
    checks.total.add(&at, cost);
}

fn check_compilation(rule: &Node<'_>, compiled: &CompiledRule, checks: &mut RuleChecks) {
    if let Some(error) = compiled.error() {
        checks.invalid(&rule.errors.at(fields::RULE), internal::rule(rule.value), error);
    }
}

fn check_message(rule: &Node<'_>, compiled: &CompiledRule, checks: &mut RuleChecks) {
    let at = rule.errors.at(fields::MESSAGE_EXPRESSION);
    if let Some(error) = compiled.message_error() {
        checks.invalid(&at, internal::rule(rule.value), error);
    } else if let Some(cost) = compiled.message_max_cost() {
        if cost > MAX_EXPRESSION_COST && !checks.is_unchanged {
            let message = cost_message("estimated messageExpression cost", cost, MAX_EXPRESSION_COST);
            checks.push(&at, ErrorType::Forbidden, format!("Forbidden: {message}"));
        }
        checks.total.add(&at, cost);
    }
}

fn check_old_self(rule: &Node<'_>, compiled: &CompiledRule, context: &Context<'_>, checks: &mut RuleChecks) {
    if compiled.uses_old_self() {
        if let Some(path) = &context.uncorrelatable {
            let detail =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {path}");
            checks.invalid(&rule.errors.at(fields::RULE), rule.str(fields::RULE), &detail);
        }
    } else if let Some(optional) = rule.at(fields::OPTIONAL_OLD_SELF) {
        let is_optional = rule.flag(fields::OPTIONAL_OLD_SELF);
        let detail = "may not be set if oldSelf is not used in rule";
        checks.invalid(&optional.errors, is_optional, detail);
    }
}

fn validate_texts(rule: &Node<'_>) {
    let (expression, message) = (rule.str(fields::RULE).trim(), rule.str(fields::MESSAGE));
    let at = rule.errors.at(fields::MESSAGE);
    if expression.is_empty() {
        rule.errors.at(fields::RULE).required("rule is not specified");
    } else if !message.is_empty() && message.trim().is_empty() {
        at.invalid(message, "must be non-empty if specified");
    } else if has_line_breaks(message.trim()) {
        at.invalid(message, "must not contain line breaks");
    } else if has_line_breaks(expression) && message.is_empty() {
        at.required("message must be specified if rule contains line breaks");
    }
    let message = rule.str(fields::MESSAGE_EXPRESSION);
    if !message.is_empty() && message.trim().is_empty() {
        let at = rule.errors.at(fields::MESSAGE_EXPRESSION);
        at.required("messageExpression must be non-empty if specified");
    }
    if let Some(reason) = rule.at(fields::REASON) {
        let value = rule.str(fields::REASON);
        if !REASONS.contains(&value) {
            reason.errors.not_supported(value, REASONS);
        }
    }
}

fn validate_field_path(node: &Node<'_>, rule: &Node<'_>) {
    let path = rule.str(fields::FIELD_PATH);
    if path.is_empty() {
        return;
    }
    let at = rule.errors.at(fields::FIELD_PATH);
    if path.trim().is_empty() {
        at.invalid(path, "must be non-empty if specified");
    }
    if has_line_breaks(path) {
        at.invalid(path, "must not contain line breaks");
    }
    let resolves = || resolve_field_path(path, &Schema::compile(node.value), true).is_ok();
    if keywords::are_supported(node) && !resolves() {
        at.invalid(path, "must be a valid path");
    }
}

fn has_line_breaks(text: &str) -> bool {
    text.contains(['\n', '\r'])
}
