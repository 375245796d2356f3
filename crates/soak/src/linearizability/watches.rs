//! Watches: each delivers exactly the changes after its start, in order, each once.

use super::history::{Event, EventType, Watch};
use super::timeline::Timeline;
use super::violation::{Violation, ViolationKind};

/// Compares all watches. A reconnect is a watch of its own that starts at the last revision of the one before, so a gap or
/// a repeat between two connections is one of the second.
pub(crate) fn check(timeline: &Timeline<'_>, violations: &mut Vec<Violation>) {
    for watch in &timeline.history.watches {
        check_order(timeline, watch, violations);
        check_gaps(timeline, watch, violations);
        for event in &watch.events {
            check_type(timeline, watch, event, violations);
        }
    }
}

fn check_order(timeline: &Timeline<'_>, watch: &Watch, violations: &mut Vec<Violation>) {
    let mut reached = watch.start;
    for event in &watch.events {
        let revision = event.version.revision;
        let is_next = match event.event_type {
            EventType::Bookmark => revision >= reached,
            _ => revision > reached,
        };
        if !is_next {
            let change = timeline.describe_change(revision);
            let text = format!("{watch} has {change} after revision {reached}");
            violations.push(Violation::new(ViolationKind::WatchRepeat, text));
        }
        reached = reached.max(revision);
    }
}

fn check_gaps(timeline: &Timeline<'_>, watch: &Watch, violations: &mut Vec<Violation>) {
    let changes = watch
        .events
        .iter()
        .filter(|event| event.event_type != EventType::Bookmark);
    let mut delivered: Vec<u64> = changes.map(|event| event.version.revision).collect();
    delivered.sort_unstable();
    for (revision, _) in timeline.changes_between(watch.start, watch.reached()) {
        if delivered.binary_search(&revision).is_err() {
            let text = format!("{watch} lacks {}", timeline.describe_change(revision));
            let kind = timeline.missing_change(revision, ViolationKind::WatchGap);
            violations.push(Violation::new(kind, text));
        }
    }
}

/// An object that is added must not exist before, one that is modified or deleted must.
fn check_type(timeline: &Timeline<'_>, watch: &Watch, event: &Event, violations: &mut Vec<Violation>) {
    let revision = event.version.revision;
    let before = timeline.change_at(&event.key, revision.saturating_sub(1));
    let existed = before.is_some_and(|(_, change)| change.value.is_some());
    let fits = match event.event_type {
        EventType::Bookmark => true,
        EventType::Added => !existed || !timeline.is_complete,
        EventType::Modified | EventType::Deleted => existed || !timeline.is_complete,
    };
    if !fits {
        let change = timeline.describe_change(revision);
        let existence = if existed { "existed" } else { "did not exist" };
        let text = format!(
            "{watch} has {change} as {:?}, but the object {existence} before",
            event.event_type
        );
        violations.push(Violation::new(ViolationKind::WatchEvent, text));
    }
}
