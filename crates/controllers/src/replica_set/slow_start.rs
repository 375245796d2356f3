//! Slow start: runs the same action in batches of one, two, four and so on, as long as it succeeds.
//!
//! If every request fails, on a quota for example, one request finds out, not five hundred.

use std::future::Future;

use setpoint_api::Status;
use tokio::task::JoinSet;

/// The results of a batch.
#[derive(Debug)]
pub(crate) struct Outcome<T> {
    pub(crate) done: Vec<T>,
    /// The first error. No action was started after its batch.
    pub(crate) error: Option<Status>,
}

/// Runs `act` `count` times in batches that double, and stops after the first batch with an error.
pub(crate) async fn slow_start<T, F>(count: usize, act: impl Fn() -> F) -> Outcome<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Status>> + Send + 'static,
{
    let mut outcome = Outcome {
        done: Vec::with_capacity(count),
        error: None,
    };
    let (mut batch, mut left) = (1, count);
    while left > 0 && outcome.error.is_none() {
        batch = batch.min(left);
        outcome.take(all((0..batch).map(|_| act())).await);
        left -= batch;
        batch *= 2;
    }
    outcome
}

/// Runs all of these at once and waits for the last.
pub(crate) async fn all<T, F>(acts: impl Iterator<Item = F>) -> Outcome<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Status>> + Send + 'static,
{
    let mut running: JoinSet<Result<T, Status>> = acts.collect();
    let mut outcome = Outcome {
        done: Vec::with_capacity(running.len()),
        error: None,
    };
    while let Some(joined) = running.join_next().await {
        match joined {
            Ok(Ok(done)) => outcome.done.push(done),
            Ok(Err(error)) => drop(outcome.error.get_or_insert(error)),
            Err(broken) => drop(outcome.error.get_or_insert(Status::internal(broken))),
        }
    }
    outcome
}

impl<T> Outcome<T> {
    fn take(&mut self, more: Self) {
        self.done.extend(more.done);
        self.error = self.error.take().or(more.error);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Runs `count` actions of which every one from the `failing`th on fails: how many were started and how many
    /// succeeded.
    async fn check(count: usize, failing: usize, begun: usize, done: usize) {
        let calls = Arc::new(AtomicUsize::new(0));
        let outcome = slow_start(count, || {
            let number = calls.fetch_add(1, Ordering::SeqCst) + 1;
            async move {
                match number < failing {
                    true => Ok(number),
                    false => Err(Status::bad_request("no")),
                }
            }
        })
        .await;
        assert_eq!((calls.load(Ordering::SeqCst), outcome.done.len()), (begun, done));
        assert_eq!(outcome.error.is_some(), done < count);
    }

    #[tokio::test]
    async fn rs8_when_everything_is_rejected_one_request_is_enough() {
        check(500, 1, 1, 0).await;
    }

    #[tokio::test]
    async fn rs8_batches_double_until_an_error() {
        check(500, 2, 3, 1).await;
        check(500, 5, 7, 4).await;
        check(9, 100, 9, 9).await;
        check(0, 1, 0, 0).await;
    }

    #[tokio::test]
    async fn rs12_acts_of_one_batch_do_not_stop_each_other() {
        let acts = (0..10).map(|number| async move {
            match number == 3 {
                true => Err(Status::bad_request("no")),
                false => Ok(number),
            }
        });
        let outcome = all(acts).await;
        assert_eq!(outcome.done.len(), 9);
        assert!(outcome.error.is_some());
    }
}
