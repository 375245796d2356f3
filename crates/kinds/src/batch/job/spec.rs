//! The rules of what a Job asks for, in Jobs and in the templates of CronJobs alike.

use setpoint_schema::Tree;

use super::policies;
use crate::apps::pods;
use crate::at::At;
use crate::core::pod::template;
use crate::parts;
use crate::shared::name;

pub(crate) const INDEXED: &str = "Indexed";
pub(crate) const NON_INDEXED: &str = "NonIndexed";
const NEVER: &str = "Never";
const ON_FAILURE: &str = "OnFailure";

const MOST_INDEXED_PARALLELISM: i64 = 100_000;
const MOST_FAILED_INDEXES: i64 = 100_000;
/// From how many completions on the other limits are lower.
const MANY_COMPLETIONS: i64 = 100_000;
const MOST_PARALLELISM_OF_MANY: i64 = 10_000;
const MOST_FAILED_INDEXES_OF_MANY: i64 = 10_000;
const MOST_MANAGER_BYTES: usize = 63;

const REQUIRES_INDEXED: &str = "requires indexed completion mode";
const PATH: &str = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";

/// Fills in what every such spec leaves out, wherever it stands.
pub(crate) fn fill(spec: &mut Tree) {
    if let Some(policy) = spec.find_mut("podFailurePolicy") {
        for rule in policy.items_mut("rules") {
            for pattern in rule.items_mut("onPodConditions") {
                pattern.fill("status", "True");
            }
        }
    }
    template::fill(spec.child("template"));
}

/// Drops what only a feature that is off would understand, unless it is there already.
pub(crate) fn drop_disabled(spec: &mut Tree, old: Option<&Tree>) {
    let in_use = |old: &Tree| old.get("scheduling").is_some_and(|field| !field.is_null());
    if !old.is_some_and(in_use) {
        parts::drop(spec, "scheduling");
    }
}

/// Reports what is wrong with a spec, but for its selector; `old` is what it was before.
pub(crate) fn validate(spec: &At<'_>, old: Option<&At<'_>>) {
    for count in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        spec.at(count).not_negative();
    }
    validate_manager(&spec.at("managedBy"));
    let mode = spec.at("completionMode");
    if mode.is_set() && ![NON_INDEXED, INDEXED].contains(&mode.str()) {
        mode.not_supported(&[NON_INDEXED, INDEXED]);
    }
    match mode.str() {
        INDEXED => validate_indexed(spec),
        NON_INDEXED | "" => {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if spec.at(field).is_set() {
                    spec.at(field).invalid(REQUIRES_INDEXED);
                }
            }
        }
        _ => {}
    }
    policies::validate_failure(spec);
    match spec.at("successPolicy") {
        policy if !policy.is_set() => {}
        policy if mode.str() != INDEXED => policy.invalid(REQUIRES_INDEXED),
        _ => policies::validate_success(spec),
    }
    policies::validate_replacement(spec);
    pods::validate_template(&spec.at("template"), old);
    validate_restart(spec);
}

/// Reports what Kubernetes checks by declaration, which it does last.
pub(crate) fn validate_declared(spec: &At<'_>) {
    if spec.at("maxFailedIndexes").is_set() && !spec.at("backoffLimitPerIndex").is_set() {
        spec.at("backoffLimitPerIndex")
            .required("must be set when maxFailedIndexes is set");
    }
}

/// What to tell the caller about a spec that stands at this path.
pub(crate) fn warnings(path: &str, spec: &At<'_>, old: Option<&At<'_>>) -> Vec<String> {
    let mut warnings = Vec::new();
    let changed = !old.is_some_and(|old| old.is_same(spec));
    if changed
        && spec.at("completionMode").str() == INDEXED
        && spec.at("completions").int() > MANY_COMPLETIONS
        && spec.at("parallelism").int() > MOST_PARALLELISM_OF_MANY
    {
        warnings.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        ));
    }
    warnings.extend(pods::template_warnings(spec, old));
    warnings
}

fn validate_indexed(spec: &At<'_>) {
    let (completions, parallelism) = (spec.at("completions"), spec.at("parallelism"));
    let failed = spec.at("maxFailedIndexes");
    if !completions.is_set() {
        completions.required("when completion mode is Indexed");
    }
    if parallelism.int() > MOST_INDEXED_PARALLELISM {
        parallelism.invalid(&format!(
            "must be less than or equal to {MOST_INDEXED_PARALLELISM} when completion mode is Indexed"
        ));
    }
    if completions.is_set() && failed.int() > completions.int() {
        failed.invalid("must be less than or equal to completions");
    }
    if failed.int() > MOST_FAILED_INDEXES {
        failed.invalid(&format!("must be less than or equal to {MOST_FAILED_INDEXES}"));
    }
    if completions.int() > MANY_COMPLETIONS && spec.at("backoffLimitPerIndex").is_set() {
        validate_many(&parallelism, &failed);
    }
}

fn validate_many(parallelism: &At<'_>, failed: &At<'_>) {
    if !failed.is_set() {
        failed.required(&format!(
            "must be specified when completions is above {MANY_COMPLETIONS}"
        ));
    }
    for (field, most) in [
        (parallelism, MOST_PARALLELISM_OF_MANY),
        (failed, MOST_FAILED_INDEXES_OF_MANY),
    ] {
        if field.int() > most {
            field.invalid(&format!(
                "must be less than or equal to {most} when completions are above {MANY_COMPLETIONS} and used with backoff limit per index"
            ));
        }
    }
}

/// Who takes care of the Job is a path behind a domain.
fn validate_manager(manager: &At<'_>) {
    let Some(text) = manager.find_str() else { return };
    match text.split_once('/') {
        _ if text.is_empty() => manager.required(""),
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
            name::report(domain, name::subdomain(domain), manager.errors());
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
            if !path.bytes().all(allowed) {
                manager.invalid_as(path, PATH);
            }
        }
        _ => manager.invalid("must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
    if text.len() > MOST_MANAGER_BYTES {
        manager.too_long(MOST_MANAGER_BYTES);
    }
}

/// The pods of a Job must be able to end.
fn validate_restart(spec: &At<'_>) {
    let policy = spec.at("template").at("spec").at("restartPolicy");
    match policy.str() {
        "Always" | "" => policy.required("valid values: \"OnFailure\", \"Never\""),
        NEVER => {}
        ON_FAILURE if spec.at("podFailurePolicy").is_set() => {
            policy.invalid("only \"Never\" is supported when podFailurePolicy is specified");
        }
        ON_FAILURE => {}
        _ => policy.not_supported(&[ON_FAILURE, NEVER]),
    }
}
