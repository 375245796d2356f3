//! What a cache says about itself.

use setpoint_api::ResourceVersion;

/// The size and state of one cache at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metrics {
    pub objects: usize,
    /// The revision the cache has reached.
    pub version: ResourceVersion,
    /// Changes kept for subscribers, and an estimate of the memory only they keep in use.
    pub window_changes: usize,
    pub window_bytes: usize,
    /// Changes up to this revision are no longer kept.
    pub oldest: ResourceVersion,
    pub subscribers: usize,
}
