//! Validation of a Job's pod failure policy, success policy and pod replacement policy.

use std::collections::BTreeSet;

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, name};
use setpoint_values::indexes;

const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: &[&str] = &["In", "NotIn"];
const STATUSES: &[&str] = &["False", "True", "Unknown"];
const REPLACEMENTS: &[&str] = &["Failed", "TerminatingOrFailed"];
const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_CONDITIONS: usize = 20;
const MAX_INDEXES_BYTES: usize = 64 * 1024;

/// Validates the pod failure policy.
pub(super) fn validate_failure(spec: &FieldRef<'_>) {
    let rules = spec.at(fields::POD_FAILURE_POLICY).at(fields::RULES);
    if rules.len() > MAX_RULES {
        rules.too_many(MAX_RULES);
    }
    let pod = spec.at(fields::TEMPLATE).at(fields::SPEC);
    let containers: BTreeSet<&str> = [fields::CONTAINERS, fields::INIT_CONTAINERS]
        .iter()
        .flat_map(|list| pod.at(list).items())
        .map(|container| container.at(fields::NAME).str())
        .collect();
    for rule in rules.items() {
        validate_action(
            &rule.at(fields::ACTION),
            spec.at(fields::BACKOFF_LIMIT_PER_INDEX).is_set(),
        );
        let (codes, conditions) = (rule.at(fields::ON_EXIT_CODES), rule.at(fields::ON_POD_CONDITIONS));
        if codes.is_set() {
            validate_exit_codes(&codes, &containers);
        }
        validate_conditions(&conditions);
        let violation = match (codes.is_set(), !conditions.is_empty()) {
            (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => continue,
        };
        rule.errors().invalid_omitting_value(violation);
    }
}

fn validate_action(action: &FieldRef<'_>, per_index: bool) {
    match action.str() {
        "" => action.required(&valid_values(ACTIONS)),
        "FailIndex" if !per_index => action.invalid("requires the backoffLimitPerIndex to be set"),
        text if !ACTIONS.contains(&text) => action.not_supported(ACTIONS),
        _ => {}
    }
}

fn validate_conditions(conditions: &FieldRef<'_>) {
    if conditions.len() > MAX_CONDITIONS {
        conditions.too_many(MAX_CONDITIONS);
    }
    for pattern in conditions.items() {
        name::check(&pattern.at(fields::TYPE), name::check_qualified_name);
        let status = pattern.at(fields::STATUS);
        match status.str() {
            "" => status.required(&valid_values(STATUSES)),
            text if !STATUSES.contains(&text) => status.not_supported(STATUSES),
            _ => {}
        }
    }
}

fn validate_exit_codes(codes: &FieldRef<'_>, containers: &BTreeSet<&str>) {
    let operator = codes.at(fields::OPERATOR);
    match operator.str() {
        "" => operator.required(&valid_values(OPERATORS)),
        text if !OPERATORS.contains(&text) => operator.not_supported(OPERATORS),
        _ => {}
    }
    let container = codes.at(fields::CONTAINER_NAME);
    if container.is_set() && !containers.contains(container.str()) {
        container.invalid("must be one of the container or initContainer names in the pod template");
    }
    let values = codes.at(fields::VALUES);
    if values.is_empty() {
        values.invalid("at least one value is required");
    } else if values.len() > MAX_EXIT_CODES {
        values.too_many(MAX_EXIT_CODES);
    }
    let mut seen = BTreeSet::new();
    for value in values.items() {
        if operator.str() == "In" && value.int() == 0 {
            value.invalid("must not be 0 for the In operator");
        }
        if !seen.insert(value.int()) {
            value.duplicate();
        }
    }
    if !values.items().is_sorted_by_key(|value| value.int()) {
        values.invalid("must be ordered");
    }
}

/// Validates the success policy of an indexed Job.
pub(super) fn validate_success(spec: &FieldRef<'_>) {
    let rules = spec.at(fields::SUCCESS_POLICY).at(fields::RULES);
    if rules.is_empty() {
        rules.required("at least one rules must be specified when the successPolicy is specified");
    }
    if rules.len() > MAX_RULES {
        rules.too_many(MAX_RULES);
    }
    for rule in rules.items() {
        validate_success_rule(&rule, spec.at(fields::COMPLETIONS).int());
    }
}

fn validate_success_rule(rule: &FieldRef<'_>, completions: i64) {
    let (count, indexes) = (
        rule.at(fields::SUCCEEDED_COUNT),
        rule.at(fields::SUCCEEDED_INDEXES),
    );
    if !count.is_set() && !indexes.is_set() {
        rule.required("at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut total = 0;
    if let Some(text) = indexes.find_str() {
        if text.len() > MAX_INDEXES_BYTES {
            indexes.too_long(MAX_INDEXES_BYTES);
        }
        match indexes::count(text, completions) {
            Ok(count) => total = count,
            Err(why) => indexes.invalid(&format!("error parsing succeededIndexes: {why}")),
        }
    }
    count.not_negative();
    if count.int() > completions {
        count.invalid(&format!(
            "must be less than or equal to {completions} (the number of specified completions)"
        ));
    }
    if indexes.is_set() && count.int() > total {
        count.invalid(&format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        ));
    }
}

/// Reports a pod replacement policy that is invalid, or that contradicts the pod failure policy.
pub(super) fn validate_replacement(spec: &FieldRef<'_>) {
    let replacement = spec.at(fields::POD_REPLACEMENT_POLICY);
    let supported = match spec.at(fields::POD_FAILURE_POLICY).is_set() {
        true => &REPLACEMENTS[..1],
        false => REPLACEMENTS,
    };
    if replacement.is_set() && !supported.contains(&replacement.str()) {
        replacement.not_supported(supported);
    }
}

fn valid_values(values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    format!("valid values: [{}]", quoted.join(" "))
}
