//! The deadline of a request: query parameter `timeout`, a Go duration, at most one minute.

use std::future::Future;
use std::task::Poll;
use std::time::Duration;

use jiff::Timestamp;
use setpoint_api::{Clock, Status};

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
    /// A deadline that begins now.
    pub(crate) fn after(timeout: Duration, clock: &'a dyn Clock) -> Self {
        let end = clock.now().saturating_add(timeout).unwrap_or(Timestamp::MAX);
        Self { clock, end }
    }

    /// Waits for a step of the request. After the deadline the step is dropped, and the request fails. The timer starts
    /// only if the step is not ready at once.
    pub(crate) async fn limit<T>(self, step: impl Future<Output = T>) -> Result<T, StatusError> {
        let mut step = std::pin::pin!(step);
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
    match parse(text) {
        Ok(Duration::ZERO) => Ok(MAX_TIMEOUT),
        Ok(requested) => Ok(requested.min(MAX_TIMEOUT)),
        Err(error) => Err(bad_request(&format!(
            "invalid timeout specified in the request URL - time: {error}"
        ))),
    }
}

/// Parses `1m30s`, `250ms`, `1.5h`: a sum of numbers with units. Errors have the text of Go's `time.ParseDuration`.
fn parse(text: &str) -> Result<Duration, String> {
    let invalid = || format!("invalid duration {text:?}");
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let (number, rest_of_input) = split(rest, |c| !(c.is_ascii_digit() || c == '.'));
        let (unit, rest_of_input) = split(rest_of_input, |c| c.is_ascii_digit() || c == '.');
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1e-6,
            "ns" => 1e-9,
            "" => return Err(format!("missing unit in duration {text:?}")),
            unit => return Err(format!("unknown unit {unit:?} in duration {text:?}")),
        };
        let term = Duration::try_from_secs_f64(number * seconds).map_err(|_| invalid())?;
        total = total.checked_add(term).ok_or_else(invalid)?;
        rest = rest_of_input;
    }
    Ok(total)
}

/// Splits before the first character for which `ends` holds.
fn split(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use setpoint_api::SystemClock;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<u64, &str>) {
        let read = parse(text).map(|duration| u64::try_from(duration.as_millis()).unwrap());
        assert_eq!(read, expected.map_err(str::to_owned), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_that_takes_too_long_is_dropped() {
        let clock = SystemClock::new();
        let started = clock.now();
        let deadline = Deadline::after(Duration::from_secs(60), &clock);
        deadline
            .limit(clock.sleep(Duration::from_secs(45)))
            .await
            .unwrap();
        let status = deadline.limit(std::future::pending::<()>()).await.unwrap_err();
        assert_eq!((status.code, status.reason.as_str()), (504, "Timeout"));
        assert_eq!(clock.now().duration_since(started).as_secs(), 60);
    }

    #[test]
    fn a_duration_is_a_sum_of_numbers_with_units() {
        check("30s", Ok(30_000));
        check("1m1.5s", Ok(61_500));
        check("250ms", Ok(250));
        check("0", Ok(0));
    }

    #[test]
    fn the_timeout_is_at_most_a_minute() {
        let seconds = |query| read(&Query::parse(Some(query))).unwrap().as_secs();
        assert_eq!(seconds(""), 60);
        assert_eq!(seconds("timeout=0s"), 60);
        assert_eq!(seconds("timeout=5s"), 5);
        assert_eq!(seconds("timeout=2h"), 60);
    }

    #[test]
    fn errors_have_gos_text() {
        check("100", Err("missing unit in duration \"100\""));
        check("x", Err("invalid duration \"x\""));
        check("1x", Err("unknown unit \"x\" in duration \"1x\""));
        check("-1s", Err("invalid duration \"-1s\""));
        check("+", Err("invalid duration \"+\""));
    }
}
