//! The pod failure policy and the success policy of a Job. Pure.

use k8s_openapi::api::batch::v1::{
    Job, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
};
use setpoint_values::indexes::Indexes;

use super::pod::Pod;

/// What a failed pod means for its Job (upstream: the action of the pod failure policy).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FailurePolicyAction {
    /// It counts against the backoff limit.
    Count,
    /// It does not count.
    Ignore,
    /// Its index has failed.
    FailIndex,
    /// The whole Job has failed, with this message.
    FailJob(String),
}

/// The action for the failed pod, by the first matching rule.
pub(crate) fn failure_policy_action(job: &Job, pod: &Pod) -> FailurePolicyAction {
    let policy = job
        .spec
        .as_ref()
        .and_then(|spec| spec.pod_failure_policy.as_ref());
    let rules = policy.map(|policy| policy.rules.as_slice()).unwrap_or_default();
    let mut fitting = rules
        .iter()
        .enumerate()
        .filter_map(|(i, rule)| Some((i, rule, fits(rule, pod)?)));
    let Some((i, rule, what)) = fitting.next() else {
        return FailurePolicyAction::Count;
    };
    match rule.action.as_str() {
        "Ignore" => FailurePolicyAction::Ignore,
        "FailIndex" => FailurePolicyAction::FailIndex,
        "FailJob" => {
            FailurePolicyAction::FailJob(format!("{what} matching {} rule at index {i}", rule.action))
        }
        _ => FailurePolicyAction::Count,
    }
}

/// What of the pod matches the rule, as text.
fn fits(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let key = pod.pod.object().key();
    match (&rule.on_exit_codes, &rule.on_pod_conditions) {
        (Some(codes), _) => {
            let (name, code) = pod
                .view
                .ended
                .iter()
                .find(|(name, code)| fits_code(codes, name, *code))?;
            Some(format!(
                "Container {name} for pod {key} failed with exit code {code}"
            ))
        }
        (None, Some(patterns)) => {
            let mut own = pod.view.conditions.iter();
            let (type_, _) =
                own.find(|(type_, status)| patterns.iter().any(|one| fits_condition(one, type_, status)))?;
            Some(format!("Pod {key} has condition {type_}"))
        }
        (None, None) => None,
    }
}

fn fits_code(codes: &PodFailurePolicyOnExitCodesRequirement, name: &str, code: i32) -> bool {
    let is_meant = codes.container_name.as_deref().is_none_or(|own| own == name);
    let is_listed = codes.values.contains(&code);
    code != 0 && is_meant && (is_listed == (codes.operator == "In"))
}

fn fits_condition(pattern: &PodFailurePolicyOnPodConditionsPattern, type_: &str, status: &str) -> bool {
    pattern.type_ == type_ && pattern.status.as_deref().unwrap_or("True") == status
}

/// The message of the success policy rule that the succeeded indexes satisfy, if any.
pub(crate) fn success(job: &Job, succeeded: &Indexes, completions: u32) -> Option<String> {
    let policy = job.spec.as_ref().and_then(|spec| spec.success_policy.as_ref())?;
    if succeeded.is_empty() {
        return None;
    }
    let count = |count: Option<i32>| count.and_then(|count| usize::try_from(count).ok());
    let met = policy
        .rules
        .iter()
        .position(|rule| match &rule.succeeded_indexes {
            Some(indexes) => {
                let required = Indexes::parse(indexes, completions);
                let shared = required.shared_with(succeeded);
                !required.is_empty()
                    && (shared == required.len()
                        || count(rule.succeeded_count).is_some_and(|count| shared >= count))
            }
            None => count(rule.succeeded_count).is_some_and(|count| succeeded.len() >= count),
        });
    met.map(|at| format!("Matched rules at index {at}"))
}
