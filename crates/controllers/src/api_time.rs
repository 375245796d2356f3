//! Timestamps in API objects, which have no fractions of a second.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The timestamp as a `metav1.Time`.
pub(crate) fn from_timestamp(now: Timestamp) -> Time {
    Time(whole_seconds(now))
}

/// Drops the fraction of a second.
pub(crate) fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// How long until this time; `None` if it has passed.
pub(crate) fn duration_until(now: Timestamp, moment: Timestamp) -> Option<Duration> {
    let left = Duration::try_from(moment.duration_since(now)).ok()?;
    (!left.is_zero()).then_some(left)
}

/// The time so many seconds later.
pub(crate) fn add_seconds(moment: Timestamp, seconds: i64) -> Timestamp {
    let later = moment.checked_add(jiff::SignedDuration::from_secs(seconds));
    later.unwrap_or(Timestamp::MAX)
}
