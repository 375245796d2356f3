//! ValidatingAdmissionPolicy: CEL rules that may reject an object before it is written.

use std::collections::HashSet;

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy, Subresource, name};

use super::{CATEGORIES, GROUP, RULES, conditions, policy};
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
        let spec = policy.at(fields::SPEC);
        policy::validate_match(&spec);
        conditions::validate(&spec.at(fields::MATCH_CONDITIONS));
        policy::validate_variables(&spec.at(fields::VARIABLES));
        let (rules, annotations) = (spec.at(fields::VALIDATIONS), spec.at(fields::AUDIT_ANNOTATIONS));
        if rules.is_empty() && annotations.is_empty() {
            let why = "validations or auditAnnotations must contain at least one item";
            rules.required(why);
            annotations.required(why);
        }
        for rule in rules.items() {
            validate_rule(&rule);
        }
        validate_annotations(&annotations, policy.at(fields::METADATA).at(fields::NAME).str());
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

fn validate_rule(rule: &FieldRef<'_>) {
    if rule.at(fields::EXPRESSION).str().trim().is_empty() {
        rule.at(fields::EXPRESSION)
            .required("expression is not specified");
    }
    for field in [fields::MESSAGE_EXPRESSION, fields::MESSAGE] {
        let value = rule.at(field);
        if !value.is_empty() && value.str().trim().is_empty() {
            value.invalid("must be non-empty if specified");
        } else if field == fields::MESSAGE && value.str().trim().contains(['\n', '\r']) {
            value.invalid("must not contain line breaks");
        }
    }
    rule.at(fields::REASON).one_of(REASONS);
}

fn validate_annotations(annotations: &FieldRef<'_>, policy: &str) {
    if annotations.len() > MAX_ANNOTATIONS {
        annotations.invalid(&format!(
            "must not have more than {MAX_ANNOTATIONS} auditAnnotations"
        ));
    }
    let mut seen: HashSet<&str> = HashSet::new();
    for annotation in annotations.items() {
        let key = annotation.at(fields::KEY);
        let full = format!("{policy}/{}", key.str());
        name::report(&full, name::check_qualified_name(&full), key.errors());
        let value = annotation.at(fields::VALUE_EXPRESSION);
        let bytes = value.str().trim().len();
        if bytes == 0 {
            value.required("valueExpression is not specified");
        } else if bytes > VALUE_BYTES {
            value.required(&format!("must not exceed {VALUE_BYTES} bytes in length"));
        }
        if !seen.insert(key.str()) {
            key.duplicate();
        }
    }
}
