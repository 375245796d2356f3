//! [`RateLimiter`]: the delay of a retry, exponential for each item and limited by a token bucket for all items together.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::reconcile::Item;

/// Rate limits of retries. The default is client-go's `DefaultTypedControllerRateLimiter`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimits {
    /// The delay after the first failure of an item; it doubles with each further one.
    pub base_delay: Duration,
    /// The maximum delay of an item.
    pub max_delay: Duration,
    /// The rate for all items together, if limited.
    pub overall: Option<Rate>,
}

/// A token bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Tokens added in a second.
    pub per_second: f64,
    /// The maximum number of tokens.
    pub burst: f64,
}

/// The failure counts and the token bucket.
#[derive(Debug)]
pub(crate) struct RateLimiter<K> {
    limits: RateLimits,
    failures: HashMap<K, u32>,
    /// The available tokens at `counted_at`. Negative: reserved by retries that are already delayed.
    tokens: f64,
    counted_at: Option<Timestamp>,
}

// === impl Limits ===

impl RateLimits {
    /// Limits by the failures of the item only.
    pub const PER_ITEM: Self = Self {
        base_delay: Duration::from_millis(5),
        max_delay: Duration::from_secs(1000),
        overall: None,
    };
}

impl Default for RateLimits {
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

impl<K: Item> RateLimiter<K> {
    pub(crate) fn new(limits: RateLimits) -> Self {
        Self {
            limits,
            failures: HashMap::new(),
            tokens: limits.overall.map_or(0.0, |rate| rate.burst),
            counted_at: None,
        }
    }

    /// Counts a failure of the item and returns its delay.
    pub(crate) fn next_delay(&mut self, item: &K, now: Timestamp) -> Duration {
        let failures = self.failures.entry(item.clone()).or_insert(0);
        let factor = 2u32.checked_pow(*failures).unwrap_or(u32::MAX);
        *failures = failures.saturating_add(1);
        let own = self
            .limits
            .base_delay
            .saturating_mul(factor)
            .min(self.limits.max_delay);
        own.max(self.overall(now))
    }

    pub(crate) fn forget(&mut self, item: &K) {
        self.failures.remove(item);
    }

    pub(crate) fn failures(&self, item: &K) -> u32 {
        self.failures.get(item).copied().unwrap_or(0)
    }

    /// Reserves a token and returns the time until it is available.
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
        let mut limiter = RateLimiter::new(RateLimits::PER_ITEM);
        let waits: Vec<_> = (0..20)
            .map(|_| limiter.next_delay(&"a", START).as_millis())
            .collect();
        assert_eq!(waits[..5], [5, 10, 20, 40, 80]);
        assert_eq!(waits[15], 163_840);
        assert_eq!(waits[18..], [1_000_000, 1_000_000]);
        assert_eq!(limiter.next_delay(&"b", START).as_millis(), 5);
    }

    #[test]
    fn wq6_success_forgets_the_failures() {
        let mut limiter = RateLimiter::new(RateLimits::PER_ITEM);
        for _ in 0..3 {
            limiter.next_delay(&"a", START);
        }
        assert_eq!(limiter.failures(&"a"), 3);
        limiter.forget(&"a");
        assert_eq!(limiter.failures(&"a"), 0);
        assert_eq!(limiter.next_delay(&"a", START).as_millis(), 5);
    }

    #[test]
    fn a_thousand_failures_do_not_overflow() {
        let mut limiter = RateLimiter::new(RateLimits::PER_ITEM);
        for _ in 0..1000 {
            limiter.next_delay(&"a", START);
        }
        assert_eq!(limiter.next_delay(&"a", START), RateLimits::PER_ITEM.max_delay);
    }

    #[test]
    fn after_the_burst_ten_go_in_a_second() {
        let mut limiter = RateLimiter::new(RateLimits::default());
        let waits: Vec<_> = (0..110)
            .map(|i| limiter.next_delay(&i, START).as_millis())
            .collect();
        assert_eq!(waits[99], 5);
        assert_eq!(waits[100], 100);
        assert_eq!(waits[109], 1000);
        let later = START + Duration::from_secs(2);
        assert_eq!(limiter.next_delay(&500, later).as_millis(), 5);
    }
}
