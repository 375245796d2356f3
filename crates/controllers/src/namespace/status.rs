//! The status of a terminating namespace. Pure. The texts are Kubernetes' own.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NamespaceCondition, NamespaceStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::DeletionResult;
use super::plan::RemainingObjects;

/// The status that reports remaining content and failures.
pub(super) fn status(now: Timestamp, old: &NamespaceStatus, result: &DeletionResult) -> NamespaceStatus {
    let DeletionResult {
        remaining,
        failures,
        undiscovered,
    } = result;
    let known = old.conditions.as_deref().unwrap_or_default();
    let updates = [
        discovery_failure(undiscovered),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            false,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".to_owned(),
        ),
        content_failure(failures),
        content_remaining(remaining),
        finalizers_remaining(remaining),
    ];
    let own =
        updates.map(|(type_, holds, reason, message)| condition(now, known, type_, holds, (reason, message)));
    let foreign = known
        .iter()
        .filter(|one| own.iter().all(|mine| mine.type_ != one.type_));
    let conditions = foreign.cloned().chain(own.iter().cloned()).collect();
    NamespaceStatus {
        conditions: Some(conditions),
        phase: Some("Terminating".to_owned()),
    }
}

type ConditionUpdate = (&'static str, bool, &'static str, String);

fn discovery_failure(undiscovered: &[String]) -> ConditionUpdate {
    let type_ = "NamespaceDeletionDiscoveryFailure";
    if undiscovered.is_empty() {
        let message = "All resources successfully discovered";
        return (type_, false, "ResourcesDiscovered", message.to_owned());
    }
    let mut each: Vec<String> = undiscovered
        .iter()
        .map(|version| format!("{version}: stale GroupVersion discovery: {version}"))
        .collect();
    each.sort();
    let message = format!(
        "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: {}",
        undiscovered.len(),
        each.join(", ")
    );
    (type_, true, "DiscoveryFailed", message)
}

fn content_failure(failures: &[String]) -> ConditionUpdate {
    let type_ = "NamespaceDeletionContentFailure";
    if failures.is_empty() {
        let message = "All content successfully deleted, may be waiting on finalization";
        return (type_, false, "ContentDeleted", message.to_owned());
    }
    let message = format!(
        "Failed to delete all resource types, {} remaining: {}",
        failures.len(),
        failures.join(", ")
    );
    (type_, true, "ContentDeletionFailed", message)
}

fn content_remaining(remaining: &[RemainingObjects]) -> ConditionUpdate {
    let type_ = "NamespaceContentRemaining";
    let each = |one: &RemainingObjects| format!("{} has {} resource instances", one.resource, one.objects);
    let list: Vec<String> = remaining.iter().filter(|one| one.objects > 0).map(each).collect();
    if list.is_empty() {
        return (
            type_,
            false,
            "ContentRemoved",
            "All content successfully removed".to_owned(),
        );
    }
    let message = format!("Some resources are remaining: {}", list.join(", "));
    (type_, true, "SomeResourcesRemain", message)
}

fn finalizers_remaining(remaining: &[RemainingObjects]) -> ConditionUpdate {
    let type_ = "NamespaceFinalizersRemaining";
    let mut counts = std::collections::BTreeMap::new();
    for (finalizer, count) in remaining.iter().flat_map(|one| &one.finalizers) {
        *counts.entry(finalizer).or_insert(0) += count;
    }
    if counts.is_empty() {
        let message = "All content-preserving finalizers finished";
        return (type_, false, "ContentHasNoFinalizers", message.to_owned());
    }
    let each = |(finalizer, count): (&String, usize)| format!("{finalizer} in {count} resource instances");
    let list: Vec<String> = counts.into_iter().map(each).collect();
    let message = format!(
        "Some content in the namespace has finalizers remaining: {}",
        list.join(", ")
    );
    (type_, true, "SomeFinalizersRemain", message)
}

fn condition(
    now: Timestamp,
    known: &[NamespaceCondition],
    type_: &str,
    holds: bool,
    (reason, message): (&str, String),
) -> NamespaceCondition {
    let status = if holds { "True" } else { "False" };
    let same = |one: &&NamespaceCondition| one.type_ == type_ && one.status == status;
    let since = known
        .iter()
        .find(same)
        .and_then(|one| one.last_transition_time.clone());
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    NamespaceCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        last_transition_time: since.or(Some(Time(now))),
        reason: Some(reason.to_owned()),
        message: Some(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(result: &DeletionResult, type_: &str, expected: &str) {
        let status = status(Timestamp::UNIX_EPOCH, &NamespaceStatus::default(), result);
        let conditions = status.conditions.unwrap();
        let found = conditions.iter().find(|one| one.type_ == type_).unwrap();
        let shown = format!("{} {}", found.status, found.message.as_deref().unwrap());
        assert_eq!(shown, expected);
    }

    #[test]
    fn remaining_objects_are_counted_by_resource() {
        let pods = RemainingObjects {
            resource: "pods".to_owned(),
            objects: 2,
            finalizers: [("example.com/mine".to_owned(), 1)].into(),
        };
        let result = DeletionResult {
            remaining: vec![pods],
            ..DeletionResult::default()
        };
        check(
            &result,
            "NamespaceContentRemaining",
            "True Some resources are remaining: pods has 2 resource instances",
        );
        check(
            &result,
            "NamespaceFinalizersRemaining",
            "True Some content in the namespace has finalizers remaining: example.com/mine in 1 resource instances",
        );
        check(
            &DeletionResult::default(),
            "NamespaceContentRemaining",
            "False All content successfully removed",
        );
    }

    #[test]
    fn failed_deletions_are_named() {
        let result = DeletionResult {
            failures: vec!["no".to_owned()],
            ..DeletionResult::default()
        };
        check(
            &result,
            "NamespaceDeletionContentFailure",
            "True Failed to delete all resource types, 1 remaining: no",
        );
    }

    #[test]
    fn undiscovered_groups_are_named() {
        let result = DeletionResult {
            undiscovered: vec!["b.org/v1".to_owned(), "a.org/v1".to_owned()],
            ..DeletionResult::default()
        };
        check(
            &result,
            "NamespaceDeletionDiscoveryFailure",
            "True Discovery failed for some groups, 2 failing: unable to retrieve the complete list of server APIs: \
             a.org/v1: stale GroupVersion discovery: a.org/v1, b.org/v1: stale GroupVersion discovery: b.org/v1",
        );
    }

    #[test]
    fn reporting_again_changes_nothing() {
        let nothing = DeletionResult::default();
        let first = status(Timestamp::UNIX_EPOCH, &NamespaceStatus::default(), &nothing);
        let later = Timestamp::from_second(90).unwrap();
        assert_eq!(status(later, &first, &nothing), first);
    }
}
