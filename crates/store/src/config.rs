//! Configuration of a store: limits, durability, and the clocks it reads.

use std::{fmt, sync::Arc};

use crate::{PlainCodec, ValueCodec, ValueTransformer};

/// Wall-clock milliseconds since 1970.
pub type Millis = u64;

/// A source of wall-clock time.
pub type Clock = Arc<dyn Fn() -> Millis + Send + Sync>;

/// A source of monotonic nanoseconds, from any starting point. Only metrics use it.
pub type Ticks = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Configuration of a store. [`Config::new`] sets the defaults; the caller may change every field before opening.
#[derive(Clone)]
pub struct Config {
    /// The wall clock of commit times, history age and expiry.
    pub now: Clock,
    /// Measures the duration of durable writes. By default as coarse as `now`.
    pub ticks: Ticks,
    /// Full size of a log segment; the first few of a new store are smaller.
    pub segment_bytes: u64,
    /// Maximum size of a transaction: keys and values, plus a small overhead for each operation.
    pub max_txn_bytes: u64,
    /// A new snapshot file is due when the log written since the last one exceeds this and the size of the live keys
    /// and values.
    pub snapshot_file_after_bytes: u64,
    /// Limits of the history that stays readable.
    pub history: HistoryLimits,
    /// Whether a commit waits for the disk.
    pub durability: Durability,
    /// Translates between the map and what a remote engine stores.
    pub codec: Arc<dyn ValueCodec>,
    /// Encrypts the values in the files of a store, and those that a remote engine stores, behind the codec.
    pub transformer: Option<Arc<dyn ValueTransformer>>,
}

/// Limits of the history; the first one reached applies.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimits {
    /// Maintenance compacts changes older than this.
    pub age: Millis,
    /// Maximum bytes of superseded records, plus the overhead of the history itself.
    pub superseded_bytes: u64,
}

/// Whether an acknowledged commit survives a power failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A commit returns after its bytes are on the medium.
    #[default]
    Sync,
    /// A commit returns after its bytes are in the page cache. For simulations.
    None,
}

impl Config {
    /// The defaults, with the required clock.
    pub fn new(now: Clock) -> Config {
        let coarse = now.clone();
        Config {
            now,
            ticks: Arc::new(move || coarse().saturating_mul(1_000_000)),
            segment_bytes: 64 << 20,
            max_txn_bytes: 8 << 20,
            snapshot_file_after_bytes: 64 << 20,
            history: HistoryLimits::default(),
            durability: Durability::Sync,
            codec: Arc::new(PlainCodec::default()),
            transformer: None,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Config")
            .field("segment_bytes", &self.segment_bytes)
            .field("max_txn_bytes", &self.max_txn_bytes)
            .field("image_after_bytes", &self.snapshot_file_after_bytes)
            .field("history", &self.history)
            .field("durability", &self.durability)
            .field("codec", &self.codec)
            .finish_non_exhaustive()
    }
}

impl Default for HistoryLimits {
    fn default() -> HistoryLimits {
        HistoryLimits {
            age: 5 * 60 * 1000,
            superseded_bytes: 256 << 20,
        }
    }
}
