//! What a cache says about itself.

use setpoint_api::ResourceVersion;

/// The size and state of one cache at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metrics {
    /// How many objects there are.
    pub objects: usize,
    /// The revision the cache has reached.
    pub version: ResourceVersion,
    /// How many changes are kept for subscribers.
    pub window_changes: usize,
    /// An estimate of the memory that only the kept changes keep in use.
    pub window_bytes: usize,
    /// How many of the kept changes somebody may not have been told yet.
    pub untold_changes: usize,
    /// Changes up to this revision are no longer kept.
    pub oldest: ResourceVersion,
    /// How many follow the cache.
    pub subscribers: usize,
}
