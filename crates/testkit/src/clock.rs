//! [`SteppedClock`]: a clock that only the test advances.

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

/// A clock that only the test advances. Cloning shares it.
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
/// assert!(clock.step(None), "there is a sleeper, so the clock advances to it");
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
    /// The pending sleeps, earliest first.
    sleepers: BinaryHeap<Reverse<Sleeper>>,
    sleeps: u64,
}

#[derive(Debug)]
struct Sleeper {
    due: Timestamp,
    /// Orders sleepers that are due at the same time.
    number: u64,
    wake: oneshot::Sender<()>,
}

// === impl SteppedClock ===

impl Default for SteppedClock {
    /// Starts at an arbitrary whole second.
    fn default() -> Self {
        let now = Timestamp::from_second(1_800_000_000).expect("the year 2027 is in range");
        Self {
            state: Arc::new(Mutex::new(State {
                now,
                sleepers: BinaryHeap::new(),
                sleeps: 0,
            })),
        }
    }
}

impl SteppedClock {
    /// Advances to the next sleeper, if that is not past `limit`, and wakes it. Returns whether it did.
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
            // A sleeper that was dropped meanwhile needs no waking.
            let _ = sleeper.wake.send(());
            return true;
        }
        false
    }

    /// Advances to this time without waking sleepers that are due later.
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
        state.sleeps += 1;
        let sleeper = Sleeper {
            due: state.now.saturating_add(duration).unwrap_or(Timestamp::MAX),
            number: state.sleeps,
            wake,
        };
        if sleeper.due <= state.now {
            return Box::pin(std::future::ready(()));
        }
        state.sleepers.push(Reverse(sleeper));
        Box::pin(async move {
            // A dropped clock never wakes its sleepers.
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
    async fn a_step_goes_to_the_next_sleeper() {
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
    async fn a_dropped_sleeper_does_not_move_the_clock() {
        let clock = SteppedClock::default();
        let start = clock.now();
        drop(clock.sleep(Duration::from_secs(5)));
        assert!(!clock.step(None));
        assert_eq!(clock.now(), start);
    }

    #[tokio::test]
    async fn a_sleep_of_zero_is_ready_at_once() {
        SteppedClock::default().sleep(Duration::ZERO).await;
    }
}
