//! [`Progress`]: the revision up to which caches are up to date. It only grows, and tasks can wait for it.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use setpoint_api::ResourceVersion;

/// The revision up to which everything has been applied.
///
/// All caches of one server share one: a commit that touches one resource moves the progress of all of them without
/// touching the others. The writer advances it after it has applied the commit to every cache concerned.
#[derive(Debug, Default)]
pub struct Progress {
    version: AtomicU64,
    waiters: Mutex<Waiters>,
}

/// Waiting tasks, ordered by the revision they wait for, so that an advance finds the ones to wake at the front.
#[derive(Debug, Default)]
struct Waiters {
    wakers: BTreeMap<(u64, u64), Waker>,
    tickets: u64,
}

/// One waiting task; dropping it removes its waker.
#[derive(Debug)]
struct Waiter<'a> {
    progress: &'a Progress,
    version: u64,
    ticket: Option<u64>,
}

// === impl Progress ===

impl Progress {
    /// Nothing has been applied yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The revision reached.
    pub fn version(&self) -> ResourceVersion {
        ResourceVersion(self.version.load(Ordering::Acquire))
    }

    /// Everything up to `version` is applied. Going back is ignored.
    pub fn advance(&self, version: ResourceVersion) {
        self.version.fetch_max(version.0, Ordering::AcqRel);
        for waker in self.take_satisfied(version.0) {
            waker.wake();
        }
    }

    /// Resolves once everything up to `version` is applied.
    pub async fn reached(&self, version: ResourceVersion) {
        let mut waiter = Waiter {
            progress: self,
            version: version.0,
            ticket: None,
        };
        poll_fn(|cx| waiter.poll(cx)).await;
    }

    fn take_satisfied(&self, version: u64) -> impl Iterator<Item = Waker> {
        let mut waiters = self.waiters.lock();
        let satisfied = match waiters.wakers.first_key_value() {
            Some(((target, _), _)) if *target <= version => {
                let later = waiters.wakers.split_off(&(version.saturating_add(1), 0));
                std::mem::replace(&mut waiters.wakers, later)
            }
            _ => BTreeMap::new(),
        };
        satisfied.into_values()
    }
}

// === impl Waiter ===

impl Waiter<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_reached() {
            return Poll::Ready(());
        }
        self.register(cx.waker());
        // The revision may have been reached between the look and the registration.
        match self.is_reached() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    fn is_reached(&self) -> bool {
        self.progress.version().0 >= self.version
    }

    fn register(&mut self, waker: &Waker) {
        let mut waiters = self.progress.waiters.lock();
        let ticket = *self.ticket.get_or_insert_with(|| {
            waiters.tickets += 1;
            waiters.tickets
        });
        waiters.wakers.insert((self.version, ticket), waker.clone());
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let mut waiters = self.progress.waiters.lock();
            waiters.wakers.remove(&(self.version, ticket));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn version(number: u64) -> ResourceVersion {
        ResourceVersion(number)
    }

    #[tokio::test]
    async fn a_reached_version_is_not_waited_for() {
        let progress = Progress::new();
        progress.advance(version(5));
        progress.reached(version(5)).await;
        assert!(progress.waiters.lock().wakers.is_empty());
    }

    #[tokio::test]
    async fn only_waiters_whose_version_is_reached_are_woken() {
        let progress = Arc::new(Progress::new());
        let mut tasks = tokio::task::JoinSet::new();
        for target in [7, 3, 5] {
            let progress = progress.clone();
            tasks.spawn(async move {
                progress.reached(version(target)).await;
                target
            });
        }
        tokio::task::yield_now().await;
        assert_eq!(progress.waiters.lock().wakers.len(), 3);
        progress.advance(version(5));
        let mut done = vec![tasks.join_next().await.unwrap().unwrap()];
        done.push(tasks.join_next().await.unwrap().unwrap());
        done.sort_unstable();
        assert_eq!(done, [3, 5]);
        assert_eq!(progress.waiters.lock().wakers.len(), 1);
        progress.advance(version(9));
        assert_eq!(tasks.join_next().await.unwrap().unwrap(), 7);
    }

    #[tokio::test]
    async fn a_dropped_waiter_leaves_no_waker() {
        let progress = Progress::new();
        tokio::select! {
            biased;
            () = progress.reached(version(9)) => panic!("nothing advanced"),
            () = tokio::task::yield_now() => {}
        }
        assert!(progress.waiters.lock().wakers.is_empty());
    }

    #[test]
    fn progress_never_goes_back() {
        let progress = Progress::new();
        progress.advance(version(5));
        progress.advance(version(3));
        assert_eq!(progress.version(), version(5));
    }
}
