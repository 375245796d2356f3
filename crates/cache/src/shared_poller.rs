//! [`SharedPoller`]: one task polls the futures of many tasks that follow the same cache.
//!
//! A change wakes every follower of the cache. With one task per follower it would wake as many tasks, and the executor
//! would wake other threads to share work that is not worth it. With a shared poller the change wakes one task:
//!
//! ```text
//! task 1   submitted a, holds the poll lock: polls a, b and c
//! task 2   submitted b, waits for the poll lock or the end of b
//! task 3   submitted c, waits for the poll lock or the end of c
//! ```
//!
//! When the polling task ends, another takes the lock; no task is started for this. Each future is dropped with the task
//! that submitted it, and its panic is resumed in that task.

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
pub(crate) struct SharedPoller {
    /// The slots being polled. The task that holds the lock is the one that polls.
    active: tokio::sync::Mutex<Vec<Slot>>,
    /// Slots submitted since the polling task last looked.
    arrived: Mutex<Vec<Slot>>,
    /// Notified when a slot is added or cleared.
    changed: Notify,
}

/// The slot of one future, which the submitting task can clear at any time.
#[derive(Clone)]
struct Slot(Arc<Mutex<Option<PolledFuture>>>);

struct PolledFuture {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    ended: oneshot::Sender<Outcome>,
}

type Outcome = Result<(), Box<dyn Any + Send>>;

/// Clears the slot when the task that submitted the future is dropped.
struct SlotGuard<'a> {
    slot: Slot,
    poller: &'a SharedPoller,
}

// === impl SharedPoller ===

impl SharedPoller {
    /// Resolves when the future has, whichever task polls it.
    pub(crate) async fn run(&self, future: impl Future<Output = ()> + Send + 'static) {
        let (ended, mut end) = oneshot::channel();
        let polled = PolledFuture {
            future: Box::pin(future),
            ended,
        };
        let slot = Slot(Arc::new(Mutex::new(Some(polled))));
        self.arrived.lock().push(slot.clone());
        self.changed.notify_one();
        let _guard = SlotGuard { slot, poller: self };
        let outcome = tokio::select! {
            biased;
            outcome = &mut end => outcome,
            mut all = self.active.lock() => self.poll_all(&mut all, end).await,
        };
        if let Ok(Err(panic)) = outcome {
            resume_unwind(panic);
        }
    }

    /// Polls all slots until the caller's own future has ended.
    async fn poll_all(
        &self,
        all: &mut Vec<Slot>,
        mut end: oneshot::Receiver<Outcome>,
    ) -> Result<Outcome, RecvError> {
        loop {
            all.append(&mut self.arrived.lock());
            let poll_slots = poll_fn(|cx| {
                all.retain(|slot| slot.poll(cx).is_pending());
                Poll::<()>::Pending
            });
            tokio::select! {
                biased;
                outcome = &mut end => return outcome,
                () = self.changed.notified() => {}
                () = poll_slots => {}
            }
        }
    }
}

impl fmt::Debug for SharedPoller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedPoller").finish_non_exhaustive()
    }
}

// === impl Slot ===

impl Slot {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut slot = self.0.lock();
        let Some(polled) = slot.as_mut() else {
            return Poll::Ready(());
        };
        let outcome = match catch_unwind(AssertUnwindSafe(|| polled.future.as_mut().poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(())) => Ok(()),
            Err(panic) => Err(panic),
        };
        if let Some(polled) = slot.take() {
            // The receiver is gone if the submitting task was dropped.
            let _ = polled.ended.send(outcome);
        }
        Poll::Ready(())
    }
}

// === impl SlotGuard ===

impl Drop for SlotGuard<'_> {
    fn drop(&mut self) {
        let polled = self.slot.0.lock().take();
        drop(polled);
        self.poller.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::JoinSet;

    use super::*;

    /// Counts how often its future is polled, until `go` is notified.
    struct PollCounter {
        polls: Arc<AtomicUsize>,
        go: Arc<Notify>,
    }

    impl PollCounter {
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
        panic!("the condition never became true");
    }

    fn spawn(
        tasks: &mut JoinSet<()>,
        poller: &Arc<SharedPoller>,
        future: impl Future<Output = ()> + Send + 'static,
    ) {
        let poller = poller.clone();
        tasks.spawn(async move { poller.run(future).await });
    }

    #[tokio::test]
    async fn another_task_polls_when_the_polling_task_ends() {
        let poller: Arc<SharedPoller> = Arc::default();
        let counted = [PollCounter::new(), PollCounter::new(), PollCounter::new()];
        let mut tasks = JoinSet::new();
        for one in &counted {
            spawn(&mut tasks, &poller, one.future());
        }
        for one in &counted {
            until(|| one.polls.load(Ordering::Relaxed) > 0).await;
            one.go.notify_one();
            tasks.join_next().await.unwrap().unwrap();
        }
        assert!(tasks.is_empty());
    }

    #[tokio::test]
    async fn a_future_is_dropped_with_the_task_that_submitted_it() {
        let poller: Arc<SharedPoller> = Arc::default();
        let (driver, other) = (PollCounter::new(), PollCounter::new());
        let (mut first, mut second) = (JoinSet::new(), JoinSet::new());
        spawn(&mut first, &poller, driver.future());
        until(|| driver.polls.load(Ordering::Relaxed) > 0).await;
        let held = Arc::new(());
        let hold = held.clone();
        spawn(&mut second, &poller, async move {
            let _hold = hold;
            std::future::pending().await
        });
        spawn(&mut second, &poller, other.future());
        until(|| other.polls.load(Ordering::Relaxed) > 0).await;
        second.shutdown().await;
        assert_eq!(Arc::strong_count(&held), 1, "what it held is dropped");
        // The polling task is aborted, too; the next task finds nothing of the old ones.
        first.shutdown().await;
        let last = PollCounter::new();
        spawn(&mut first, &poller, last.future());
        until(|| last.polls.load(Ordering::Relaxed) > 0).await;
        last.go.notify_one();
        first.join_next().await.unwrap().unwrap();
        assert_eq!(Arc::strong_count(&driver.polls), 1);
    }

    #[tokio::test]
    async fn a_panic_is_that_of_the_task_that_submitted_it() {
        let poller: Arc<SharedPoller> = Arc::default();
        let driver = PollCounter::new();
        let (mut first, mut second) = (JoinSet::new(), JoinSet::new());
        spawn(&mut first, &poller, driver.future());
        until(|| driver.polls.load(Ordering::Relaxed) > 0).await;
        spawn(&mut second, &poller, async { panic!("as it is meant to") });
        let ended = second.join_next().await.unwrap();
        assert!(ended.unwrap_err().is_panic());
        driver.go.notify_one();
        first.join_next().await.unwrap().unwrap();
    }
}
