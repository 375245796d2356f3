//! How ready an object is, by what all kinds have in common: counts of replicas, conditions, a phase.

use serde_json::Value;

/// What an object says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Readiness {
    /// `2/3`, or the status of the condition that tells, or `-`.
    pub(super) ready: String,
    /// One word why; empty if there is nothing to say.
    pub(super) reason: String,
}

/// The conditions that tell whether an object is what it should be, the best first.
const TELLING: &[&str] = &[
    "Ready",
    "Available",
    "Complete",
    "Succeeded",
    "Established",
    "Healthy",
    "Synced",
];

/// Where counts stand: how many there should be, and those that say how many are ready.
const COUNTS: &[(&str, &[&str])] = &[
    ("/status/desiredNumberScheduled", &["/status/numberReady"]),
    (
        "/spec/replicas",
        &["/status/readyReplicas", "/status/availableReplicas"],
    ),
    ("/spec/completions", &["/status/succeeded"]),
];

pub(super) fn readiness(object: &Value) -> Readiness {
    let told = conditions(object);
    let failed = told.iter().find(|told| is_failure(told));
    let telling = TELLING
        .iter()
        .find_map(|type_| told.iter().find(|told| told.type_ == *type_));
    let ready = match (count(object), failed, telling) {
        (Some(count), _, _) => count,
        (None, Some(_), _) => "False".to_owned(),
        (None, None, Some(telling)) => telling.status.to_owned(),
        (None, None, None) => "-".to_owned(),
    };
    let reason = reason(object, failed.or(telling));
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
    let told = |entry| Condition {
        type_: text(entry, "/type"),
        status: text(entry, "/status"),
        reason: text(entry, "/reason"),
    };
    entries.into_iter().flatten().map(told).collect()
}

fn is_failure(told: &Condition<'_>) -> bool {
    let is_bad = ["Failed", "Failure"]
        .iter()
        .any(|word| told.type_.ends_with(word));
    is_bad && told.status == "True"
}

fn count(object: &Value) -> Option<String> {
    COUNTS.iter().find_map(|(wanted, ready)| {
        let wanted = object.pointer(wanted)?.as_i64()?;
        let ready = ready.iter().find_map(|path| object.pointer(path)?.as_i64());
        Some(format!("{}/{wanted}", ready.unwrap_or(0)))
    })
}

/// What goes on matters before why something is so; a word that only says that all is well is left out.
fn reason<'a>(object: &'a Value, told: Option<&Condition<'a>>) -> &'a str {
    let number = |path| object.pointer(path).and_then(Value::as_i64);
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        return "Terminating";
    }
    if number("/status/observedGeneration").unwrap_or(i64::MAX) < number("/metadata/generation").unwrap_or(0)
    {
        return "Unobserved";
    }
    match told {
        Some(told) if !told.reason.is_empty() => told.reason,
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
    fn a_telling_condition_is_shown_with_its_reason() {
        let pod = |conditions: Value| json!({"status": {"phase": "Running", "conditions": conditions}});
        check(pod(condition("Ready", "True", "")), "True Running");
        check(
            pod(condition("Ready", "False", "ContainersNotReady")),
            "False ContainersNotReady",
        );
        check(pod(condition("Unheard", "True", "Of")), "- Running");
        check(
            json!({"status": {"conditions": condition("Failed", "True", "BackoffLimitExceeded")}}),
            "False BackoffLimitExceeded",
        );
        let refused = condition("ReplicaFailure", "True", "FailedCreate");
        check(
            json!({"spec": {"replicas": 1}, "status": {"conditions": refused}}),
            "0/1 FailedCreate",
        );
    }

    #[test]
    fn an_object_that_says_nothing_is_neither_ready_nor_not() {
        check(json!({"data": {"a": "b"}}), "-");
        check(json!({"status": {"phase": "Bound"}}), "- Bound");
        check(
            json!({"spec": {"replicas": "many"}, "status": {"conditions": "none"}}),
            "-",
        );
    }

    #[test]
    fn what_goes_on_is_said_first() {
        let ready = condition("Ready", "True", "Fine");
        let leaving = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"conditions": ready}});
        check(leaving, "True Terminating");
        let edited =
            json!({"metadata": {"generation": 3}, "status": {"observedGeneration": 2, "conditions": ready}});
        check(edited, "True Unobserved");
    }
}
