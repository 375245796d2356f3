//! Seat-seconds: the unit of work and of virtual time in fair queuing.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

/// An amount of work: seats times the time they are occupied.
///
/// It counts seat-nanoseconds in 128 bits, which no server's lifetime exhausts. Upstream's 64 bits need epochs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SeatSeconds(i128);

/// Nanoseconds in a second.
const NANOSECONDS: i128 = 1_000_000_000;

impl SeatSeconds {
    pub(crate) const ZERO: Self = Self(0);
    pub(crate) const MAX: Self = Self(i128::MAX);

    /// The work of occupying seats for this long.
    pub(crate) fn of(seats: usize, time: Duration) -> Self {
        Self(seats as i128 * i128::try_from(time.as_nanos()).unwrap_or(i128::MAX / 2))
    }

    /// The work divided evenly.
    pub(crate) fn per(self, parts: usize) -> Self {
        Self(self.0 / (parts.max(1) as i128))
    }

    /// How long this many seats take for the work.
    pub(crate) fn duration(self, seats: usize) -> Duration {
        Duration::from_nanos(u64::try_from(self.per(seats).0).unwrap_or_default())
    }

    /// The value in seat-seconds.
    #[allow(clippy::cast_precision_loss, reason = "a metric need not be exact")]
    pub(crate) fn as_f64(self) -> f64 {
        self.0 as f64 / NANOSECONDS as f64
    }
}

impl Add for SeatSeconds {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for SeatSeconds {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl AddAssign for SeatSeconds {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for SeatSeconds {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

/// The form in debug dumps: eight decimals and the unit `ss`.
impl fmt::Display for SeatSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let whole = self.0.unsigned_abs();
        let second = NANOSECONDS.unsigned_abs();
        write!(f, "{sign}{}.{:08}ss", whole / second, whole % second / 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn work_is_shown_with_eight_decimals() {
        assert_eq!(SeatSeconds::of(3, MILLISECOND).to_string(), "0.00300000ss");
        assert_eq!(
            SeatSeconds::of(2, Duration::from_millis(1500)).to_string(),
            "3.00000000ss"
        );
        assert_eq!(
            (SeatSeconds::ZERO - SeatSeconds::of(1, MILLISECOND)).to_string(),
            "-0.00100000ss"
        );
    }

    #[test]
    fn more_seats_take_less_time() {
        let work = SeatSeconds::of(12, 5 * MILLISECOND);
        assert_eq!(work.duration(10), 6 * MILLISECOND);
        assert_eq!(work.duration(0), 60 * MILLISECOND);
    }
}
