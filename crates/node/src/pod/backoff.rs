//! [`Backoff`]: the growing delay between attempts to start a container or to pull an image: pure.

use std::time::Duration;

use jiff::Timestamp;

/// The delay after the first failure; it doubles with each further one.
const INITIAL: Duration = Duration::from_secs(10);
/// The longest delay. An attempt that held for twice as long starts over.
const MAX: Duration = Duration::from_secs(300);

/// The back-off of one container or image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Backoff {
    /// The current delay.
    pub(crate) delay: Duration,
    /// When the last attempt was made.
    updated: Timestamp,
}

impl Backoff {
    /// The back-off after an attempt at `now` that follows a failure at `failed`.
    pub(crate) fn after(previous: Option<Self>, failed: Timestamp, now: Timestamp) -> Self {
        let delay = match previous {
            Some(previous) if !previous.is_expired(failed) => (previous.delay * 2).min(MAX),
            _ => INITIAL,
        };
        Self { delay, updated: now }
    }

    /// The back-off of a container whose earlier attempts were made by another agent.
    pub(crate) fn recovered(attempt: u32, updated: Timestamp) -> Option<Self> {
        let doublings = attempt.checked_sub(1)?.min(5);
        Some(Self {
            delay: (INITIAL * (1 << doublings)).min(MAX),
            updated,
        })
    }

    /// Until when the next attempt waits, after a failure at `failed`.
    pub(crate) fn waits_until(&self, failed: Timestamp, now: Timestamp) -> Option<Timestamp> {
        if self.is_expired(failed) {
            return None;
        }
        let until = failed.saturating_add(self.delay).unwrap_or(Timestamp::MAX);
        (now < until).then_some(until)
    }

    fn is_expired(&self, failed: Timestamp) -> bool {
        let held = Duration::try_from(failed.duration_since(self.updated)).unwrap_or_default();
        held > MAX * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn the_delay_doubles_up_to_five_minutes() {
        let mut backoff = None;
        let mut delays = Vec::new();
        for second in 0..7 {
            let next = Backoff::after(backoff, at(second), at(second));
            delays.push(next.delay.as_secs());
            backoff = Some(next);
        }
        assert_eq!(delays, [10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(Backoff::recovered(4, at(0)).unwrap().delay.as_secs(), 80);
        assert_eq!(Backoff::recovered(0, at(0)), None);
    }

    #[test]
    fn a_failure_waits_for_the_delay_and_one_after_ten_good_minutes_does_not() {
        let backoff = Backoff::after(None, at(0), at(0));
        assert_eq!(backoff.waits_until(at(5), at(6)), Some(at(15)));
        assert_eq!(backoff.waits_until(at(5), at(15)), None);
        assert_eq!(backoff.waits_until(at(601), at(602)), None);
        assert_eq!(Backoff::after(Some(backoff), at(601), at(601)).delay, INITIAL);
    }
}
