//! What a store is told at the start: plain data, and the clocks it may look at.

use std::{fmt, sync::Arc};

/// Wall-clock milliseconds since 1970.
pub type Millis = u64;

/// A source of wall-clock time.
pub type Clock = Arc<dyn Fn() -> Millis + Send + Sync>;

/// A source of monotone nanoseconds, from any starting point. Only measurements use it.
pub type Ticks = Arc<dyn Fn() -> u64 + Send + Sync>;

/// How a store behaves. Made by [`Config::new`]; every field may be changed before it is handed over.
#[derive(Clone)]
pub struct Config {
    /// Tells commit times, ages of history and due expiries.
    pub now: Clock,
    /// Measures how long a durable write takes. By default as coarse as `now`.
    pub ticks: Ticks,
    /// The size a log segment grows to; the first few of a new store are smaller.
    pub segment_bytes: u64,
    /// The largest transaction: keys and values, with a little for each operation.
    pub max_txn_bytes: u64,
    /// A new image of the map is due when the log behind the last one exceeds this and the live bytes.
    pub image_after_bytes: u64,
    /// How much of the past stays readable.
    pub history: HistoryLimits,
    /// Whether a commit waits for the disk.
    pub durability: Durability,
}

/// How much of the past stays readable. Whatever limit is met first decides.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimits {
    /// Changes older than this are forgotten by upkeep.
    pub age: Millis,
    /// Bytes of superseded records and of the history's own bookkeeping.
    pub superseded_bytes: u64,
}

/// Whether an acknowledged commit survives a power failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A commit is answered after its bytes are on the medium.
    #[default]
    Sync,
    /// A commit is answered after its bytes are with the operating system. For simulations.
    None,
}

impl Config {
    /// The defaults, with the clock that every store needs.
    pub fn new(now: Clock) -> Config {
        let coarse = now.clone();
        Config {
            now,
            ticks: Arc::new(move || coarse().saturating_mul(1_000_000)),
            segment_bytes: 64 << 20,
            max_txn_bytes: 8 << 20,
            image_after_bytes: 64 << 20,
            history: HistoryLimits::default(),
            durability: Durability::Sync,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Config")
            .field("segment_bytes", &self.segment_bytes)
            .field("max_txn_bytes", &self.max_txn_bytes)
            .field("image_after_bytes", &self.image_after_bytes)
            .field("history", &self.history)
            .field("durability", &self.durability)
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
