//! Who is next: the order of the items that are ready.
//!
//! An item ranks by the moment it became ready, moved by its priority: each point of priority is worth a stretch of
//! waiting. So an item of priority -100 lets everything of priority 0 pass that comes within the next ten seconds, and
//! then it has aged enough to be ahead of newcomers. Nothing starves, and no rank ever has to be computed again.
//!
//! With lanes (by namespace, say) the order is one within each lane, and the lanes take turns: one lane with a
//! thousand items costs another with one item a single turn.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// How urgent an item is. Higher comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Priority(pub i32);

/// The lane that an item queues in.
pub type LaneOf<K> = Arc<dyn Fn(&K) -> Arc<str> + Send + Sync>;

/// Where an item stands among those that are ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    lane: Arc<str>,
    rank: Rank,
}

/// Ties go by arrival.
type Rank = (Timestamp, u64);

pub(crate) struct Order<K> {
    /// No lane is empty.
    lanes: HashMap<Arc<str>, BTreeMap<Rank, K>>,
    /// Every lane once, the next first.
    turns: VecDeque<Arc<str>>,
    lane_of: Option<LaneOf<K>>,
    only_lane: Arc<str>,
    /// What a point of priority is worth.
    point: Duration,
    arrivals: u64,
    len: usize,
}

// === impl Priority ===

impl Priority {
    /// What just changed.
    pub const CHANGE: Self = Self(0);
    /// What was there at the start, or is only looked at again: it can wait a little.
    pub const BACKGROUND: Self = Self(-100);
}

// === impl Order ===

impl<K> Order<K> {
    pub(crate) fn new(point: Duration, lane_of: Option<LaneOf<K>>) -> Self {
        Self {
            lanes: HashMap::new(),
            turns: VecDeque::new(),
            lane_of,
            only_lane: Arc::from(""),
            point,
            arrivals: 0,
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push(&mut self, item: K, priority: Priority, now: Timestamp) -> Place {
        let lane = match &self.lane_of {
            Some(lane_of) => lane_of(&item),
            None => self.only_lane.clone(),
        };
        self.arrivals += 1;
        let rank = (self.moved(now, priority), self.arrivals);
        let items = self.lanes.entry(lane.clone()).or_default();
        if items.is_empty() {
            self.turns.push_back(lane.clone());
        }
        items.insert(rank, item);
        self.len += 1;
        Place { lane, rank }
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

    /// Moves an item to where it stands with another priority, as if it had just come.
    pub(crate) fn move_to(&mut self, place: &Place, priority: Priority, now: Timestamp) -> Place {
        let rank = (self.moved(now, priority), self.arrivals + 1);
        // Whoever is called forward does not lose its place to that.
        if rank.0 >= place.rank.0 {
            return place.clone();
        }
        self.arrivals += 1;
        let items = self
            .lanes
            .get_mut(&place.lane)
            .expect("a lane with an item is there");
        let item = items.remove(&place.rank).expect("a place is that of an item");
        items.insert(rank, item);
        Place {
            lane: place.lane.clone(),
            rank,
        }
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &K> {
        self.lanes.values().flat_map(BTreeMap::values)
    }

    fn moved(&self, now: Timestamp, priority: Priority) -> Timestamp {
        let point = SignedDuration::try_from(self.point).unwrap_or(SignedDuration::MAX);
        let by = point.saturating_mul(priority.0);
        now.saturating_sub(by).unwrap_or(match priority.0 > 0 {
            true => Timestamp::MIN,
            false => Timestamp::MAX,
        })
    }
}

impl<K: fmt::Debug> fmt::Debug for Order<K> {
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

    /// In which order items come out that went in at these seconds with these priorities; a point is a tenth of a second.
    #[track_caller]
    fn check(lane_of: Option<LaneOf<&'static str>>, items: &[(&'static str, i64, i32)], expected: &str) {
        let mut order = Order::new(Duration::from_millis(100), lane_of);
        for (item, second, priority) in items {
            order.push(*item, Priority(*priority), at(*second));
        }
        assert_eq!(order.len(), items.len());
        let out: Vec<_> = std::iter::from_fn(|| order.pop()).collect();
        assert_eq!(out.join(" "), expected);
    }

    #[test]
    fn items_of_one_priority_come_in_the_order_of_their_arrival() {
        check(None, &[("b", 0, 0), ("a", 0, 0), ("c", 1, 0)], "b a c");
    }

    #[test]
    fn a_change_passes_what_was_there_at_the_start() {
        check(
            None,
            &[("start", 0, -100), ("more", 0, -100), ("change", 5, 0)],
            "change start more",
        );
        check(None, &[("a", 0, 0), ("urgent", 1, 50)], "urgent a");
    }

    #[test]
    fn what_has_waited_long_enough_is_passed_no_more() {
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
    fn an_item_can_be_called_forward_and_never_back() {
        let mut order = Order::new(Duration::from_millis(100), None);
        let low = order.push("low", Priority(-100), at(0));
        order.push("mid", Priority(0), at(1));
        let raised = order.move_to(&low, Priority(0), at(2));
        assert_ne!(low, raised);
        assert_eq!(order.move_to(&raised, Priority(-100), at(2)), raised);
        order.push("late", Priority(0), at(3));
        let out: Vec<_> = std::iter::from_fn(|| order.pop()).collect();
        assert_eq!(out, ["mid", "low", "late"]);
    }
}
