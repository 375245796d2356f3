//! Doing the same thing many times, carefully: one, then two, then four at once, as long as it works.
//!
//! Where everything is refused (a quota, say) one request finds out, not five hundred.

use std::future::Future;

use setpoint_api::Status;
use tokio::task::JoinSet;

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome<T> {
    pub(crate) done: Vec<T>,
    /// The first refusal. Nothing was begun after the batch in which it came.
    pub(crate) refused: Option<Status>,
}

/// Acts `count` times in batches that double, and stops after the first batch in which something went wrong.
pub(crate) async fn slow_start<T, F>(count: usize, act: impl Fn() -> F) -> Outcome<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Status>> + Send + 'static,
{
    let mut outcome = Outcome {
        done: Vec::with_capacity(count),
        refused: None,
    };
    let (mut batch, mut left) = (1, count);
    while left > 0 && outcome.refused.is_none() {
        batch = batch.min(left);
        outcome.take(all((0..batch).map(|_| act())).await);
        left -= batch;
        batch *= 2;
    }
    outcome
}

/// Does all of these at once and waits for the last.
pub(crate) async fn all<T, F>(acts: impl Iterator<Item = F>) -> Outcome<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Status>> + Send + 'static,
{
    let mut running: JoinSet<Result<T, Status>> = acts.collect();
    let mut outcome = Outcome {
        done: Vec::with_capacity(running.len()),
        refused: None,
    };
    while let Some(joined) = running.join_next().await {
        match joined {
            Ok(Ok(done)) => outcome.done.push(done),
            Ok(Err(refused)) => drop(outcome.refused.get_or_insert(refused)),
            Err(broken) => drop(outcome.refused.get_or_insert(Status::internal(broken))),
        }
    }
    outcome
}

impl<T> Outcome<T> {
    fn take(&mut self, more: Self) {
        self.done.extend(more.done);
        self.refused = self.refused.take().or(more.refused);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Acts `count` times where every act from the `failing`th on is refused: how many were begun and how many done.
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
        assert_eq!(outcome.refused.is_some(), done < count);
    }

    #[tokio::test]
    async fn rs8_a_refusal_of_everything_is_found_out_by_one_request() {
        check(500, 1, 1, 0).await;
    }

    #[tokio::test]
    async fn rs8_batches_double_until_something_goes_wrong() {
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
        assert!(outcome.refused.is_some());
    }
}
