//! Backoff of failed tasks: five seconds at first, 32 seconds at most, as upstream.

use std::time::Duration;

use rand::Rng;

const INITIAL_DELAY: Duration = Duration::from_secs(5);
const MAX_DELAY: Duration = Duration::from_secs(32);
/// After so many failures the delay is the longest.
const EXPONENTIAL_FAILURES: u32 = 5;

/// The delay before a retry, by the number of earlier failures.
pub fn retry_delay(failures: u32) -> Duration {
    delay(failures, rand::rng().random_range(0..1000))
}

fn delay(failures: u32, random_millis: u64) -> Duration {
    let more = match failures {
        0 => return INITIAL_DELAY,
        1..=EXPONENTIAL_FAILURES => Duration::from_secs(1 << (failures - 1)),
        _ => MAX_DELAY,
    };
    let delay = INITIAL_DELAY + more + Duration::from_millis(random_millis);
    let tenths = delay.as_millis() / 100;
    Duration::from_millis(u64::try_from(tenths * 100).unwrap_or(u64::MAX)).min(MAX_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(failures: u32, expected_millis: u64) {
        assert_eq!(delay(failures, 250), Duration::from_millis(expected_millis));
    }

    #[test]
    fn delays_grow_from_5_to_32_seconds() {
        check(0, 5_000);
        check(1, 6_200);
        check(2, 7_200);
        check(3, 9_200);
        check(4, 13_200);
        check(5, 21_200);
        check(6, 32_000);
        check(1000, 32_000);
    }
}
