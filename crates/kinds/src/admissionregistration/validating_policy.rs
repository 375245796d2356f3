//! ValidatingAdmissionPolicy: rules in CEL that may refuse an object before it is written.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::{CATEGORIES, GROUP, RULES, conditions, policy};
use crate::at::At;
use crate::columns::{self, Column};
use crate::shared::{condition, name};
use crate::strategy::{Names, Rules, Scope, Strategy, Subresource};

const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
const MOST_ANNOTATIONS: usize = 20;
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
            let rules = policy.at("spec").at("validations").len();
            Cell::from(i64::try_from(rules).expect("rules fit into memory"))
        })
        .about("How many rules it has."),
        policy::PARAM_KIND,
        columns::AGE,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = RULES;

    fn default_fields(policy: &mut Tree) {
        policy::fill(policy);
    }

    fn validate(policy: &At<'_>) {
        let spec = policy.at("spec");
        policy::validate_match(&spec);
        conditions::validate(&spec.at("matchConditions"));
        policy::validate_variables(&spec.at("variables"));
        let (rules, annotations) = (spec.at("validations"), spec.at("auditAnnotations"));
        if rules.is_empty() && annotations.is_empty() {
            let why = "validations or auditAnnotations must contain at least one item";
            rules.required(why);
            annotations.required(why);
        }
        for rule in rules.items() {
            validate_rule(&rule);
        }
        validate_annotations(&annotations, policy.at("metadata").at("name").str());
    }

    fn validate_status(policy: &At<'_>, _old: &At<'_>) {
        let status = policy.at("status");
        for warning in status.at("typeChecking").at("expressionWarnings").items() {
            warning.at("warning").require();
            warning.at("fieldRef").require();
        }
        condition::validate(&status.at("conditions"));
    }
}

fn validate_rule(rule: &At<'_>) {
    if rule.at("expression").str().trim().is_empty() {
        rule.at("expression").required("expression is not specified");
    }
    for field in ["messageExpression", "message"] {
        let place = rule.at(field);
        if !place.is_empty() && place.str().trim().is_empty() {
            place.invalid("must be non-empty if specified");
        } else if field == "message" && place.str().trim().contains(['\n', '\r']) {
            place.invalid("must not contain line breaks");
        }
    }
    rule.at("reason").one_of(REASONS);
}

fn validate_annotations(annotations: &At<'_>, policy: &str) {
    if annotations.len() > MOST_ANNOTATIONS {
        annotations.invalid(&format!(
            "must not have more than {MOST_ANNOTATIONS} auditAnnotations"
        ));
    }
    let mut seen: Vec<&str> = Vec::new();
    for annotation in annotations.items() {
        let key = annotation.at("key");
        let full = format!("{policy}/{}", key.str());
        name::report(&full, name::qualified(&full), key.errors());
        let value = annotation.at("valueExpression");
        let bytes = value.str().trim().len();
        if bytes == 0 {
            value.required("valueExpression is not specified");
        } else if bytes > VALUE_BYTES {
            value.required(&format!("must not exceed {VALUE_BYTES} bytes in length"));
        }
        if seen.contains(&key.str()) {
            key.duplicate();
        }
        seen.push(key.str());
    }
}
