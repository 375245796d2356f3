//! The one source of time.
//!
//! Whoever needs the time is handed a [`Clock`]. A test, and later a whole simulated cluster, can freeze or step it:
//! [`SystemClock`] counts on tokio's timer, so `tokio::time::pause` already holds it still.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use jiff::Timestamp;

/// Time as everything in the process sees it.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time of day.
    fn now(&self) -> Timestamp;

    /// Resolves once `duration` has passed on this clock.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

    /// The time of day in milliseconds since 1970.
    fn millis(&self) -> u64 {
        u64::try_from(self.now().as_millisecond()).unwrap_or_default()
    }
}

/// The machine's clock.
///
/// The time of day is read once and then carried on by the monotonic timer: it never jumps, and pausing the timer
/// pauses it.
#[derive(Debug, Clone)]
pub struct SystemClock {
    started: Timestamp,
    reference: tokio::time::Instant,
}

impl SystemClock {
    /// A clock that agrees with the machine's now.
    #[allow(clippy::disallowed_methods, reason = "this is the place the rule points to")]
    pub fn new() -> Self {
        Self {
            started: Timestamp::now(),
            reference: tokio::time::Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.started
            .saturating_add(self.reference.elapsed())
            .unwrap_or(Timestamp::MAX)
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pausing_the_timer_pauses_the_clock() {
        let clock = SystemClock::new();
        let before = clock.now();
        assert_eq!(clock.now(), before);
        clock.sleep(Duration::from_secs(3600)).await;
        assert_eq!(clock.now().duration_since(before).as_secs(), 3600);
    }
}
