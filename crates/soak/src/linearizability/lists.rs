//! Lists: each must be exactly the state at its revision.

use std::collections::BTreeMap;

use super::history::{Operation, Outcome, Version};
use super::timeline::Timeline;
use super::violation::{Violation, ViolationKind};

/// Compares all lists.
pub(crate) fn check(timeline: &Timeline<'_>, violations: &mut Vec<Violation>) {
    for operation in &timeline.history.operations {
        if let Outcome::Listed { revision, items } = &operation.outcome {
            check_items(timeline, operation, (*revision, items), violations);
            check_missing(timeline, operation, (*revision, items), violations);
        }
    }
}

/// Each object must be the newest version up to the revision of the list.
fn check_items(
    timeline: &Timeline<'_>,
    operation: &Operation,
    (revision, items): (u64, &BTreeMap<String, Version>),
    violations: &mut Vec<Violation>,
) {
    for (key, version) in items {
        if version.revision > revision {
            let text = format!("the {operation} has {key} with {version}, which is newer");
            violations.push(Violation::new(ViolationKind::TornList, text));
            continue;
        }
        let newest = timeline.change_at(key, revision).map(|(newest, _)| newest);
        if let Some(newest) = newest.filter(|newest| *newest != version.revision) {
            let change = timeline.describe_change(newest);
            let text = format!("the {operation} has {key} with {version}, not {change}");
            let kind = timeline.missing_change(newest, ViolationKind::TornList);
            violations.push(Violation::new(kind, text));
        }
    }
}

/// Each object that existed at the revision of the list must be in it. Without all deletions this is not known.
fn check_missing(
    timeline: &Timeline<'_>,
    operation: &Operation,
    (revision, items): (u64, &BTreeMap<String, Version>),
    violations: &mut Vec<Violation>,
) {
    if !timeline.is_complete {
        return;
    }
    for key in timeline.keys().filter(|key| !items.contains_key(*key)) {
        let newest = timeline.change_at(key, revision);
        if let Some((newest, _)) = newest.filter(|(_, change)| change.value.is_some()) {
            let text = format!(
                "the {operation} lacks {key}: {}",
                timeline.describe_change(newest)
            );
            let kind = timeline.missing_change(newest, ViolationKind::TornList);
            violations.push(Violation::new(kind, text));
        }
    }
}
