//! The system's clock. This tool has no simulated time.

use std::time::{Duration, Instant};

use jiff::Timestamp;

#[expect(
    clippy::disallowed_methods,
    reason = "a recording specifies pauses, and a soak run lasts for a given time"
)]
pub fn sleep(duration: Duration) {
    if !duration.is_zero() {
        std::thread::sleep(duration);
    }
}

#[expect(clippy::disallowed_methods, reason = "runs are measured by the system clock")]
pub fn now() -> Instant {
    Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "recent timestamps in responses become placeholders"
)]
pub(crate) fn timestamp() -> Timestamp {
    Timestamp::now()
}
