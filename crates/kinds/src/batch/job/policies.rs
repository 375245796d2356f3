//! What a Job makes of pods that fail, and when it counts as done.

use std::collections::BTreeSet;

use super::indexes;
use crate::at::At;
use crate::shared::name;

const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: &[&str] = &["In", "NotIn"];
const STATUSES: &[&str] = &["False", "True", "Unknown"];
const REPLACEMENTS: &[&str] = &["Failed", "TerminatingOrFailed"];
const MOST_RULES: usize = 20;
const MOST_EXIT_CODES: usize = 255;
const MOST_CONDITIONS: usize = 20;
const MOST_INDEXES_BYTES: usize = 64 * 1024;

/// Reports what is wrong with the policy for pods that fail.
pub(super) fn validate_failure(spec: &At<'_>) {
    let rules = spec.at("podFailurePolicy").at("rules");
    if rules.len() > MOST_RULES {
        rules.too_many(MOST_RULES);
    }
    let pod = spec.at("template").at("spec");
    let containers: BTreeSet<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|list| pod.at(list).items())
        .map(|container| container.at("name").str())
        .collect();
    for rule in rules.items() {
        validate_action(&rule.at("action"), spec.at("backoffLimitPerIndex").is_set());
        let (codes, conditions) = (rule.at("onExitCodes"), rule.at("onPodConditions"));
        if codes.is_set() {
            validate_exit_codes(&codes, &containers);
        }
        validate_conditions(&conditions);
        let complaint = match (codes.is_set(), !conditions.is_empty()) {
            (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => continue,
        };
        rule.errors().invalid_whole(complaint);
    }
}

fn validate_action(action: &At<'_>, per_index: bool) {
    match action.str() {
        "" => action.required(&valid_values(ACTIONS)),
        "FailIndex" if !per_index => action.invalid("requires the backoffLimitPerIndex to be set"),
        text if !ACTIONS.contains(&text) => action.not_supported(ACTIONS),
        _ => {}
    }
}

fn validate_conditions(conditions: &At<'_>) {
    if conditions.len() > MOST_CONDITIONS {
        conditions.too_many(MOST_CONDITIONS);
    }
    for pattern in conditions.items() {
        name::check(&pattern.at("type"), name::qualified);
        let status = pattern.at("status");
        match status.str() {
            "" => status.required(&valid_values(STATUSES)),
            text if !STATUSES.contains(&text) => status.not_supported(STATUSES),
            _ => {}
        }
    }
}

fn validate_exit_codes(codes: &At<'_>, containers: &BTreeSet<&str>) {
    let operator = codes.at("operator");
    match operator.str() {
        "" => operator.required(&valid_values(OPERATORS)),
        text if !OPERATORS.contains(&text) => operator.not_supported(OPERATORS),
        _ => {}
    }
    let container = codes.at("containerName");
    if container.is_set() && !containers.contains(container.str()) {
        container.invalid("must be one of the container or initContainer names in the pod template");
    }
    let values = codes.at("values");
    if values.is_empty() {
        values.invalid("at least one value is required");
    } else if values.len() > MOST_EXIT_CODES {
        values.too_many(MOST_EXIT_CODES);
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

/// Reports what is wrong with the policy that tells when a Job with indexes is done.
pub(super) fn validate_success(spec: &At<'_>) {
    let rules = spec.at("successPolicy").at("rules");
    if rules.is_empty() {
        rules.required("at least one rules must be specified when the successPolicy is specified");
    }
    if rules.len() > MOST_RULES {
        rules.too_many(MOST_RULES);
    }
    for rule in rules.items() {
        validate_success_rule(&rule, spec.at("completions").int());
    }
}

fn validate_success_rule(rule: &At<'_>, completions: i64) {
    let (count, own) = (rule.at("succeededCount"), rule.at("succeededIndexes"));
    if !count.is_set() && !own.is_set() {
        rule.required("at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut total = 0;
    if let Some(text) = own.find_str() {
        if text.len() > MOST_INDEXES_BYTES {
            own.too_long(MOST_INDEXES_BYTES);
        }
        match indexes::count(text, completions) {
            Ok(count) => total = count,
            Err(why) => own.invalid(&format!("error parsing succeededIndexes: {why}")),
        }
    }
    count.not_negative();
    if count.int() > completions {
        count.invalid(&format!(
            "must be less than or equal to {completions} (the number of specified completions)"
        ));
    }
    if own.is_set() && count.int() > total {
        count.invalid(&format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        ));
    }
}

/// Reports a moment to replace pods that is none, or that does not go with a policy for pods that fail.
pub(super) fn validate_replacement(spec: &At<'_>) {
    let replacement = spec.at("podReplacementPolicy");
    let supported = match spec.at("podFailurePolicy").is_set() {
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
