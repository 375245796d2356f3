//! [`WorkEstimate`]: how many seats a request occupies, and for how long after its response.

use std::time::Duration;

/// The estimated work of a request. All its seats are occupied during both phases, as upstream does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkEstimate {
    /// Seats while the request executes; at least one.
    pub initial_seats: usize,
    /// Seats after that, while its change is delivered to watchers.
    pub final_seats: usize,
    /// How long the final seats are occupied. The caller does not wait for it.
    pub additional_latency: Duration,
}

impl WorkEstimate {
    /// A request of this width without a final phase.
    pub(crate) const fn seats(initial_seats: usize) -> Self {
        Self {
            initial_seats,
            final_seats: 0,
            additional_latency: Duration::ZERO,
        }
    }

    pub(crate) fn max_seats(&self) -> usize {
        self.initial_seats.max(self.final_seats)
    }
}
