//! What the status of a namespace on its way out says: pure. The words are Kubernetes' own.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NamespaceCondition, NamespaceStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Round;
use super::plan::Left;

/// The status that tells what is left, and what could not be deleted.
pub(super) fn status(now: Timestamp, old: &NamespaceStatus, round: &Round) -> NamespaceStatus {
    let Round {
        left,
        failures,
        unknown,
    } = round;
    let known = old.conditions.as_deref().unwrap_or_default();
    let news = [
        discovery_failure(unknown),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            false,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".to_owned(),
        ),
        content_failure(failures),
        content_remaining(left),
        finalizers_remaining(left),
    ];
    let own =
        news.map(|(type_, holds, reason, message)| condition(now, known, type_, holds, (reason, message)));
    let foreign = known
        .iter()
        .filter(|one| own.iter().all(|mine| mine.type_ != one.type_));
    let conditions = foreign.cloned().chain(own.iter().cloned()).collect();
    NamespaceStatus {
        conditions: Some(conditions),
        phase: Some("Terminating".to_owned()),
    }
}

type News = (&'static str, bool, &'static str, String);

fn discovery_failure(unknown: &[String]) -> News {
    let type_ = "NamespaceDeletionDiscoveryFailure";
    if unknown.is_empty() {
        let message = "All resources successfully discovered";
        return (type_, false, "ResourcesDiscovered", message.to_owned());
    }
    let mut each: Vec<String> = unknown
        .iter()
        .map(|version| format!("{version}: stale GroupVersion discovery: {version}"))
        .collect();
    each.sort();
    let message = format!(
        "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: {}",
        unknown.len(),
        each.join(", ")
    );
    (type_, true, "DiscoveryFailed", message)
}

fn content_failure(failures: &[String]) -> News {
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

fn content_remaining(left: &[Left]) -> News {
    let type_ = "NamespaceContentRemaining";
    let each = |one: &Left| format!("{} has {} resource instances", one.resource, one.objects);
    let list: Vec<String> = left.iter().filter(|one| one.objects > 0).map(each).collect();
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

fn finalizers_remaining(left: &[Left]) -> News {
    let type_ = "NamespaceFinalizersRemaining";
    let mut counts = std::collections::BTreeMap::new();
    for (finalizer, count) in left.iter().flat_map(|one| &one.finalizers) {
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
    fn check(round: &Round, type_: &str, expected: &str) {
        let status = status(Timestamp::UNIX_EPOCH, &NamespaceStatus::default(), round);
        let conditions = status.conditions.unwrap();
        let found = conditions.iter().find(|one| one.type_ == type_).unwrap();
        let shown = format!("{} {}", found.status, found.message.as_deref().unwrap());
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_is_left_is_counted_by_resource() {
        let pods = Left {
            resource: "pods".to_owned(),
            objects: 2,
            finalizers: [("example.com/mine".to_owned(), 1)].into(),
        };
        let round = Round {
            left: vec![pods],
            ..Round::default()
        };
        check(
            &round,
            "NamespaceContentRemaining",
            "True Some resources are remaining: pods has 2 resource instances",
        );
        check(
            &round,
            "NamespaceFinalizersRemaining",
            "True Some content in the namespace has finalizers remaining: example.com/mine in 1 resource instances",
        );
        check(
            &Round::default(),
            "NamespaceContentRemaining",
            "False All content successfully removed",
        );
    }

    #[test]
    fn what_could_not_be_deleted_is_named() {
        let round = Round {
            failures: vec!["no".to_owned()],
            ..Round::default()
        };
        check(
            &round,
            "NamespaceDeletionContentFailure",
            "True Failed to delete all resource types, 1 remaining: no",
        );
    }

    #[test]
    fn servers_that_do_not_answer_are_named() {
        let round = Round {
            unknown: vec!["b.org/v1".to_owned(), "a.org/v1".to_owned()],
            ..Round::default()
        };
        check(
            &round,
            "NamespaceDeletionDiscoveryFailure",
            "True Discovery failed for some groups, 2 failing: unable to retrieve the complete list of server APIs: \
             a.org/v1: stale GroupVersion discovery: a.org/v1, b.org/v1: stale GroupVersion discovery: b.org/v1",
        );
    }

    #[test]
    fn saying_it_again_changes_nothing() {
        let nothing = Round::default();
        let first = status(Timestamp::UNIX_EPOCH, &NamespaceStatus::default(), &nothing);
        let later = Timestamp::from_second(90).unwrap();
        assert_eq!(status(later, &first, &nothing), first);
    }
}
