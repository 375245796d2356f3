//! Validation rules of a schema (`x-kubernetes-validations`), and the interface to their evaluator.
//!
//! This crate does not know CEL. [`Schema::evaluate_rules`] walks an object, passes each rule with its value to a
//! [`RuleEvaluator`], and turns the outcome into a violation with the text of the reference server.

use std::fmt::Debug;

use compact_str::CompactString;

use super::path::Path;
use super::validate::{is_full, type_name};
use super::{Schema, SchemaViolation, ViolationKind};
use crate::tree::Tree;

/// One rule, as in the CustomResourceDefinition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    pub expression: String,
    /// The error message when the rule evaluates to false.
    pub message: Option<String>,
    /// An expression that evaluates to the error message.
    pub message_expression: Option<String>,
    /// The error type, such as `FieldValueForbidden`.
    pub reason: Option<CompactString>,
    /// The path of the reported field, relative to the value of the rule: `.a.b`.
    pub field_path: Option<String>,
    /// Whether a transition rule is also evaluated on create, where there is no old value.
    pub optional_old_self: bool,
}

/// The outcome of evaluating a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleOutcome {
    Valid,
    /// The rule is false; with the value of its message expression, if it has one.
    Invalid(Option<String>),
    /// The evaluation failed, with the reason.
    Error(String),
}

/// Evaluates rules. A transition rule without an old value is valid, unless `optional_old_self` is set.
pub trait RuleEvaluator: Debug + Send + Sync {
    fn evaluate(&self, rule: &Rule, value: &Tree, old: Option<&Tree>) -> RuleOutcome;
}

impl Schema {
    /// Whether this node or any below has a rule.
    pub fn has_expressions(&self) -> bool {
        let below = self.properties.iter().map(|(_, schema)| schema);
        let below = below
            .chain(self.additional_properties.as_deref())
            .chain(self.items.as_deref());
        self.value_validation
            .as_ref()
            .is_some_and(|rules| !rules.expressions.is_empty())
            || below.into_iter().any(Schema::has_expressions)
    }

    /// Reports the rules that an object violates. `old` is the stored object on update.
    pub fn evaluate_rules(
        &self,
        evaluator: &dyn RuleEvaluator,
        object: &Tree,
        old: Option<&Tree>,
    ) -> Vec<SchemaViolation> {
        let mut violations = Vec::new();
        self.evaluate_rules_at(evaluator, (object, old), &Path::root(""), &mut violations);
        violations
    }

    fn evaluate_rules_at(
        &self,
        evaluator: &dyn RuleEvaluator,
        (value, old): (&Tree, Option<&Tree>),
        path: &Path<'_>,
        violations: &mut Vec<SchemaViolation>,
    ) {
        if is_full(violations) {
            return;
        }
        let rules = self.value_validation.iter().flat_map(|rules| &rules.expressions);
        violations.extend(
            rules.filter_map(|rule| violation(rule, evaluator.evaluate(rule, value, old), value, path)),
        );
        match value {
            Tree::Map(map) => {
                for (key, value) in map.iter() {
                    let Some(schema) = self.child(key) else { continue };
                    let path = match self.property(key) {
                        Some(_) => path.field(key),
                        None => path.key(key),
                    };
                    let old = old.and_then(|old| old.get(key));
                    schema.evaluate_rules_at(evaluator, (value, old), &path, violations);
                }
            }
            Tree::List(items) => {
                let Some(schema) = &self.items else { return };
                let old_items = self.correlated_items(old);
                for (at, item) in items.iter().enumerate() {
                    let old = old_items.find(item);
                    schema.evaluate_rules_at(evaluator, (item, old), &path.index(at), violations);
                }
            }
            _ => {}
        }
    }
}

fn violation(rule: &Rule, outcome: RuleOutcome, value: &Tree, path: &Path<'_>) -> Option<SchemaViolation> {
    let message = match outcome {
        RuleOutcome::Valid => return None,
        RuleOutcome::Error(why) => {
            let detail = format!("{why} evaluating rule: {}", rule.expression);
            let shown = Tree::from(type_name(value));
            return Some(SchemaViolation {
                path: Some(path.to_string()),
                kind: ViolationKind::Invalid { value: shown, detail },
            });
        }
        RuleOutcome::Invalid(message) => message,
    };
    let message = message.or_else(|| rule.message.clone());
    let detail = message.unwrap_or_else(|| format!("failed rule: {}", rule.expression));
    let is_collection = matches!(value, Tree::Map(_) | Tree::List(_));
    let kind = match rule.reason.as_deref() {
        Some("FieldValueForbidden") => ViolationKind::Forbidden { detail },
        Some("FieldValueRequired") => ViolationKind::RequiredWithDetail { detail },
        Some("FieldValueDuplicate") => ViolationKind::Duplicate { value: value.clone() },
        _ if is_collection => ViolationKind::InvalidCollection { detail },
        _ => ViolationKind::Invalid {
            value: value.clone(),
            detail,
        },
    };
    let field_path = rule.field_path.as_deref().unwrap_or_default();
    Some(SchemaViolation {
        path: Some(format!("{path}{field_path}")),
        kind,
    })
}
