//! [`Clock`]: the only source of time in the process.
//!
//! Code that needs the time is passed a [`Clock`]. Tests and simulated clusters can freeze or step it: [`SystemClock`]
//! runs on tokio's timer, so `tokio::time::pause` pauses it too.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use jiff::Timestamp;

/// Wall-clock time and timers.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The current wall-clock time.
    fn now(&self) -> Timestamp;

    /// Resolves once `duration` has passed on this clock.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

    /// The current wall-clock time in milliseconds since 1970.
    fn millis(&self) -> u64 {
        u64::try_from(self.now().as_millisecond()).unwrap_or_default()
    }
}

/// The clock of the operating system.
///
/// The wall-clock time is read once and then advanced by the monotonic timer: it never jumps, and pausing the timer
/// pauses it.
#[derive(Debug, Clone)]
pub struct SystemClock {
    started: Timestamp,
    reference: tokio::time::Instant,
}

impl SystemClock {
    /// A clock set to the current system time.
    #[allow(clippy::disallowed_methods, reason = "the one implementation of the clock")]
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
