//! A clock that stands still until it is told to move.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_api::Clock;
use tokio::sync::oneshot;

/// Time that only the test moves. Cloning shares it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use setpoint_api::Clock;
/// use setpoint_testkit::SteppedClock;
/// use std::time::Duration;
///
/// let clock = SteppedClock::default();
/// let (before, hour) = (clock.now(), clock.sleep(Duration::from_secs(3600)));
/// assert!(clock.step(None), "somebody waits, so the clock goes there");
/// hour.await;
/// assert_eq!(clock.now().duration_since(before).as_secs(), 3600);
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct SteppedClock {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    now: Timestamp,
    /// Everyone who waits for a later time, earliest first.
    sleepers: BinaryHeap<Reverse<Sleeper>>,
    joined: u64,
}

#[derive(Debug)]
struct Sleeper {
    due: Timestamp,
    /// The order of those due at the same time.
    number: u64,
    wake: oneshot::Sender<()>,
}

// === impl SteppedClock ===

impl Default for SteppedClock {
    /// It starts at a round second of no importance.
    fn default() -> Self {
        let now = Timestamp::from_second(1_800_000_000).expect("the year 2027 is in range");
        Self {
            state: Arc::new(Mutex::new(State {
                now,
                sleepers: BinaryHeap::new(),
                joined: 0,
            })),
        }
    }
}

impl SteppedClock {
    /// Moves to the time of the next one who waits, if that is not past `limit`, and wakes it. Says whether it did.
    pub fn step(&self, limit: Option<Timestamp>) -> bool {
        let mut state = self.state.lock();
        while let Some(Reverse(sleeper)) = state.sleepers.pop() {
            if sleeper.wake.is_closed() {
                continue;
            }
            if limit.is_some_and(|limit| sleeper.due > limit) {
                state.sleepers.push(Reverse(sleeper));
                return false;
            }
            state.now = state.now.max(sleeper.due);
            // One who left in this very moment needs no waking.
            let _ = sleeper.wake.send(());
            return true;
        }
        false
    }

    /// Moves to this time without waking those due later.
    pub fn set(&self, now: Timestamp) {
        while self.step(Some(now)) {}
        let mut state = self.state.lock();
        state.now = state.now.max(now);
    }
}

impl Clock for SteppedClock {
    fn now(&self) -> Timestamp {
        self.state.lock().now
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
        let mut state = self.state.lock();
        let (wake, woken) = oneshot::channel();
        state.joined += 1;
        let sleeper = Sleeper {
            due: state.now.saturating_add(duration).unwrap_or(Timestamp::MAX),
            number: state.joined,
            wake,
        };
        if sleeper.due <= state.now {
            return Box::pin(std::future::ready(()));
        }
        state.sleepers.push(Reverse(sleeper));
        Box::pin(async move {
            // A clock that is gone never strikes.
            if woken.await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}

// === impl Sleeper ===

impl PartialEq for Sleeper {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Sleeper {}

impl PartialOrd for Sleeper {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Sleeper {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_step_goes_to_the_next_who_waits() {
        let clock = SteppedClock::default();
        let start = clock.now();
        let (late, early) = (
            clock.sleep(Duration::from_secs(9)),
            clock.sleep(Duration::from_secs(2)),
        );
        assert!(clock.step(None));
        early.await;
        assert_eq!(clock.now().duration_since(start).as_secs(), 2);
        assert!(!clock.step(Some(clock.now())));
        assert!(clock.step(None));
        late.await;
        assert_eq!(clock.now().duration_since(start).as_secs(), 9);
        assert!(!clock.step(None));
    }

    #[tokio::test]
    async fn one_who_no_longer_waits_does_not_move_the_clock() {
        let clock = SteppedClock::default();
        let start = clock.now();
        drop(clock.sleep(Duration::from_secs(5)));
        assert!(!clock.step(None));
        assert_eq!(clock.now(), start);
    }

    #[tokio::test]
    async fn no_time_to_wait_is_no_wait() {
        SteppedClock::default().sleep(Duration::ZERO).await;
    }
}
