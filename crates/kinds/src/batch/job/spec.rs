//! Validation of a Job's spec, in Jobs and in CronJobs' templates.

use setpoint_schema::{Tree, fields};
use setpoint_strategy::{FieldRef, RequestFacts, name, top_level};

use super::policies;
use crate::apps::pods;
use crate::core::pod::template;

pub(crate) const INDEXED: &str = "Indexed";
pub(crate) const NON_INDEXED: &str = "NonIndexed";
const NEVER: &str = "Never";
const ON_FAILURE: &str = "OnFailure";

const MAX_INDEXED_PARALLELISM: i64 = 100_000;
const MAX_FAILED_INDEXES: i64 = 100_000;
/// From this number of completions on the other limits are lower.
const MANY_COMPLETIONS: i64 = 100_000;
const MAX_PARALLELISM_OF_MANY: i64 = 10_000;
const MAX_FAILED_INDEXES_OF_MANY: i64 = 10_000;
const MAX_MANAGER_BYTES: usize = 63;

const REQUIRES_INDEXED: &str = "requires indexed completion mode";
const PATH: &str = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";

/// Sets the defaults of a Job spec, in Jobs and in templates.
pub(crate) fn set_defaults(spec: &mut Tree) {
    if let Some(policy) = spec.find_mut(fields::POD_FAILURE_POLICY) {
        for rule in policy.items_mut(fields::RULES) {
            for pattern in rule.items_mut(fields::ON_POD_CONDITIONS) {
                pattern.set_default(fields::STATUS, "True");
            }
        }
    }
    template::set_defaults(spec.child(fields::TEMPLATE));
}

/// Drops fields of disabled feature gates, unless the old object uses them.
pub(crate) fn drop_disabled(spec: &mut Tree, old: Option<&Tree>) {
    let in_use = |old: &Tree| old.get(fields::SCHEDULING).is_some_and(|field| !field.is_null());
    if !old.is_some_and(in_use) {
        top_level::drop(spec, fields::SCHEDULING);
    }
}

/// Validates a spec except for its selector; `old` is the previous spec.
pub(crate) fn validate(spec: &FieldRef<'_>, old: Option<&FieldRef<'_>>, facts: &RequestFacts) {
    for count in [
        fields::PARALLELISM,
        fields::COMPLETIONS,
        fields::ACTIVE_DEADLINE_SECONDS,
        fields::BACKOFF_LIMIT,
        fields::TTL_SECONDS_AFTER_FINISHED,
        fields::BACKOFF_LIMIT_PER_INDEX,
        fields::MAX_FAILED_INDEXES,
    ] {
        spec.at(count).not_negative();
    }
    validate_manager(&spec.at(fields::MANAGED_BY));
    let mode = spec.at(fields::COMPLETION_MODE);
    if mode.is_set() && ![NON_INDEXED, INDEXED].contains(&mode.str()) {
        mode.not_supported(&[NON_INDEXED, INDEXED]);
    }
    match mode.str() {
        INDEXED => validate_indexed(spec),
        NON_INDEXED | "" => {
            for field in [fields::BACKOFF_LIMIT_PER_INDEX, fields::MAX_FAILED_INDEXES] {
                if spec.at(field).is_set() {
                    spec.at(field).invalid(REQUIRES_INDEXED);
                }
            }
        }
        _ => {}
    }
    policies::validate_failure(spec);
    match spec.at(fields::SUCCESS_POLICY) {
        policy if !policy.is_set() => {}
        policy if mode.str() != INDEXED => policy.invalid(REQUIRES_INDEXED),
        _ => policies::validate_success(spec),
    }
    policies::validate_replacement(spec);
    pods::validate_template(&spec.at(fields::TEMPLATE), old, facts);
    validate_restart(spec);
}

/// Reports what upstream's declarative validation reports, which runs last.
pub(crate) fn validate_declarative(spec: &FieldRef<'_>) {
    if spec.at(fields::MAX_FAILED_INDEXES).is_set() && !spec.at(fields::BACKOFF_LIMIT_PER_INDEX).is_set() {
        spec.at(fields::BACKOFF_LIMIT_PER_INDEX)
            .required("must be set when maxFailedIndexes is set");
    }
}

/// Warnings about a spec at this field path.
pub(crate) fn warnings(path: &str, spec: &FieldRef<'_>, old: Option<&FieldRef<'_>>) -> Vec<String> {
    let mut warnings = Vec::new();
    let changed = !old.is_some_and(|old| old.is_same(spec));
    if changed
        && spec.at(fields::COMPLETION_MODE).str() == INDEXED
        && spec.at(fields::COMPLETIONS).int() > MANY_COMPLETIONS
        && spec.at(fields::PARALLELISM).int() > MAX_PARALLELISM_OF_MANY
    {
        warnings.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        ));
    }
    warnings.extend(pods::template_warnings(spec, old));
    warnings
}

fn validate_indexed(spec: &FieldRef<'_>) {
    let (completions, parallelism) = (spec.at(fields::COMPLETIONS), spec.at(fields::PARALLELISM));
    let failed = spec.at(fields::MAX_FAILED_INDEXES);
    if !completions.is_set() {
        completions.required("when completion mode is Indexed");
    }
    if parallelism.int() > MAX_INDEXED_PARALLELISM {
        parallelism.invalid(&format!(
            "must be less than or equal to {MAX_INDEXED_PARALLELISM} when completion mode is Indexed"
        ));
    }
    if completions.is_set() && failed.int() > completions.int() {
        failed.invalid("must be less than or equal to completions");
    }
    if failed.int() > MAX_FAILED_INDEXES {
        failed.invalid(&format!("must be less than or equal to {MAX_FAILED_INDEXES}"));
    }
    if completions.int() > MANY_COMPLETIONS && spec.at(fields::BACKOFF_LIMIT_PER_INDEX).is_set() {
        validate_many(&parallelism, &failed);
    }
}

fn validate_many(parallelism: &FieldRef<'_>, failed: &FieldRef<'_>) {
    if !failed.is_set() {
        failed.required(&format!(
            "must be specified when completions is above {MANY_COMPLETIONS}"
        ));
    }
    for (field, max) in [
        (parallelism, MAX_PARALLELISM_OF_MANY),
        (failed, MAX_FAILED_INDEXES_OF_MANY),
    ] {
        if field.int() > max {
            field.invalid(&format!(
                "must be less than or equal to {max} when completions are above {MANY_COMPLETIONS} and used with backoff limit per index"
            ));
        }
    }
}

/// `managedBy` is a domain-prefixed path.
fn validate_manager(manager: &FieldRef<'_>) {
    let Some(text) = manager.find_str() else { return };
    match text.split_once('/') {
        _ if text.is_empty() => manager.required(""),
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
            name::report(domain, name::check_dns1123_subdomain(domain), manager.errors());
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
            if !path.bytes().all(allowed) {
                manager.invalid_as(path, PATH);
            }
        }
        _ => manager.invalid("must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
    if text.len() > MAX_MANAGER_BYTES {
        manager.too_long(MAX_MANAGER_BYTES);
    }
}

/// The pods of a Job must be able to end, so they never restart always.
fn validate_restart(spec: &FieldRef<'_>) {
    let policy = spec
        .at(fields::TEMPLATE)
        .at(fields::SPEC)
        .at(fields::RESTART_POLICY);
    match policy.str() {
        "Always" | "" => policy.required("valid values: \"OnFailure\", \"Never\""),
        NEVER => {}
        ON_FAILURE if spec.at(fields::POD_FAILURE_POLICY).is_set() => {
            policy.invalid("only \"Never\" is supported when podFailurePolicy is specified");
        }
        ON_FAILURE => {}
        _ => policy.not_supported(&[ON_FAILURE, NEVER]),
    }
}
