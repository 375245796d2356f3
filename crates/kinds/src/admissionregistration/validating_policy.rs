//! ValidatingAdmissionPolicy: CEL rules that may reject an object before it is written.

use std::collections::HashSet;

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy, Subresource, name};

use super::expressions::{Compiler, OptionalVariables, ResultType};
use super::{CATEGORIES, GROUP, RULES, policy};
use crate::shared::condition;

const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
const MAX_ANNOTATIONS: usize = 20;
const VALUE_BYTES: usize = 5 * 1024;

#[derive(Debug)]
pub struct ValidatingAdmissionPolicy;

impl Strategy for ValidatingAdmissionPolicy {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "ValidatingAdmissionPolicy");
    const NAMES: Names =
        Names::new("validatingadmissionpolicies", "validatingadmissionpolicy").categories(CATEGORIES);
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::number("Validations", |policy, _| {
            let rules = policy.at(fields::SPEC).at(fields::VALIDATIONS).len();
            Cell::from(i64::try_from(rules).expect("rules fit into memory"))
        })
        .description("The number of validations."),
        policy::PARAM_KIND,
        columns::AGE,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = RULES;

    fn default_fields(policy: &mut Tree) {
        policy::set_defaults(policy);
    }

    fn validate(policy: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_policy(policy, None);
    }

    fn validate_for_update(policy: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_policy(policy, Some(old));
    }

    fn validate_status(policy: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {
        let status = policy.at(fields::STATUS);
        for warning in status
            .at(fields::TYPE_CHECKING)
            .at(fields::EXPRESSION_WARNINGS)
            .items()
        {
            warning.at(fields::WARNING).require();
            warning.at(fields::FIELD_REF).require();
        }
        condition::validate(&status.at(fields::CONDITIONS));
    }
}

fn validate_policy(policy: &FieldRef<'_>, old: Option<&FieldRef<'_>>) {
    let spec = policy.at(fields::SPEC);
    policy::validate_match(&spec);
    policy::validate_conditions(&spec, old);
    let mut compiler = match spec.at(fields::VARIABLES).is_empty() {
        true => Compiler::default(),
        false => Compiler::with_composition(),
    };
    policy::validate_variables(&spec, &mut compiler);
    let (rules, annotations) = (spec.at(fields::VALIDATIONS), spec.at(fields::AUDIT_ANNOTATIONS));
    if rules.is_empty() && annotations.is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        rules.required(why);
        annotations.required(why);
    }
    let optional = policy::optional_variables(&spec);
    for rule in rules.items() {
        validate_rule(&rule, &compiler, optional);
    }
    validate_annotations(policy, &compiler, optional);
}

fn validate_rule(rule: &FieldRef<'_>, compiler: &Compiler, optional: OptionalVariables) {
    let expression = rule.at(fields::EXPRESSION);
    match expression.str().trim().is_empty() {
        true => expression.required("expression is not specified"),
        false => compiler.validate(&expression, expression.str(), optional, ResultType::Bool),
    }
    let message = rule.at(fields::MESSAGE_EXPRESSION);
    if is_blank(&message) {
        message.invalid("must be non-empty if specified");
    } else if !message.is_empty() {
        let optional = OptionalVariables {
            authorizer: false,
            ..optional
        };
        compiler.validate(&message, message.str(), optional, ResultType::String);
    }
    let message = rule.at(fields::MESSAGE);
    if is_blank(&message) {
        message.invalid("must be non-empty if specified");
    } else if message.str().trim().contains(['\n', '\r']) {
        message.invalid("must not contain line breaks");
    }
    rule.at(fields::REASON).one_of(REASONS);
}

fn is_blank(text: &FieldRef<'_>) -> bool {
    !text.is_empty() && text.str().trim().is_empty()
}

fn validate_annotations(policy: &FieldRef<'_>, compiler: &Compiler, optional: OptionalVariables) {
    let annotations = policy.at(fields::SPEC).at(fields::AUDIT_ANNOTATIONS);
    let name = policy.at(fields::METADATA).at(fields::NAME).str();
    if annotations.len() > MAX_ANNOTATIONS {
        annotations.invalid(&format!(
            "must not have more than {MAX_ANNOTATIONS} auditAnnotations"
        ));
    }
    let mut seen: HashSet<&str> = HashSet::new();
    for annotation in annotations.items() {
        let key = annotation.at(fields::KEY);
        let full = format!("{name}/{}", key.str());
        match name.is_empty() {
            true => key.invalid("requires metadata.name be non-empty"),
            false => name::report(&full, name::check_qualified_name(&full), key.errors()),
        }
        let value = annotation.at(fields::VALUE_EXPRESSION);
        let source = value.str().trim();
        if source.is_empty() {
            value.required("valueExpression is not specified");
        } else if source.len() > VALUE_BYTES {
            value.required(&format!("must not exceed {VALUE_BYTES} bytes in length"));
        } else if let Err(error) = compiler.compile(source, optional, ResultType::StringOrNull) {
            error.report(&value, value.str());
        }
        if !seen.insert(key.str()) {
            key.duplicate();
        }
    }
}
