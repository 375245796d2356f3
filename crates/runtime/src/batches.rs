//! Batches of requests: all concurrently, or in a slow start of one, then two, then four, until one fails.
//!
//! Everything runs in the caller's own task: the client records the writes of a reconcile by its task, so that the next
//! reconcile of the key sees them.

use std::future::Future;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

/// The outcome of a batch.
#[derive(Debug)]
pub struct BatchOutcome<T, E> {
    /// The results of the successful items.
    pub succeeded: Vec<T>,
    /// The first error.
    pub first_error: Option<E>,
    /// The number of errors.
    pub errors: usize,
    /// The number of items that were not tried.
    pub skipped: usize,
}

/// Calls `act` for each item in batches that double from one, and stops after the first batch with an error (Kubernetes'
/// `slowStartBatch`). If all requests would fail, for example because of a quota, one is sent instead of five hundred.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use setpoint_runtime::batches::slow_start;
///
/// let create = |number: u32| async move { if number < 3 { Ok(number) } else { Err("quota exceeded") } };
/// let outcome = slow_start((0..100).collect(), create).await;
/// // 0, then 1 and 2, then 3 to 6, which all fail; the rest is not tried.
/// assert_eq!(outcome.succeeded, [0, 1, 2]);
/// assert_eq!((outcome.errors, outcome.skipped), (4, 93));
/// # }
/// ```
pub async fn slow_start<I, T, E, F>(items: Vec<I>, mut act: impl FnMut(I) -> F) -> BatchOutcome<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut outcome = BatchOutcome::empty();
    let (mut items, mut batch) = (items.into_iter(), 1);
    while items.len() > 0 && outcome.first_error.is_none() {
        let futures: Vec<F> = items.by_ref().take(batch).map(&mut act).collect();
        outcome.merge(run_concurrently(futures).await);
        batch *= 2;
    }
    outcome.skipped = items.len();
    outcome
}

/// Runs all futures concurrently and waits for the last; an error does not stop the others.
pub async fn run_concurrently<T, E, F>(futures: impl IntoIterator<Item = F>) -> BatchOutcome<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut running: FuturesUnordered<F> = futures.into_iter().collect();
    let mut outcome = BatchOutcome::empty();
    while let Some(ended) = running.next().await {
        outcome.record(ended);
    }
    outcome
}

impl<T, E> BatchOutcome<T, E> {
    /// The results, or the first error if there was one.
    pub fn into_result(self) -> Result<Vec<T>, E> {
        self.first_error.map_or(Ok(self.succeeded), Err)
    }

    fn empty() -> Self {
        Self {
            succeeded: Vec::new(),
            first_error: None,
            errors: 0,
            skipped: 0,
        }
    }

    fn record(&mut self, ended: Result<T, E>) {
        match ended {
            Ok(done) => self.succeeded.push(done),
            Err(error) => {
                self.errors += 1;
                self.first_error.get_or_insert(error);
            }
        }
    }

    fn merge(&mut self, more: Self) {
        self.succeeded.extend(more.succeeded);
        self.errors += more.errors;
        self.first_error = self.first_error.take().or(more.first_error);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Calls `act` up to `count` times, failing from the `failing`th on: how many were begun, succeeded, skipped.
    async fn check(count: usize, failing: usize, expected: (usize, usize, usize)) {
        let begun = Cell::new(0);
        let act = |number: usize| {
            begun.set(begun.get() + 1);
            async move { if number < failing { Ok(number) } else { Err(number) } }
        };
        let outcome = slow_start((1..=count).collect(), act).await;
        assert_eq!((begun.get(), outcome.succeeded.len(), outcome.skipped), expected);
        assert_eq!(begun.get(), outcome.succeeded.len() + outcome.errors);
        assert_eq!(outcome.first_error, (failing <= count).then_some(failing));
    }

    #[tokio::test]
    async fn rs8_if_every_request_fails_only_one_is_sent() {
        check(500, 1, (1, 0, 499)).await;
    }

    #[tokio::test]
    async fn rs8_batches_double_until_a_request_fails() {
        check(500, 2, (3, 1, 497)).await;
        check(500, 5, (7, 4, 493)).await;
        check(9, 100, (9, 9, 0)).await;
        check(0, 1, (0, 0, 0)).await;
    }

    #[tokio::test]
    async fn rs12_a_failed_request_does_not_stop_concurrent_ones() {
        let futures = (0..10).map(|number| async move { if number == 3 { Err("no") } else { Ok(number) } });
        let outcome = run_concurrently(futures).await;
        assert_eq!((outcome.succeeded.len(), outcome.errors), (9, 1));
        assert_eq!(outcome.into_result(), Err("no"));
    }
}
