//! The store: an ordered map of keys to bytes with one global revision.
//!
//! It reads at any kept revision without blocking a writer, commits all-or-nothing transactions guarded by
//! compares, hands every change to watchers once and in order, forgets old history by policy, expires what
//! is due, and keeps what it acknowledged on disk.
//!
//! What it must never do: know what the bytes mean, read a clock of its own (time is handed in by
//! [`Config`]), show a change that is not durable, or let a reader hold up a writer.
//!
//! Start reading at [`Store`], then `batch.rs` (what a commit does to the map), `stages.rs` (in which
//! order), `desk.rs` and `sequencer.rs` (on which threads) and `log/mod.rs` (what an engine promises). The
//! formats on disk are described byte by byte in `docs/store.md`.

mod batch;
mod compact;
mod config;
#[cfg(any(test, feature = "conformance"))]
#[allow(clippy::unwrap_used, reason = "a check of the contract fails by panicking")]
pub mod conformance;
mod desk;
mod error;
mod expiry;
mod head;
mod history;
mod image;
mod index;
mod large;
mod log;
mod memo;
mod metrics;
mod queue;
mod record;
mod revision;
mod sequencer;
mod shared;
mod snapshot;
mod stages;
mod store;
mod tree;
mod txn;
mod upkeep;
mod watch;
mod workers;

pub use config::{Clock, Config, Durability, HistoryLimits, Millis, Ticks};
pub use error::Error;
pub use history::Event;
pub use image::BackupReport;
pub use log::file::verify::{TornTail, VerifyReport};
pub use memo::Memo;
pub use metrics::{Histogram, Metrics};
pub use record::Record;
pub use revision::Revision;
pub use snapshot::{Records, Snapshot};
pub use store::Store;
pub use txn::{Committed, Compare, Op, Put, Txn};
pub use upkeep::Upkeep;
pub use watch::{Batch, Watcher};
