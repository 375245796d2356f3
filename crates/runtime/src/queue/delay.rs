//! Items that wait for their time.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;

use super::order::Priority;
use crate::reconcile::Item;

/// What waits, by when it is due. An item waits once; asking again can only bring its time forward and raise its
/// priority.
#[derive(Debug)]
pub(crate) struct Delays<K> {
    /// Ties go by arrival.
    due: BTreeMap<(Timestamp, u64), K>,
    /// Where each item stands in `due`, and how urgent it will be; the two agree.
    places: HashMap<K, Waiting>,
    arrivals: u64,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    place: (Timestamp, u64),
    priority: Priority,
}

// === impl Delays ===

impl<K: Item> Delays<K> {
    pub(crate) fn new() -> Self {
        Self {
            due: BTreeMap::new(),
            places: HashMap::new(),
            arrivals: 0,
        }
    }

    /// Whether the next item is now due earlier than before.
    pub(crate) fn insert(&mut self, item: K, at: Timestamp, mut priority: Priority) -> bool {
        if let Some(waiting) = self.places.get_mut(&item) {
            waiting.priority = waiting.priority.max(priority);
            if waiting.place.0 <= at {
                return false;
            }
            priority = waiting.priority;
            self.due.remove(&waiting.place);
        }
        self.arrivals += 1;
        let place = (at, self.arrivals);
        let earlier = self.next().is_none_or(|next| at < next);
        self.places.insert(item.clone(), Waiting { place, priority });
        self.due.insert(place, item);
        earlier
    }

    /// The next item that is due by now, and how urgent it is.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<(K, Priority)> {
        let first = self.due.first_entry()?;
        if first.key().0 > now {
            return None;
        }
        let item = first.remove();
        let waiting = self.places.remove(&item);
        let waiting = waiting.expect("an item that is due has its place");
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
        self.places.clear();
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
        assert_eq!(delays.due.len(), delays.places.len());
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
    fn the_highest_priority_asked_for_counts() {
        let mut delays = Delays::new();
        for (second, priority) in [(5, -100), (9, 3), (2, 0)] {
            delays.insert("a", at(second), Priority(priority));
        }
        assert_eq!(delays.pop(at(2)), Some(("a", Priority(3))));
    }
}
