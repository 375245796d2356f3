//! Those who follow one cache and are quick about it travel together: one of their tasks polls them all.
//!
//! A change concerns everyone who follows the cache. Where each is a task of its own, a change wakes as many tasks, and
//! their executor wakes other threads to share what is not worth it. In a convoy the change wakes one task:
//!
//! ```text
//! task 1   brought a, drives: polls a, b and c
//! task 2   brought b, waits for the wheel or the end of b
//! task 3   brought c, waits for the wheel or the end of c
//! ```
//!
//! When the one who drives gets out, another takes the wheel; no task is started for this. Each future ends with the
//! task that brought it, and its panic is that task's.

use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::sync::oneshot::error::RecvError;
use tokio::sync::{Notify, oneshot};

/// Futures that are polled by one task at a time, all of them whenever one is woken.
#[derive(Default)]
pub(crate) struct Convoy {
    /// Held by the one who polls.
    wheel: tokio::sync::Mutex<Vec<Seat>>,
    /// Those who have come since it was last looked.
    arrived: Mutex<Vec<Seat>>,
    /// Told when somebody has come or gone.
    changed: Notify,
}

/// A future's place, which its task can clear at any time.
#[derive(Clone)]
struct Seat(Arc<Mutex<Option<Rider>>>);

struct Rider {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    ended: oneshot::Sender<Outcome>,
}

type Outcome = Result<(), Box<dyn Any + Send>>;

/// Clears the seat when the task that brought the future is gone.
struct GetOut<'a> {
    seat: Seat,
    convoy: &'a Convoy,
}

// === impl Convoy ===

impl Convoy {
    /// Resolves when the future has, which whoever drives polls.
    pub(crate) async fn ride(&self, future: impl Future<Output = ()> + Send + 'static) {
        let (ended, mut end) = oneshot::channel();
        let rider = Rider {
            future: Box::pin(future),
            ended,
        };
        let seat = Seat(Arc::new(Mutex::new(Some(rider))));
        self.arrived.lock().push(seat.clone());
        self.changed.notify_one();
        let _get_out = GetOut { seat, convoy: self };
        let outcome = tokio::select! {
            biased;
            outcome = &mut end => outcome,
            mut all = self.wheel.lock() => self.drive(&mut all, end).await,
        };
        if let Ok(Err(panic)) = outcome {
            resume_unwind(panic);
        }
    }

    /// Polls all until the end of the one.
    async fn drive(
        &self,
        all: &mut Vec<Seat>,
        mut end: oneshot::Receiver<Outcome>,
    ) -> Result<Outcome, RecvError> {
        loop {
            all.append(&mut self.arrived.lock());
            let poll_all = poll_fn(|cx| {
                all.retain(|seat| seat.poll(cx).is_pending());
                Poll::<()>::Pending
            });
            tokio::select! {
                biased;
                outcome = &mut end => return outcome,
                () = self.changed.notified() => {}
                () = poll_all => {}
            }
        }
    }
}

impl fmt::Debug for Convoy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Convoy").finish_non_exhaustive()
    }
}

// === impl Seat ===

impl Seat {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut seat = self.0.lock();
        let Some(rider) = seat.as_mut() else {
            return Poll::Ready(());
        };
        let outcome = match catch_unwind(AssertUnwindSafe(|| rider.future.as_mut().poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(())) => Ok(()),
            Err(panic) => Err(panic),
        };
        if let Some(rider) = seat.take() {
            // Whoever does not wait for the end any more need not hear of it.
            let _ = rider.ended.send(outcome);
        }
        Poll::Ready(())
    }
}

// === impl GetOut ===

impl Drop for GetOut<'_> {
    fn drop(&mut self) {
        let rider = self.seat.0.lock().take();
        drop(rider);
        self.convoy.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::JoinSet;

    use super::*;

    /// Counts how often it is polled, until it is let go.
    struct Counted {
        polls: Arc<AtomicUsize>,
        go: Arc<Notify>,
    }

    impl Counted {
        fn new() -> Self {
            Self {
                polls: Arc::default(),
                go: Arc::default(),
            }
        }

        fn future(&self) -> impl Future<Output = ()> + Send + 'static {
            let (polls, go) = (self.polls.clone(), self.go.clone());
            async move {
                let gone = go.notified();
                tokio::pin!(gone);
                poll_fn(|cx| {
                    polls.fetch_add(1, Ordering::Relaxed);
                    gone.as_mut().poll(cx)
                })
                .await;
            }
        }
    }

    async fn until(is_so: impl Fn() -> bool) {
        for _ in 0..100_000 {
            if is_so() {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("it never was so");
    }

    fn spawn(
        tasks: &mut JoinSet<()>,
        convoy: &Arc<Convoy>,
        future: impl Future<Output = ()> + Send + 'static,
    ) {
        let convoy = convoy.clone();
        tasks.spawn(async move { convoy.ride(future).await });
    }

    #[tokio::test]
    async fn the_wheel_is_handed_on_when_the_driver_gets_out() {
        let convoy: Arc<Convoy> = Arc::default();
        let counted = [Counted::new(), Counted::new(), Counted::new()];
        let mut tasks = JoinSet::new();
        for one in &counted {
            spawn(&mut tasks, &convoy, one.future());
        }
        for one in &counted {
            until(|| one.polls.load(Ordering::Relaxed) > 0).await;
            one.go.notify_one();
            tasks.join_next().await.unwrap().unwrap();
        }
        assert!(tasks.is_empty());
    }

    #[tokio::test]
    async fn a_future_goes_with_the_task_that_brought_it() {
        let convoy: Arc<Convoy> = Arc::default();
        let (driver, other) = (Counted::new(), Counted::new());
        let (mut first, mut second) = (JoinSet::new(), JoinSet::new());
        spawn(&mut first, &convoy, driver.future());
        until(|| driver.polls.load(Ordering::Relaxed) > 0).await;
        let held = Arc::new(());
        let hold = held.clone();
        spawn(&mut second, &convoy, async move {
            let _hold = hold;
            std::future::pending().await
        });
        spawn(&mut second, &convoy, other.future());
        until(|| other.polls.load(Ordering::Relaxed) > 0).await;
        second.shutdown().await;
        assert_eq!(Arc::strong_count(&held), 1, "what it held is let go of");
        // The one who drove goes as abruptly, and whoever comes next finds nothing of the old.
        first.shutdown().await;
        let last = Counted::new();
        spawn(&mut first, &convoy, last.future());
        until(|| last.polls.load(Ordering::Relaxed) > 0).await;
        last.go.notify_one();
        first.join_next().await.unwrap().unwrap();
        assert_eq!(Arc::strong_count(&driver.polls), 1);
    }

    #[tokio::test]
    async fn a_panic_is_that_of_the_task_that_brought_it() {
        let convoy: Arc<Convoy> = Arc::default();
        let driver = Counted::new();
        let (mut first, mut second) = (JoinSet::new(), JoinSet::new());
        spawn(&mut first, &convoy, driver.future());
        until(|| driver.polls.load(Ordering::Relaxed) > 0).await;
        spawn(&mut second, &convoy, async { panic!("as it is meant to") });
        let ended = second.join_next().await.unwrap();
        assert!(ended.unwrap_err().is_panic());
        driver.go.notify_one();
        first.join_next().await.unwrap().unwrap();
    }
}
