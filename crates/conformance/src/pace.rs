//! Time as a person at the desk has it: the machine's own. Nothing of this ships.

use std::time::{Duration, Instant};

use jiff::Timestamp;

#[expect(clippy::disallowed_methods, reason = "a recording says how long to rest")]
pub(crate) fn rest(duration: Duration) {
    if !duration.is_zero() {
        std::thread::sleep(duration);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a run is measured on the machine's own time"
)]
pub fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "answers of now are told from old ones")]
pub(crate) fn today() -> Timestamp {
    Timestamp::now()
}
