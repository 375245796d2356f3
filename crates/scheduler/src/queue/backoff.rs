//! [`BackoffConfig`]: how long a pod waits after a failed attempt.

use std::time::Duration;

use jiff::Timestamp;

/// The first wait, which doubles with each attempt, and the longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackoffConfig {
    pub initial: Duration,
    pub max: Duration,
}

impl Default for BackoffConfig {
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            max: Duration::from_secs(10),
        }
    }
}

impl BackoffConfig {
    /// The wait after so many failed attempts.
    pub(super) fn duration(self, attempts: u32) -> Duration {
        let doublings = attempts.saturating_sub(1).min(16);
        self.initial.saturating_mul(1 << doublings).min(self.max)
    }
}

pub(super) fn later(now: Timestamp, by: Duration) -> Timestamp {
    now.saturating_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_its_bound() {
        let config = BackoffConfig::default();
        let waits: Vec<u64> = (1..=6)
            .map(|attempts| config.duration(attempts).as_secs())
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
    }
}
