//! [`Timeline`]: all changes that a history shows, by revision. Everything that names a revision contributes to it: responses
//! to writes, reads, lists and events.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::{Excluded, Unbounded};

use super::history::{EventType, History, Operation, Outcome, Version};
use super::violation::{Violation, ViolationKind};

/// A change of one key.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) key: String,
    pub(crate) uid: String,
    /// The new content; `None` for a deletion.
    pub(crate) value: Option<String>,
    /// The operation that made the change, if it is known.
    pub(crate) writer: Option<usize>,
    /// Whether it was seen by anything but the response to its write.
    pub(crate) is_observed: bool,
}

/// The changes of a history.
#[derive(Debug)]
pub(crate) struct Timeline<'a> {
    pub(crate) history: &'a History,
    pub(crate) changes: BTreeMap<u64, Change>,
    /// The revisions of each key, ascending.
    revisions: HashMap<String, Vec<u64>>,
    /// The operation that wrote a value.
    writers: HashMap<&'a str, usize>,
    /// The revision at which a value was written.
    revision_of_value: HashMap<String, u64>,
    /// Whether the watches cover all revisions, so that no change is missing, deletions included.
    pub(crate) is_complete: bool,
}

impl<'a> Timeline<'a> {
    pub(crate) fn new(history: &'a History, violations: &mut Vec<Violation>) -> Self {
        let writers = history.operations.iter().enumerate();
        let writers = writers.filter_map(|(index, operation)| Some((operation.value()?, index)));
        let mut timeline = Self {
            history,
            changes: BTreeMap::new(),
            revisions: HashMap::new(),
            writers: writers.collect(),
            revision_of_value: HashMap::new(),
            is_complete: false,
        };
        for (index, operation) in history.operations.iter().enumerate() {
            timeline.add_operation(index, operation, violations);
        }
        timeline.add_events(violations);
        timeline.index();
        timeline.find_deleting_operations();
        timeline.is_complete = timeline.is_covered();
        timeline
    }

    fn add_operation(&mut self, index: usize, operation: &Operation, violations: &mut Vec<Violation>) {
        match &operation.outcome {
            Outcome::Written(version) => self.add(&operation.key, version, Some(index), violations),
            Outcome::Read(version) => self.add(&operation.key, version, None, violations),
            Outcome::Listed { items, .. } => {
                for (key, version) in items {
                    self.add(key, version, None, violations);
                }
            }
            _ => {}
        }
    }

    fn add_events(&mut self, violations: &mut Vec<Violation>) {
        for watch in &self.history.watches {
            for event in &watch.events {
                match event.event_type {
                    EventType::Added | EventType::Modified => {
                        self.add(&event.key, &event.version, None, violations);
                    }
                    EventType::Deleted => self.add_deletion(&event.key, &event.version, violations),
                    EventType::Bookmark => {}
                }
            }
        }
    }

    /// Adds the content of a key at a revision. `writer` is set for the response to the write itself.
    fn add(&mut self, key: &str, version: &Version, writer: Option<usize>, violations: &mut Vec<Violation>) {
        let wrote = self.writers.get(version.value.as_str()).copied();
        self.check_source(key, version, wrote, violations);
        let first = *self
            .revision_of_value
            .entry(version.value.clone())
            .or_insert(version.revision);
        if first != version.revision {
            let writer = wrote.map_or_else(String::new, |index| format!(" by {}", self.describe(index)));
            let text = format!(
                "{key} has {:?} at revision {first} and {version}{writer}",
                version.value
            );
            violations.push(Violation::new(ViolationKind::Contradiction, text));
        }
        let change = Change {
            key: key.to_owned(),
            uid: version.uid.clone(),
            value: Some(version.value.clone()),
            writer: wrote,
            is_observed: writer.is_none(),
        };
        self.insert(version.revision, change, violations);
    }

    fn add_deletion(&mut self, key: &str, version: &Version, violations: &mut Vec<Violation>) {
        let change = Change {
            key: key.to_owned(),
            uid: version.uid.clone(),
            value: None,
            writer: None,
            is_observed: true,
        };
        self.insert(version.revision, change, violations);
    }

    fn insert(&mut self, revision: u64, change: Change, violations: &mut Vec<Violation>) {
        let Some(known) = self.changes.get_mut(&revision) else {
            self.changes.insert(revision, change);
            return;
        };
        if (&known.key, &known.value, &known.uid) != (&change.key, &change.value, &change.uid) {
            let text = format!(
                "revision {revision} is both {} = {:?} and {} = {:?}",
                known.key, known.value, change.key, change.value
            );
            violations.push(Violation::new(ViolationKind::Contradiction, text));
        }
        known.is_observed |= change.is_observed;
    }

    /// A value that was read must have been written to this key by an operation that did not fail.
    fn check_source(
        &self,
        key: &str,
        version: &Version,
        writer: Option<usize>,
        violations: &mut Vec<Violation>,
    ) {
        let Some(index) = writer else {
            let text = format!("{key} has {version}, which nothing wrote");
            return violations.push(Violation::new(ViolationKind::DirtyRead, text));
        };
        let operation = &self.history.operations[index];
        if operation.key == key && matches!(operation.outcome, Outcome::Written(_) | Outcome::Unknown) {
            return;
        }
        let text = format!("{key} has {version}, but its write has failed: {operation}");
        violations.push(Violation::new(ViolationKind::DirtyRead, text));
    }

    fn index(&mut self) {
        for (revision, change) in &self.changes {
            let revisions = self.revisions.entry(change.key.clone()).or_default();
            revisions.push(*revision);
        }
    }

    /// An acknowledged delete names the uid of the object that it deleted.
    fn find_deleting_operations(&mut self) {
        let operations = self.history.operations.iter().enumerate();
        let deletes: HashMap<&str, usize> = operations
            .filter_map(|(index, operation)| match &operation.outcome {
                Outcome::Deleted { uid } => Some((uid.as_str(), index)),
                _ => None,
            })
            .collect();
        for change in self.changes.values_mut().filter(|change| change.value.is_none()) {
            change.writer = deletes.get(change.uid.as_str()).copied();
        }
    }

    /// Whether the watches together cover all revisions from the start to the last known change.
    fn is_covered(&self) -> bool {
        let mut ranges: Vec<(u64, u64)> = self
            .history
            .watches
            .iter()
            .map(|watch| (watch.start, watch.reached()))
            .collect();
        ranges.sort_unstable();
        let mut reached = self.history.start;
        for (start, end) in ranges {
            if start > reached {
                break;
            }
            reached = reached.max(end);
        }
        let last = self.changes.keys().next_back().copied().unwrap_or(0);
        !self.history.watches.is_empty() && reached >= last
    }

    /// The newest change of a key up to a revision.
    pub(crate) fn change_at(&self, key: &str, revision: u64) -> Option<(u64, &Change)> {
        let revisions = self.revisions_of(key);
        let end = revisions.partition_point(|known| *known <= revision);
        let newest = *revisions[..end].last()?;
        Some((newest, &self.changes[&newest]))
    }

    /// The next change of a key after a revision.
    pub(crate) fn change_after(&self, key: &str, revision: u64) -> Option<(u64, &Change)> {
        let revisions = self.revisions_of(key);
        let next = *revisions.get(revisions.partition_point(|known| *known <= revision))?;
        Some((next, &self.changes[&next]))
    }

    /// The first position from this one on at which the condition holds for the key's revision; `None` for a key that does
    /// not exist.
    pub(crate) fn first_position(
        &self,
        key: &str,
        from: u64,
        condition: impl Fn(Option<u64>) -> bool,
    ) -> Option<u64> {
        let revision_at = |position| {
            let (revision, change) = self.change_at(key, position)?;
            change.value.is_some().then_some(revision)
        };
        let mut position = from;
        loop {
            if condition(revision_at(position)) {
                return Some(position);
            }
            position = self.change_after(key, position)?.0;
        }
    }

    /// The changes after one revision up to another.
    pub(crate) fn changes_between(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, &Change)> {
        let from = (Excluded(start), Unbounded);
        let changes = self
            .changes
            .range(from)
            .map(|(revision, change)| (*revision, change));
        changes.take_while(move |(revision, _)| *revision <= end)
    }

    /// The revision at which a value was written, if anything shows it.
    pub(crate) fn revision_of_value(&self, value: &str) -> Option<u64> {
        self.revision_of_value.get(value).copied()
    }

    /// The revision at which the object with this uid was deleted.
    pub(crate) fn revision_of_deletion(&self, key: &str, uid: &str) -> Option<u64> {
        let revisions = self.revisions_of(key).iter().copied();
        let mut deletions = revisions.filter(|revision| {
            let change = &self.changes[revision];
            change.value.is_none() && change.uid == uid
        });
        deletions.next()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &String> {
        self.revisions.keys()
    }

    /// The text for an operation of the history.
    pub(crate) fn describe(&self, index: usize) -> String {
        self.history.operations[index].to_string()
    }

    /// The text for a change: the operation that made it, or the change alone.
    pub(crate) fn describe_change(&self, revision: u64) -> String {
        let Some(change) = self.changes.get(&revision) else {
            return format!("revision {revision}");
        };
        match change.writer {
            Some(index) => format!("revision {revision} by the {}", self.describe(index)),
            None => format!("revision {revision} of {}", change.key),
        }
    }

    /// The violation that a response lacks a change: a lost write if nothing but the write's own response shows it.
    pub(crate) fn missing_change(&self, revision: u64, otherwise: ViolationKind) -> ViolationKind {
        match self.changes.get(&revision) {
            Some(change) if !change.is_observed => ViolationKind::LostWrite,
            _ => otherwise,
        }
    }

    fn revisions_of(&self, key: &str) -> &[u64] {
        self.revisions.get(key).map(Vec::as_slice).unwrap_or_default()
    }
}
