//! What the status of a namespace on its way out says: pure. The words are Kubernetes' own.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NamespaceCondition, NamespaceStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::plan::Left;

/// The status that tells what is left, and what could not be deleted.
pub(crate) fn status(
    now: Timestamp,
    old: &NamespaceStatus,
    left: &[Left],
    failures: &[String],
) -> NamespaceStatus {
    let known = old.conditions.as_deref().unwrap_or_default();
    let news = [
        (
            "NamespaceDeletionDiscoveryFailure",
            false,
            "ResourcesDiscovered",
            "All resources successfully discovered".to_owned(),
        ),
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
    fn check(left: &[Left], failures: &[&str], type_: &str, expected: &str) {
        let failures: Vec<String> = failures.iter().map(|one| (*one).to_owned()).collect();
        let status = status(
            Timestamp::UNIX_EPOCH,
            &NamespaceStatus::default(),
            left,
            &failures,
        );
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
        check(
            std::slice::from_ref(&pods),
            &[],
            "NamespaceContentRemaining",
            "True Some resources are remaining: pods has 2 resource instances",
        );
        check(
            &[pods],
            &[],
            "NamespaceFinalizersRemaining",
            "True Some content in the namespace has finalizers remaining: example.com/mine in 1 resource instances",
        );
        check(
            &[],
            &[],
            "NamespaceContentRemaining",
            "False All content successfully removed",
        );
    }

    #[test]
    fn what_could_not_be_deleted_is_named() {
        check(
            &[],
            &["no"],
            "NamespaceDeletionContentFailure",
            "True Failed to delete all resource types, 1 remaining: no",
        );
    }

    #[test]
    fn saying_it_again_changes_nothing() {
        let first = status(Timestamp::UNIX_EPOCH, &NamespaceStatus::default(), &[], &[]);
        let later = Timestamp::from_second(90).unwrap();
        assert_eq!(status(later, &first, &[], &[]), first);
    }
}
