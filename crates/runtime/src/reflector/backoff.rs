//! Exponential backoff of a reflector's requests, with client-go's parameters.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use setpoint_api::Clock;

/// Waits that double up to a cap, each with jitter up to its double, and start over after a quiet time.
#[derive(Debug)]
pub(crate) struct Backoff {
    clock: Arc<dyn Clock>,
    next: Duration,
    last: Option<Timestamp>,
}

const FIRST: Duration = Duration::from_millis(800);
const CAP: Duration = Duration::from_secs(30);
const QUIET: Duration = Duration::from_secs(120);

impl Backoff {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            next: FIRST,
            last: None,
        }
    }

    pub(crate) async fn wait(&mut self) {
        let wait = self.step(self.clock.now());
        self.clock.sleep(wait.mul_f64(1.0 + rand::random::<f64>())).await;
    }

    /// The wait without jitter.
    fn step(&mut self, now: Timestamp) -> Duration {
        let quiet = self
            .last
            .is_some_and(|last| now.duration_since(last).unsigned_abs() > QUIET);
        if quiet {
            self.next = FIRST;
        }
        self.last = Some(now);
        let wait = self.next;
        self.next = (wait * 2).min(CAP);
        wait
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::SystemClock;

    use super::*;

    #[tokio::test]
    async fn waits_double_up_to_the_cap_and_start_over_after_a_quiet_time() {
        let mut backoff = Backoff::new(Arc::new(SystemClock::new()));
        let start = Timestamp::UNIX_EPOCH;
        let waits: Vec<_> = (0..8).map(|_| backoff.step(start).as_millis()).collect();
        assert_eq!(waits, [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
        assert_eq!(backoff.step(start + Duration::from_secs(120)).as_millis(), 30_000);
        assert_eq!(backoff.step(start + Duration::from_secs(241)).as_millis(), 800);
    }
}
