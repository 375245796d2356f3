//! Doing the same thing many times: all at once, or carefully, one, then two, then four, as long as it works.
//!
//! Everything runs in the caller's own task, so a reconcile's writes are seen as its own.

use std::future::Future;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

/// What came of it.
#[derive(Debug)]
pub struct Outcome<T, E> {
    /// What came of those that went well.
    pub done: Vec<T>,
    /// The first refusal.
    pub refused: Option<E>,
    /// How many were refused, the first included.
    pub refusals: usize,
    /// How many were not even begun.
    pub skipped: usize,
}

/// Acts for each item in batches that double from one, and begins nothing after the batch in which something went
/// wrong. Where everything is refused, by a quota say, one request finds out, not five hundred.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use setpoint_runtime::batches::slow_start;
///
/// let create = |number: u32| async move { if number < 3 { Ok(number) } else { Err("quota exceeded") } };
/// let outcome = slow_start((0..100).collect(), create).await;
/// // 0, then 1 and 2, then 3 to 6, of which all are refused; the rest is not even tried.
/// assert_eq!(outcome.done, [0, 1, 2]);
/// assert_eq!((outcome.refusals, outcome.skipped), (4, 93));
/// # }
/// ```
pub async fn slow_start<I, T, E, F>(items: Vec<I>, mut act: impl FnMut(I) -> F) -> Outcome<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut outcome = Outcome::nothing();
    let (mut items, mut batch) = (items.into_iter(), 1);
    while items.len() > 0 && outcome.refused.is_none() {
        let acts: Vec<F> = items.by_ref().take(batch).map(&mut act).collect();
        outcome.take(at_once(acts).await);
        batch *= 2;
    }
    outcome.skipped = items.len();
    outcome
}

/// Does all of these at once and waits for the last; one that is refused does not stop the others.
pub async fn at_once<T, E, F>(acts: impl IntoIterator<Item = F>) -> Outcome<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut running: FuturesUnordered<F> = acts.into_iter().collect();
    let mut outcome = Outcome::nothing();
    while let Some(ended) = running.next().await {
        outcome.note(ended);
    }
    outcome
}

impl<T, E> Outcome<T, E> {
    /// The first refusal, if there was one.
    pub fn into_result(self) -> Result<Vec<T>, E> {
        self.refused.map_or(Ok(self.done), Err)
    }

    fn nothing() -> Self {
        Self {
            done: Vec::new(),
            refused: None,
            refusals: 0,
            skipped: 0,
        }
    }

    fn note(&mut self, ended: Result<T, E>) {
        match ended {
            Ok(done) => self.done.push(done),
            Err(refusal) => {
                self.refusals += 1;
                self.refused.get_or_insert(refusal);
            }
        }
    }

    fn take(&mut self, more: Self) {
        self.done.extend(more.done);
        self.refusals += more.refusals;
        self.refused = self.refused.take().or(more.refused);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Acts `count` times where every act from the `failing`th on is refused: how many were begun, done, skipped.
    async fn check(count: usize, failing: usize, expected: (usize, usize, usize)) {
        let begun = Cell::new(0);
        let act = |number: usize| {
            begun.set(begun.get() + 1);
            async move { if number < failing { Ok(number) } else { Err(number) } }
        };
        let outcome = slow_start((1..=count).collect(), act).await;
        assert_eq!((begun.get(), outcome.done.len(), outcome.skipped), expected);
        assert_eq!(begun.get(), outcome.done.len() + outcome.refusals);
        assert_eq!(outcome.refused, (failing <= count).then_some(failing));
    }

    #[tokio::test]
    async fn rs8_a_refusal_of_everything_is_found_out_by_one_request() {
        check(500, 1, (1, 0, 499)).await;
    }

    #[tokio::test]
    async fn rs8_batches_double_until_something_goes_wrong() {
        check(500, 2, (3, 1, 497)).await;
        check(500, 5, (7, 4, 493)).await;
        check(9, 100, (9, 9, 0)).await;
        check(0, 1, (0, 0, 0)).await;
    }

    #[tokio::test]
    async fn rs12_acts_at_once_do_not_stop_each_other() {
        let acts = (0..10).map(|number| async move { if number == 3 { Err("no") } else { Ok(number) } });
        let outcome = at_once(acts).await;
        assert_eq!((outcome.done.len(), outcome.refusals), (9, 1));
        assert_eq!(outcome.into_result(), Err("no"));
    }
}
