//! [`InFlightEvents`]: the cluster events that happened while pods were being scheduled.
//!
//! A cycle plans on the state at its start. An event during the cycle may be the very one that makes the pod schedulable;
//! when the pod comes back as unschedulable, the events since its start are looked at again, so that none is lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use setpoint_api::Key;

use crate::framework::{ClusterEvent, EventChange, EventLabel};

/// The number of events that are kept; the oldest is dropped. A pod may wait for a permission for minutes.
const MAX_EVENTS: usize = 1 << 14;

/// Events since the start of the oldest cycle in flight.
#[derive(Debug, Default)]
pub(super) struct InFlightEvents {
    /// The number of the event after the last one, at the start of each pod in flight.
    starts: BTreeSet<(u64, Key)>,
    /// The events from the oldest start on, as far as they are kept.
    events: VecDeque<(ClusterEvent, EventChange)>,
    /// The number of the first event in `events`.
    first: u64,
    /// The number of events in `events` by name, for the metrics.
    counts: BTreeMap<EventLabel, usize>,
}

impl InFlightEvents {
    /// Marks the start of a cycle.
    pub(super) fn start(&mut self, key: Key) -> u64 {
        let now = self.first + self.events.len() as u64;
        self.starts.insert((now, key));
        now
    }

    /// Marks the end of a cycle that began at `start`; drops the events that no other one needs.
    pub(super) fn end(&mut self, start: u64, key: Key) {
        self.starts.remove(&(start, key));
        let needed = self.starts.first().map_or(u64::MAX, |(start, _)| *start);
        while self.first < needed && self.drop_first() {}
    }

    /// Drops the oldest event. Returns whether there was one.
    fn drop_first(&mut self) -> bool {
        let Some((event, _)) = self.events.pop_front() else {
            return false;
        };
        self.first += 1;
        if let Some(count) = self.counts.get_mut(&event.label()) {
            *count -= 1;
        }
        true
    }

    /// The events since a start; `None` if some of them are no longer known, so that any event may have happened.
    pub(super) fn since(&self, start: u64) -> Option<impl Iterator<Item = &(ClusterEvent, EventChange)>> {
        let skipped = usize::try_from(start.checked_sub(self.first)?).ok()?;
        Some(self.events.iter().skip(skipped))
    }

    /// Records an event, if any cycle is in flight.
    pub(super) fn record(&mut self, event: ClusterEvent, change: &EventChange) {
        if self.starts.is_empty() {
            self.first += 1;
            return;
        }
        if self.events.len() >= MAX_EVENTS {
            self.drop_first();
        }
        *self.counts.entry(event.label()).or_default() += 1;
        self.events.push_back((event, change.clone()));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// The number of events that are kept, by name.
    pub(super) fn counts(&self) -> &BTreeMap<EventLabel, usize> {
        &self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framework::{ActionType, EventResource};

    fn record(events: &mut InFlightEvents) {
        let event = ClusterEvent::new(EventResource::Node, ActionType::ADD);
        events.record(event, &EventChange::Object { old: None, new: None });
    }

    fn count(events: &InFlightEvents, start: u64) -> Option<usize> {
        events.since(start).map(Iterator::count)
    }

    #[test]
    fn events_are_kept_from_the_oldest_start_on() {
        let mut events = InFlightEvents::default();
        let key = |name: &str| Key::new("", name);
        record(&mut events);
        let a = events.start(key("a"));
        record(&mut events);
        let b = events.start(key("b"));
        record(&mut events);
        assert_eq!((count(&events, a), count(&events, b)), (Some(2), Some(1)));
        events.end(a, key("a"));
        assert_eq!((events.len(), count(&events, b)), (1, Some(1)));
        events.end(b, key("b"));
        assert_eq!(events.len(), 0);
    }

    #[test]
    fn events_that_are_no_longer_kept_are_not_known() {
        let mut events = InFlightEvents::default();
        let start = events.start(Key::new("", "a"));
        for _ in 0..MAX_EVENTS {
            record(&mut events);
        }
        assert_eq!(count(&events, start), Some(MAX_EVENTS));
        record(&mut events);
        assert_eq!((events.len(), count(&events, start)), (MAX_EVENTS, None));
        events.end(start, Key::new("", "a"));
        let start = events.start(Key::new("", "b"));
        events.end(start, Key::new("", "b"));
        assert_eq!(count(&events, start), Some(0));
        record(&mut events);
        assert_eq!(count(&events, start), None);
    }
}
