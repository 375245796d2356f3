//! Client-side rate limit: a token bucket.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_api::Clock;

/// A rate limit, as in client-go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit {
    /// Requests per second.
    pub qps: f64,
    /// Requests at once after an idle time.
    pub burst: f64,
}

/// Delays requests to keep to the limit.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    limit: RateLimit,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The tokens at `refilled_at`. Negative: owed to waiting requests.
    tokens: f64,
    refilled_at: Timestamp,
}

impl RateLimit {
    /// client-go's default.
    pub const CLIENT_GO: Self = Self {
        qps: 5.0,
        burst: 10.0,
    };
}

impl TokenBucket {
    pub(crate) fn new(rate: RateLimit, clock: Arc<dyn Clock>) -> Self {
        let state = Mutex::new(State {
            tokens: rate.burst,
            refilled_at: clock.now(),
        });
        Self {
            limit: rate,
            clock,
            state,
        }
    }

    /// Waits for a token; returns how long. Requests are served in order of arrival.
    pub(crate) async fn wait(&self) -> Duration {
        let wait = self.take(self.clock.now());
        if !wait.is_zero() {
            self.clock.sleep(wait).await;
        }
        wait
    }

    fn take(&self, now: Timestamp) -> Duration {
        let mut state = self.state.lock();
        let passed = now.duration_since(state.refilled_at).as_secs_f64().max(0.0);
        state.refilled_at = now;
        state.tokens = (state.tokens + passed * self.limit.qps).min(self.limit.burst) - 1.0;
        Duration::from_secs_f64((-state.tokens).max(0.0) / self.limit.qps)
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::SystemClock;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn after_the_burst_five_requests_pass_each_second() {
        let clock = Arc::new(SystemClock::new());
        let bucket = TokenBucket::new(RateLimit::CLIENT_GO, clock.clone());
        let start = clock.now();
        let mut at = Vec::new();
        for _ in 0..13 {
            bucket.wait().await;
            at.push(clock.now().duration_since(start).as_millis());
        }
        assert_eq!(at[9], 0);
        assert!(
            (200..210).contains(&at[10]) && (600..620).contains(&at[12]),
            "{at:?}"
        );
    }
}
