//! [`ReadyQueue`]: the items that are ready, by priority with aging.
//!
//! An item ranks by the time it became ready, shifted by its priority: each unit of priority is worth some waiting time. So
//! items of priority 0 that arrive within the next ten seconds pass an item of priority -100; after that it has aged enough
//! to be ahead of newer ones. No item starves, and no rank ever has to be recomputed.
//!
//! With lanes (for example one for each namespace) items are ordered within each lane, and the lanes take turns: a lane
//! with a thousand items delays another lane by one item only.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The priority of an item. Higher comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Priority(pub i32);

/// Maps an item to its lane.
pub type LaneOf<K> = Arc<dyn Fn(&K) -> Arc<str> + Send + Sync>;

/// The position of an item in the ready queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Position {
    lane: Arc<str>,
    rank: Rank,
}

/// The shifted time, then the order of arrival.
type Rank = (Timestamp, u64);

pub(crate) struct ReadyQueue<K> {
    /// No lane is empty.
    lanes: HashMap<Arc<str>, BTreeMap<Rank, K>>,
    /// Every lane once, in the order of their turns.
    turns: VecDeque<Arc<str>>,
    lane_of: Option<LaneOf<K>>,
    only_lane: Arc<str>,
    /// The waiting time that makes up for one unit of priority.
    wait_per_priority: Duration,
    arrivals: u64,
    len: usize,
}

// === impl Priority ===

impl Priority {
    /// For an object that has changed.
    pub const DEFAULT: Self = Self(0);
    /// For objects of the initial list and of a resync, which can wait a little (controller-runtime's `LowPriority`).
    pub const LOW: Self = Self(-100);
}

// === impl Order ===

impl<K> ReadyQueue<K> {
    pub(crate) fn new(wait_per_priority: Duration, lane_of: Option<LaneOf<K>>) -> Self {
        Self {
            lanes: HashMap::new(),
            turns: VecDeque::new(),
            lane_of,
            only_lane: Arc::from(""),
            wait_per_priority,
            arrivals: 0,
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push(&mut self, item: K, priority: Priority, now: Timestamp) -> Position {
        let lane = match &self.lane_of {
            Some(lane_of) => lane_of(&item),
            None => self.only_lane.clone(),
        };
        self.arrivals += 1;
        let rank = (self.ranked_time(now, priority), self.arrivals);
        let items = self.lanes.entry(lane.clone()).or_default();
        if items.is_empty() {
            self.turns.push_back(lane.clone());
        }
        items.insert(rank, item);
        self.len += 1;
        Position { lane, rank }
    }

    /// The first item of the lane whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<K> {
        let lane = self.turns.pop_front()?;
        let items = self.lanes.get_mut(&lane).expect("a lane with a turn has items");
        let (_, item) = items.pop_first().expect("no lane is empty");
        if items.is_empty() {
            self.lanes.remove(&lane);
        } else {
            self.turns.push_back(lane);
        }
        self.len -= 1;
        Some(item)
    }

    /// Raises the priority of an item, as if it had just arrived with it.
    pub(crate) fn move_to(&mut self, position: &Position, priority: Priority, now: Timestamp) -> Position {
        let rank = (self.ranked_time(now, priority), self.arrivals + 1);
        // An item is never moved back.
        if rank.0 >= position.rank.0 {
            return position.clone();
        }
        self.arrivals += 1;
        let items = self
            .lanes
            .get_mut(&position.lane)
            .expect("a lane with an item is there");
        let item = items
            .remove(&position.rank)
            .expect("a position is that of an item");
        items.insert(rank, item);
        Position {
            lane: position.lane.clone(),
            rank,
        }
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &K> {
        self.lanes.values().flat_map(BTreeMap::values)
    }

    fn ranked_time(&self, now: Timestamp, priority: Priority) -> Timestamp {
        let wait_per_priority =
            SignedDuration::try_from(self.wait_per_priority).unwrap_or(SignedDuration::MAX);
        let by = wait_per_priority.saturating_mul(priority.0);
        now.saturating_sub(by).unwrap_or(match priority.0 > 0 {
            true => Timestamp::MIN,
            false => Timestamp::MAX,
        })
    }
}

impl<K: fmt::Debug> fmt::Debug for ReadyQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.lanes.iter().map(|(lane, items)| (lane, items.len())))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1000 + second).unwrap()
    }

    fn by_namespace() -> LaneOf<&'static str> {
        Arc::new(|item: &&str| Arc::from(item.split('/').next().unwrap_or_default()))
    }

    /// The order of items added at these seconds with these priorities; a unit of priority is worth a tenth of a second.
    #[track_caller]
    fn check(lane_of: Option<LaneOf<&'static str>>, items: &[(&'static str, i64, i32)], expected: &str) {
        let mut queue = ReadyQueue::new(Duration::from_millis(100), lane_of);
        for (item, second, priority) in items {
            queue.push(*item, Priority(*priority), at(*second));
        }
        assert_eq!(queue.len(), items.len());
        let out: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(out.join(" "), expected);
    }

    #[test]
    fn items_of_one_priority_come_in_the_order_of_their_arrival() {
        check(None, &[("b", 0, 0), ("a", 0, 0), ("c", 1, 0)], "b a c");
    }

    #[test]
    fn a_change_passes_low_priority_items() {
        check(
            None,
            &[("start", 0, -100), ("more", 0, -100), ("change", 5, 0)],
            "change start more",
        );
        check(None, &[("a", 0, 0), ("urgent", 1, 50)], "urgent a");
    }

    #[test]
    fn an_item_that_has_aged_enough_is_not_passed() {
        check(
            None,
            &[("start", 0, -100), ("soon", 9, 0), ("late", 11, 0)],
            "soon start late",
        );
    }

    #[test]
    fn lanes_take_turns() {
        let items = [
            ("a/1", 0, 0),
            ("a/2", 0, 0),
            ("a/3", 0, 0),
            ("b/1", 1, 0),
            ("c/1", 1, 0),
        ];
        check(Some(by_namespace()), &items, "a/1 b/1 c/1 a/2 a/3");
    }

    #[test]
    fn within_a_lane_priority_counts() {
        let items = [("a/1", 0, -100), ("b/1", 0, 0), ("a/2", 1, 0)];
        check(Some(by_namespace()), &items, "a/2 b/1 a/1");
    }

    #[test]
    fn the_extremes_of_priority_are_in_range() {
        check(
            None,
            &[("last", 0, i32::MIN), ("first", 0, i32::MAX), ("a", 0, 0)],
            "first a last",
        );
    }

    #[test]
    fn an_item_can_move_forward_and_never_back() {
        let mut queue = ReadyQueue::new(Duration::from_millis(100), None);
        let low = queue.push("low", Priority(-100), at(0));
        queue.push("mid", Priority(0), at(1));
        let raised = queue.move_to(&low, Priority(0), at(2));
        assert_ne!(low, raised);
        assert_eq!(queue.move_to(&raised, Priority(-100), at(2)), raised);
        queue.push("late", Priority(0), at(3));
        let out: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(out, ["mid", "low", "late"]);
    }
}
