//! The `Retry-After` of rejected requests: it doubles while a level rejects many, and falls by one second again.
//!
//! The rules are those of Kubernetes' `apiserver/pkg/util/flowcontrol/dropped_requests_tracker.go`.

use std::collections::VecDeque;

const MAX_SECONDS: i64 = 32;

/// The history of a level's rejected requests.
#[derive(Debug)]
pub(crate) struct RetryAfter {
    seconds: i64,
    /// When `seconds` was raised last.
    raised_at: i64,
    /// The second that is being counted.
    current: RejectedIn,
    /// Earlier seconds, the oldest first.
    history: VecDeque<RejectedIn>,
}

/// The number of requests rejected in one second.
#[derive(Debug, Clone, Copy, Default)]
struct RejectedIn {
    second: i64,
    requests: i64,
}

impl Default for RetryAfter {
    fn default() -> Self {
        Self {
            seconds: 1,
            raised_at: 0,
            current: RejectedIn::default(),
            history: VecDeque::new(),
        }
    }
}

impl RetryAfter {
    /// Counts a request that is rejected in this second since 1970. Returns after how many seconds the client may try
    /// again.
    pub(crate) fn record(&mut self, second: i64) -> u64 {
        if self.current.second == second {
            self.current.requests += 1;
        } else {
            self.history.push_back(self.current);
            let oldest = self.current.second - (2 * self.seconds).min(MAX_SECONDS);
            while self.history.front().is_some_and(|entry| entry.second < oldest) {
                self.history.pop_front();
            }
            self.current = RejectedIn { second, requests: 1 };
            self.update(second);
        }
        self.seconds()
    }

    /// After how many seconds the client of a rejected request may try again.
    pub(crate) fn seconds(&self) -> u64 {
        self.seconds.unsigned_abs()
    }

    fn update(&mut self, second: i64) {
        let recent = |entry: &&RejectedIn| second - entry.second <= self.seconds && entry.second < second;
        let rejected: i64 = self
            .history
            .iter()
            .filter(recent)
            .map(|entry| entry.requests)
            .sum();
        if second - self.raised_at >= self.seconds && rejected >= 3 * self.seconds {
            self.seconds = (2 * self.seconds).min(MAX_SECONDS);
            self.raised_at = second;
        } else if rejected < self.seconds && self.seconds > 1 {
            self.seconds -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a level responds that rejects so many requests in each second.
    fn seconds(rejected: &[usize]) -> Vec<u64> {
        let mut retry_after = RetryAfter::default();
        let mut last = |second: usize, requests: usize| {
            let second = 1000 + i64::try_from(second).unwrap();
            (0..requests).map(|_| retry_after.record(second)).last()
        };
        let all = rejected.iter().enumerate();
        all.filter_map(|(second, requests)| last(second, *requests))
            .collect()
    }

    #[test]
    fn many_rejected_requests_double_the_wait() {
        assert_eq!(seconds(&[1, 1, 1]), [1, 1, 1]);
        assert_eq!(seconds(&[10, 10, 10, 10, 10, 10]), [1, 2, 2, 4, 4, 4]);
        assert_eq!(seconds(&[1000; 100]).last(), Some(&32));
    }

    #[test]
    fn few_rejected_requests_shorten_it() {
        assert_eq!(
            seconds(&[10, 10, 10, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1]),
            [1, 2, 2, 4, 3, 2]
        );
    }
}
