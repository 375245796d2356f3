//! The deadline of a request: query parameter `timeout`, a Go duration, at most one minute.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use jiff::Timestamp;
use setpoint_api::{Clock, Status, go_duration};

use super::options::{StatusError, bad_request};
use super::query::Query;

const MAX_TIMEOUT: Duration = Duration::from_secs(60);

/// The end of the time that a request may take, from the reading of its body to its response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline<'a> {
    clock: &'a dyn Clock,
    end: Timestamp,
}

impl<'a> Deadline<'a> {
    /// The deadline of a request that arrived at `begun`. As upstream, the time for which it waits for seats counts.
    pub(crate) fn after(begun: Timestamp, timeout: Duration, clock: &'a dyn Clock) -> Self {
        let end = begun.saturating_add(timeout).unwrap_or(Timestamp::MAX);
        Self { clock, end }
    }

    /// Waits for a step of the request. After the deadline the request fails, and drops the step. The timer starts only if
    /// the step is not ready at once. The step is passed by reference: by value it would be stored twice.
    pub(crate) async fn limit<T>(
        self,
        mut step: Pin<&mut (impl Future<Output = T> + ?Sized)>,
    ) -> Result<T, StatusError> {
        if let Poll::Ready(ready) = futures_util::poll!(&mut step) {
            return Ok(ready);
        }
        let left = self.end.duration_since(self.clock.now());
        let left = Duration::try_from(left).unwrap_or_default();
        tokio::select! {
            biased;
            ready = step => Ok(ready),
            () = self.clock.sleep(left) => {
                let message = "Timeout: request did not complete within the allotted timeout";
                Err(Box::new(Status::timeout(message)))
            }
        }
    }
}

/// Parses the timeout. A missing or zero timeout is the maximum.
pub fn read(query: &Query<'_>) -> Result<Duration, StatusError> {
    let Some(text) = query.text("timeout") else {
        return Ok(MAX_TIMEOUT);
    };
    match go_duration::parse(text) {
        Ok(Duration::ZERO) => Ok(MAX_TIMEOUT),
        Ok(requested) => Ok(requested.min(MAX_TIMEOUT)),
        Err(error) => Err(bad_request(&format!(
            "invalid timeout specified in the request URL - time: {error}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use setpoint_api::SystemClock;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_step_that_takes_too_long_fails_the_request() {
        let clock = SystemClock::new();
        let started = clock.now();
        let deadline = Deadline::after(started, Duration::from_secs(60), &clock);
        deadline
            .limit(clock.sleep(Duration::from_secs(45)).as_mut())
            .await
            .unwrap();
        let status = deadline
            .limit(pin!(std::future::pending::<()>()))
            .await
            .unwrap_err();
        assert_eq!((status.code, status.reason.as_str()), (504, "Timeout"));
        assert_eq!(clock.now().duration_since(started).as_secs(), 60);
    }

    #[test]
    fn the_timeout_is_at_most_a_minute() {
        let seconds = |query| read(&Query::parse(Some(query))).unwrap().as_secs();
        assert_eq!(seconds(""), 60);
        assert_eq!(seconds("timeout=0s"), 60);
        assert_eq!(seconds("timeout=5s"), 5);
        assert_eq!(seconds("timeout=2h"), 60);
    }
}
