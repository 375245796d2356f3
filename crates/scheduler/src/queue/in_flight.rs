//! [`InFlightEvents`]: the cluster events that happened while pods were being scheduled.
//!
//! A cycle plans on the state at its start. An event during the cycle may be the very one that makes the pod schedulable;
//! when the pod comes back as unschedulable, the events since its start are looked at again, so that none is lost.

use std::collections::{BTreeSet, VecDeque};

use setpoint_api::Key;

use crate::framework::{ClusterEvent, EventChange};

/// Events since the start of the oldest cycle in flight.
#[derive(Debug, Default)]
pub(super) struct InFlightEvents {
    /// The number of the event after the last one, at the start of each pod in flight.
    starts: BTreeSet<(u64, Key)>,
    /// Exactly the events from the oldest start on.
    events: VecDeque<(ClusterEvent, EventChange)>,
    /// The number of the first event in `events`.
    first: u64,
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
        while self.first < needed && self.events.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// The events since a start.
    pub(super) fn since(&self, start: u64) -> impl Iterator<Item = &(ClusterEvent, EventChange)> {
        let skipped = usize::try_from(start.saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.events.iter().skip(skipped)
    }

    /// Records an event, if any cycle is in flight.
    pub(super) fn record(&mut self, event: ClusterEvent, change: &EventChange) {
        if !self.starts.is_empty() {
            self.events.push_back((event, change.clone()));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.events.len()
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

    #[test]
    fn events_are_kept_from_the_oldest_start_on() {
        let mut events = InFlightEvents::default();
        let key = |name: &str| Key::new("", name);
        record(&mut events);
        let a = events.start(key("a"));
        record(&mut events);
        let b = events.start(key("b"));
        record(&mut events);
        assert_eq!((events.since(a).count(), events.since(b).count()), (2, 1));
        events.end(a, key("a"));
        assert_eq!((events.len(), events.since(b).count()), (1, 1));
        events.end(b, key("b"));
        assert_eq!(events.len(), 0);
    }
}
