//! Metrics of one cache.

use setpoint_api::ResourceVersion;

/// The size and state of one cache at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metrics {
    /// How many objects there are.
    pub objects: usize,
    /// The revision the cache has reached.
    pub version: ResourceVersion,
    /// How many changes the window keeps for subscribers.
    pub window_changes: usize,
    /// An estimate of the memory that only the window keeps alive.
    pub window_bytes: usize,
    /// How many of these the slowest subscriber may not have received yet.
    pub undelivered_changes: usize,
    /// Changes up to this revision are no longer in the window.
    pub oldest: ResourceVersion,
    /// The number of subscribers.
    pub subscribers: usize,
}
