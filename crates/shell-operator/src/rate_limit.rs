//! Token bucket: limits how often a hook runs.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_api::Clock;

use crate::config::Settings;

/// The tokens of one hook. Each run takes one; a full bucket has the burst.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    settings: Option<Settings>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    tokens: f64,
    updated: Timestamp,
}

impl TokenBucket {
    /// A full bucket; without settings, runs are not limited.
    pub(crate) fn new(settings: Option<Settings>, clock: Arc<dyn Clock>) -> Self {
        let settings = settings.filter(|settings| !settings.execution_min_interval.is_zero());
        let state = State {
            tokens: settings.map_or(1.0, |settings| f64::from(settings.execution_burst)),
            updated: clock.now(),
        };
        Self {
            settings,
            clock,
            state: Mutex::new(state),
        }
    }

    /// Waits for a token and takes it.
    pub(crate) async fn wait(&self) {
        let delay = self.take(self.clock.now());
        if !delay.is_zero() {
            self.clock.sleep(delay).await;
        }
    }

    /// Takes a token, which may be one of the future: then this is the time until it is there.
    fn take(&self, now: Timestamp) -> Duration {
        let Some(settings) = self.settings else {
            return Duration::ZERO;
        };
        let interval = settings.execution_min_interval.as_secs_f64();
        let mut state = self.state.lock();
        let passed = now.duration_since(state.updated).as_secs_f64().max(0.0);
        let filled = state.tokens + passed / interval;
        state.tokens = filled.min(f64::from(settings.execution_burst)) - 1.0;
        state.updated = now;
        Duration::from_secs_f64((-state.tokens).max(0.0) * interval)
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::SystemClock;

    use super::*;

    #[tokio::test]
    async fn a_burst_is_followed_by_one_run_for_each_interval() {
        let settings = Settings {
            execution_min_interval: Duration::from_secs(3),
            execution_burst: 2,
        };
        let bucket = TokenBucket::new(Some(settings), Arc::new(SystemClock::new()));
        let start = bucket.state.lock().updated;
        let take_after = |seconds: i64| {
            let now = start + jiff::SignedDuration::from_secs(seconds);
            bucket.take(now).as_secs_f64().round()
        };
        assert_eq!(
            [take_after(0), take_after(0), take_after(0), take_after(3)],
            [0.0, 0.0, 3.0, 3.0]
        );
        assert_eq!(take_after(60), 0.0);
    }

    #[tokio::test]
    async fn without_settings_nothing_waits() {
        let bucket = TokenBucket::new(None, Arc::new(SystemClock::new()));
        let now = bucket.clock.now();
        assert!((0..100).all(|_| bucket.take(now).is_zero()));
    }
}
