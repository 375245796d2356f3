//! Times as objects have them: without fractions of a second.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The moment as an object says it.
pub(crate) fn written(now: Timestamp) -> Time {
    Time(whole_seconds(now))
}

/// Times in objects have no fractions.
pub(crate) fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// How long it is until this moment; nothing if it has passed.
pub(crate) fn until(now: Timestamp, moment: Timestamp) -> Option<Duration> {
    let left = Duration::try_from(moment.duration_since(now)).ok()?;
    (!left.is_zero()).then_some(left)
}

/// The moment so many seconds later.
pub(crate) fn later(moment: Timestamp, seconds: i64) -> Timestamp {
    let later = moment.checked_add(jiff::SignedDuration::from_secs(seconds));
    later.unwrap_or(Timestamp::MAX)
}
