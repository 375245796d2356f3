//! [`Delays`]: items to be added later.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;

use super::ready::Priority;
use crate::reconcile::Item;

/// Delayed items by due time. An item is delayed once; delaying it again can only make it due earlier and raise its
/// priority.
#[derive(Debug)]
pub(crate) struct Delays<K> {
    /// By due time, then by order of arrival.
    due: BTreeMap<(Timestamp, u64), K>,
    /// The key of each item in `due`, and its priority; the two maps agree.
    entries: HashMap<K, DelayedItem>,
    arrivals: u64,
}

#[derive(Debug, Clone, Copy)]
struct DelayedItem {
    due_at: (Timestamp, u64),
    priority: Priority,
}

// === impl Delays ===

impl<K: Item> Delays<K> {
    pub(crate) fn new() -> Self {
        Self {
            due: BTreeMap::new(),
            entries: HashMap::new(),
            arrivals: 0,
        }
    }

    /// Delays an item; true if the next item is now due earlier than before.
    pub(crate) fn insert(&mut self, item: K, at: Timestamp, mut priority: Priority) -> bool {
        if let Some(waiting) = self.entries.get_mut(&item) {
            waiting.priority = waiting.priority.max(priority);
            if waiting.due_at.0 <= at {
                return false;
            }
            priority = waiting.priority;
            self.due.remove(&waiting.due_at);
        }
        self.arrivals += 1;
        let position = (at, self.arrivals);
        let earlier = self.next().is_none_or(|next| at < next);
        self.entries.insert(
            item.clone(),
            DelayedItem {
                due_at: position,
                priority,
            },
        );
        self.due.insert(position, item);
        earlier
    }

    /// The next item that is due by now, and its priority.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<(K, Priority)> {
        let first = self.due.first_entry()?;
        if first.key().0 > now {
            return None;
        }
        let item = first.remove();
        let waiting = self.entries.remove(&item);
        let waiting = waiting.expect("an item that is due has an entry");
        Some((item, waiting.priority))
    }

    /// When the next item is due.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    pub(crate) fn len(&self) -> usize {
        self.due.len()
    }

    pub(crate) fn clear(&mut self) {
        self.due.clear();
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[track_caller]
    fn check(waits: &[(&'static str, i64)], now: i64, expected: &[&str]) {
        let mut delays = Delays::new();
        for (item, second) in waits {
            delays.insert(*item, at(*second), Priority::default());
        }
        let mut due = Vec::new();
        while let Some((item, _)) = delays.pop(at(now)) {
            due.push(item);
        }
        assert_eq!(due, expected);
        assert_eq!(delays.due.len(), delays.entries.len());
    }

    #[test]
    fn items_come_when_they_are_due_and_not_before() {
        check(&[("a", 3), ("b", 1), ("c", 5)], 4, &["b", "a"]);
        check(&[("a", 1), ("b", 1)], 1, &["a", "b"]);
        check(&[("a", 2)], 1, &[]);
    }

    #[test]
    fn an_item_waits_once_and_only_ever_moves_forward() {
        check(&[("a", 5), ("a", 2)], 3, &["a"]);
        check(&[("a", 2), ("a", 5)], 9, &["a"]);
    }

    #[test]
    fn the_highest_priority_counts() {
        let mut delays = Delays::new();
        for (second, priority) in [(5, -100), (9, 3), (2, 0)] {
            delays.insert("a", at(second), Priority(priority));
        }
        assert_eq!(delays.pop(at(2)), Some(("a", Priority(3))));
    }
}
