//! The readiness of an object of any kind, by common status fields: replica counts, conditions, a phase.

use serde_json::Value;

/// The READY and REASON columns of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Readiness {
    /// `2/3`, or the status of the first of `READY_CONDITIONS`, or `-`.
    pub(super) ready: String,
    /// A reason in CamelCase, or empty.
    pub(super) reason: String,
}

/// The types of conditions that report readiness, by precedence.
const READY_CONDITIONS: &[&str] = &[
    "Ready",
    "Available",
    "Complete",
    "Succeeded",
    "Established",
    "Healthy",
    "Synced",
];

/// Paths of replica counts: the desired count, and the alternatives for the ready count.
const COUNTS: &[(&str, &[&str])] = &[
    ("/status/desiredNumberScheduled", &["/status/numberReady"]),
    (
        "/spec/replicas",
        &["/status/readyReplicas", "/status/availableReplicas"],
    ),
    ("/spec/completions", &["/status/succeeded"]),
];

pub(super) fn readiness(object: &Value) -> Readiness {
    let conditions = conditions(object);
    let failed = conditions.iter().find(|condition| is_failure(condition));
    let reported = READY_CONDITIONS
        .iter()
        .find_map(|type_| conditions.iter().find(|condition| condition.type_ == *type_));
    let ready = match (count(object), failed, reported) {
        (Some(count), _, _) => count,
        (None, Some(_), _) => "False".to_owned(),
        (None, None, Some(reported)) => reported.status.to_owned(),
        (None, None, None) => "-".to_owned(),
    };
    let reason = reason(object, failed.or(reported));
    Readiness {
        ready,
        reason: reason.to_owned(),
    }
}

/// One entry of `status.conditions`.
#[derive(Debug)]
struct Condition<'a> {
    type_: &'a str,
    status: &'a str,
    reason: &'a str,
}

fn conditions(object: &Value) -> Vec<Condition<'_>> {
    let entries = object.pointer("/status/conditions").and_then(Value::as_array);
    let condition = |entry| Condition {
        type_: text(entry, "/type"),
        status: text(entry, "/status"),
        reason: text(entry, "/reason"),
    };
    entries.into_iter().flatten().map(condition).collect()
}

fn is_failure(condition: &Condition<'_>) -> bool {
    let is_bad = ["Failed", "Failure"]
        .iter()
        .any(|suffix| condition.type_.ends_with(suffix));
    is_bad && condition.status == "True"
}

fn count(object: &Value) -> Option<String> {
    COUNTS.iter().find_map(|(desired, ready)| {
        let desired = object.pointer(desired)?.as_i64()?;
        let ready = ready.iter().find_map(|path| object.pointer(path)?.as_i64());
        Some(format!("{}/{desired}", ready.unwrap_or(0)))
    })
}

/// A pending deletion or an unobserved spec comes first, then the condition's reason, then the phase.
fn reason<'a>(object: &'a Value, condition: Option<&Condition<'a>>) -> &'a str {
    let number = |path| object.pointer(path).and_then(Value::as_i64);
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        return "Terminating";
    }
    if number("/status/observedGeneration").unwrap_or(i64::MAX) < number("/metadata/generation").unwrap_or(0)
    {
        return "Unobserved";
    }
    match condition {
        Some(condition) if !condition.reason.is_empty() => condition.reason,
        _ => text(object, "/status/phase"),
    }
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(object: Value, expected: &str) {
        let Readiness { ready, reason } = readiness(&object);
        assert_eq!(format!("{ready} {reason}").trim_end(), expected, "{object}");
    }

    fn condition(type_: &str, status: &str, reason: &str) -> Value {
        json!([{"type": type_, "status": status, "reason": reason}])
    }

    /// TO6
    #[test]
    fn to6_replicas_are_counted() {
        check(
            json!({"spec": {"replicas": 3}, "status": {"readyReplicas": 2}}),
            "2/3",
        );
        check(json!({"spec": {"replicas": 3}, "status": {}}), "0/3");
        check(
            json!({"spec": {"replicas": 1}, "status": {"availableReplicas": 1}}),
            "1/1",
        );
        check(
            json!({"status": {"desiredNumberScheduled": 4, "numberReady": 1}}),
            "1/4",
        );
        let available = condition("Available", "True", "MinimumReplicasAvailable");
        let deployment =
            json!({"spec": {"replicas": 1}, "status": {"readyReplicas": 1, "conditions": available}});
        check(deployment, "1/1 MinimumReplicasAvailable");
    }

    #[test]
    fn a_ready_condition_is_shown_with_its_reason() {
        let pod = |conditions: Value| json!({"status": {"phase": "Running", "conditions": conditions}});
        check(pod(condition("Ready", "True", "")), "True Running");
        check(
            pod(condition("Ready", "False", "ContainersNotReady")),
            "False ContainersNotReady",
        );
        check(pod(condition("Unknown", "True", "Type")), "- Running");
        check(
            json!({"status": {"conditions": condition("Failed", "True", "BackoffLimitExceeded")}}),
            "False BackoffLimitExceeded",
        );
        let failure = condition("ReplicaFailure", "True", "FailedCreate");
        check(
            json!({"spec": {"replicas": 1}, "status": {"conditions": failure}}),
            "0/1 FailedCreate",
        );
    }

    #[test]
    fn an_object_without_a_status_has_no_readiness() {
        check(json!({"data": {"a": "b"}}), "-");
        check(json!({"status": {"phase": "Bound"}}), "- Bound");
        check(
            json!({"spec": {"replicas": "many"}, "status": {"conditions": "none"}}),
            "-",
        );
    }

    #[test]
    fn a_deletion_or_an_unobserved_spec_is_the_first_reason() {
        let ready = condition("Ready", "True", "Fine");
        let terminating = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"conditions": ready}});
        check(terminating, "True Terminating");
        let edited =
            json!({"metadata": {"generation": 3}, "status": {"observedGeneration": 2, "conditions": ready}});
        check(edited, "True Unobserved");
    }
}
