//! How long a failed item waits: longer with each failure of its own, and longer when everything fails.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::reconcile::Item;

/// How retries are slowed down. The default is client-go's for controllers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// The wait after the first failure of an item; it doubles with each further one.
    pub base: Duration,
    /// No item waits longer.
    pub cap: Duration,
    /// Over all items together, if at all.
    pub overall: Option<Rate>,
}

/// So many in a second, and so many at once after a quiet time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// So many in a second.
    pub per_second: f64,
    /// So many at once after a quiet time.
    pub burst: f64,
}

/// What the failures so far mean for the next.
#[derive(Debug)]
pub(crate) struct Backoff<K> {
    limits: Limits,
    failures: HashMap<K, u32>,
    /// How many retries may go at once, counted at `counted_at`. Negative: promised to those who already wait.
    tokens: f64,
    counted_at: Option<Timestamp>,
}

// === impl Limits ===

impl Limits {
    /// Only by the failures of the item itself.
    pub const PER_ITEM: Self = Self {
        base: Duration::from_millis(5),
        cap: Duration::from_secs(1000),
        overall: None,
    };
}

impl Default for Limits {
    fn default() -> Self {
        let overall = Rate {
            per_second: 10.0,
            burst: 100.0,
        };
        Self {
            overall: Some(overall),
            ..Self::PER_ITEM
        }
    }
}

// === impl Backoff ===

impl<K: Item> Backoff<K> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            failures: HashMap::new(),
            tokens: limits.overall.map_or(0.0, |rate| rate.burst),
            counted_at: None,
        }
    }

    /// Counts one more failure of the item: how long it has to wait.
    pub(crate) fn fail(&mut self, item: &K, now: Timestamp) -> Duration {
        let failures = self.failures.entry(item.clone()).or_insert(0);
        let factor = 2u32.checked_pow(*failures).unwrap_or(u32::MAX);
        *failures = failures.saturating_add(1);
        let own = self.limits.base.saturating_mul(factor).min(self.limits.cap);
        own.max(self.overall(now))
    }

    pub(crate) fn forget(&mut self, item: &K) {
        self.failures.remove(item);
    }

    pub(crate) fn failures(&self, item: &K) -> u32 {
        self.failures.get(item).copied().unwrap_or(0)
    }

    /// Takes a token: how long until it is there.
    fn overall(&mut self, now: Timestamp) -> Duration {
        let Some(rate) = self.limits.overall else {
            return Duration::ZERO;
        };
        let passed = self
            .counted_at
            .map_or(0.0, |at| now.duration_since(at).as_secs_f64());
        self.counted_at = Some(now);
        self.tokens = (self.tokens + passed.max(0.0) * rate.per_second).min(rate.burst) - 1.0;
        Duration::from_secs_f64((-self.tokens).max(0.0) / rate.per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn wq6_each_failure_doubles_the_wait_up_to_the_cap() {
        let mut backoff = Backoff::new(Limits::PER_ITEM);
        let waits: Vec<_> = (0..20).map(|_| backoff.fail(&"a", START).as_millis()).collect();
        assert_eq!(waits[..5], [5, 10, 20, 40, 80]);
        assert_eq!(waits[15], 163_840);
        assert_eq!(waits[18..], [1_000_000, 1_000_000]);
        assert_eq!(backoff.fail(&"b", START).as_millis(), 5);
    }

    #[test]
    fn wq6_success_forgets_the_failures() {
        let mut backoff = Backoff::new(Limits::PER_ITEM);
        for _ in 0..3 {
            backoff.fail(&"a", START);
        }
        assert_eq!(backoff.failures(&"a"), 3);
        backoff.forget(&"a");
        assert_eq!(backoff.failures(&"a"), 0);
        assert_eq!(backoff.fail(&"a", START).as_millis(), 5);
    }

    #[test]
    fn a_thousand_failures_do_not_overflow() {
        let mut backoff = Backoff::new(Limits::PER_ITEM);
        for _ in 0..1000 {
            backoff.fail(&"a", START);
        }
        assert_eq!(backoff.fail(&"a", START), Limits::PER_ITEM.cap);
    }

    #[test]
    fn after_the_burst_ten_go_in_a_second() {
        let mut backoff = Backoff::new(Limits::default());
        let waits: Vec<_> = (0..110).map(|i| backoff.fail(&i, START).as_millis()).collect();
        assert_eq!(waits[99], 5);
        assert_eq!(waits[100], 100);
        assert_eq!(waits[109], 1000);
        let later = START + Duration::from_secs(2);
        assert_eq!(backoff.fail(&500, later).as_millis(), 5);
    }
}
