//! A clock that the model advances.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use setpoint_api::Clock;

use crate::sync::Mutex;

/// It starts in 1970 and stands still until it is set. Cloning shares it.
#[derive(Debug, Clone)]
pub(crate) struct ModelClock(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    now: Timestamp,
    waiting: Vec<(Timestamp, Waker)>,
}

impl Default for ModelClock {
    fn default() -> Self {
        let now = Timestamp::UNIX_EPOCH;
        let waiting = Vec::new();
        Self(Arc::new(Mutex::new(State { now, waiting })))
    }
}

impl ModelClock {
    pub(crate) fn advance(&self, seconds: i64) {
        let due: Vec<Waker> = {
            let mut state = self.0.lock();
            state.now += SignedDuration::from_secs(seconds);
            let now = state.now;
            let (due, later) = std::mem::take(&mut state.waiting)
                .into_iter()
                .partition(|(at, _)| *at <= now);
            state.waiting = later;
            let due: Vec<(Timestamp, Waker)> = due;
            due.into_iter().map(|(_, waker)| waker).collect()
        };
        due.into_iter().for_each(Waker::wake);
    }
}

impl Clock for ModelClock {
    fn now(&self) -> Timestamp {
        self.0.lock().now
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
        let (state, at) = (self.0.clone(), self.now() + duration);
        Box::pin(poll_fn(move |cx| {
            let mut state = state.lock();
            if state.now >= at {
                return Poll::Ready(());
            }
            state.waiting.push((at, cx.waker().clone()));
            Poll::Pending
        }))
    }
}
