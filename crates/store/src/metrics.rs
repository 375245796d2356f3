//! Metrics: the atomic counters of a running store, and the plain copy of them that callers export.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of buckets of a [`Histogram`]; the last one takes everything that is larger.
const BUCKETS: usize = 28;

/// Values of all metrics. Counters since the store was opened, sizes as they are now.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Transactions that took a revision.
    pub commits: u64,
    /// Transactions rejected by a compare.
    pub conflicts: u64,
    /// Durable writes of the log.
    pub syncs: u64,
    /// Duration of durable writes, in microseconds.
    pub sync_micros: Histogram,
    /// Transactions per durable write.
    pub batch_txns: Histogram,
    /// Bytes written to the log, padding included.
    pub bytes_appended: u64,
    /// Bytes of log that opening the store would replay.
    pub log_bytes: u64,
    /// Live keys.
    pub index_keys: u64,
    /// Live keys and values, in bytes.
    pub index_bytes: u64,
    /// Changes that can still be read or watched.
    pub history_events: u64,
    /// Memory held by those changes, in bytes.
    pub history_bytes: u64,
    /// Open watchers.
    pub watchers: u64,
    /// Open watchers that are many revisions behind.
    pub slow_watchers: u64,
    /// Expired keys that were deleted.
    pub expired: u64,
    /// Compactions, by the caller or by age.
    pub compactions: u64,
    /// Snapshot files written.
    pub snapshot_files: u64,
    /// Bytes that are free on the disk of the store, as of the last maintenance; `None` without files.
    pub free_bytes: Option<u64>,
    /// Whether writes other than deletes are rejected because the disk is full.
    pub full: bool,
    /// Keys whose stored values cannot be decoded.
    pub undecodable_keys: u64,
}

/// Histogram by powers of two: bucket `i` holds the values below `2^i` that no lower bucket holds.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// The counts, smallest values first.
    pub buckets: Vec<u64>,
    /// The sum of all values.
    pub sum: u64,
}

/// The atomic counters behind [`Metrics`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) commits: AtomicU64,
    pub(crate) conflicts: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) sync_micros: AtomicHistogram,
    pub(crate) batch_txns: AtomicHistogram,
    pub(crate) bytes_appended: AtomicU64,
    pub(crate) log_bytes: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) snapshot_files: AtomicU64,
}

/// The atomic counters behind a [`Histogram`].
#[derive(Debug, Default)]
pub(crate) struct AtomicHistogram {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

impl Histogram {
    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

impl AtomicHistogram {
    pub(crate) fn record(&self, value: u64) {
        let bucket = (u64::BITS - value.leading_zeros()) as usize;
        self.buckets[bucket.min(BUCKETS - 1)].fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
    }

    pub(crate) fn read(&self) -> Histogram {
        Histogram {
            buckets: self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect(),
            sum: self.sum.load(Relaxed),
        }
    }
}
