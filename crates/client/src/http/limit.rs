//! A limit to how fast a client asks.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_api::Clock;

/// So many requests in a second, and so many at once after a quiet time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// So many in a second.
    pub per_second: f64,
    /// So many at once after a quiet time.
    pub burst: f64,
}

/// Gives out the right to ask.
#[derive(Debug)]
pub(crate) struct Bucket {
    rate: Rate,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// How many may ask at once, counted at `counted_at`. Negative: promised to those who wait.
    tokens: f64,
    counted_at: Timestamp,
}

impl Rate {
    /// What client-go has where nobody says otherwise.
    pub const CLIENT_GO: Self = Self {
        per_second: 5.0,
        burst: 10.0,
    };
}

impl Bucket {
    pub(crate) fn new(rate: Rate, clock: Arc<dyn Clock>) -> Self {
        let state = Mutex::new(State {
            tokens: rate.burst,
            counted_at: clock.now(),
        });
        Self { rate, clock, state }
    }

    /// Resolves when it is this request's turn, with how long it waited. Those who wait go in the order they came.
    pub(crate) async fn turn(&self) -> Duration {
        let wait = self.take(self.clock.now());
        if !wait.is_zero() {
            self.clock.sleep(wait).await;
        }
        wait
    }

    fn take(&self, now: Timestamp) -> Duration {
        let mut state = self.state.lock();
        let passed = now.duration_since(state.counted_at).as_secs_f64().max(0.0);
        state.counted_at = now;
        state.tokens = (state.tokens + passed * self.rate.per_second).min(self.rate.burst) - 1.0;
        Duration::from_secs_f64((-state.tokens).max(0.0) / self.rate.per_second)
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::SystemClock;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn after_the_burst_five_go_in_a_second() {
        let clock = Arc::new(SystemClock::new());
        let bucket = Bucket::new(Rate::CLIENT_GO, clock.clone());
        let start = clock.now();
        let mut at = Vec::new();
        for _ in 0..13 {
            bucket.turn().await;
            at.push(clock.now().duration_since(start).as_millis());
        }
        assert_eq!(at[9], 0);
        assert!(
            (200..210).contains(&at[10]) && (600..620).contains(&at[12]),
            "{at:?}"
        );
    }
}
