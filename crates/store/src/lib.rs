//! The store: an ordered map of keys to bytes with one global revision, in the model of etcd.
//!
//! It reads at any revision that is not compacted without blocking a writer, commits all-or-nothing transactions
//! guarded by compares, delivers every change to watchers once and in order, compacts old history by policy, deletes
//! expired keys, and persists every acknowledged commit.
//!
//! What it must never do: interpret the bytes, read a clock of its own (time comes from [`Config`]), show a change
//! that is not durable, or let a reader block a writer.
//!
//! Start reading at [`Store`], then `commit/mod.rs` (the path of a commit, with a drawing), `head.rs` (the published
//! state) and `log/mod.rs` (the contract of an engine). `docs/store.md` describes the file formats byte by byte.

mod attachment;
mod commit;
mod compact;
mod config;
#[cfg(any(test, feature = "conformance"))]
#[allow(clippy::unwrap_used, reason = "a check of the contract fails by panicking")]
pub mod conformance;
mod error;
mod expiry;
mod head;
mod history;
mod index;
mod log;
mod maintenance;
mod metrics;
mod mmap_value;
mod private_dir;
mod record;
mod remote;
mod revision;
mod shared;
mod snapshot;
mod space;
mod store;
mod tree;
mod txn;
mod value_codec;
mod value_transformer;
mod watch;
mod workers;

pub use attachment::Attachment;
pub use config::{Clock, Config, Durability, HistoryLimits, Millis, Ticks};
pub use error::Error;
pub use history::Event;
pub use log::file::snapshot_file::BackupReport;
pub use log::file::truncate::TruncateReport;
pub use log::file::verify::{TornTail, VerifyReport};
pub use maintenance::MaintenanceReport;
pub use metrics::{Histogram, Metrics};
pub use private_dir::{create_private_dir, open_private_dir, restrict_dir, restrict_file, restrict_secret};
pub use record::Record;
pub use remote::{
    RemoteChange, RemoteCompare, RemoteCondition, RemoteEntry, RemoteFailure, RemoteFuture, RemoteLog,
    RemoteOp, RemoteOutcome, RemoteTxn, Replica,
};
pub use revision::Revision;
pub use snapshot::{Records, Snapshot};
pub use store::Store;
pub use txn::{Compare, Op, Put, Txn, TxnResponse};
pub use value_codec::{DecodedValue, PlainCodec, StoredValue, ValueCodec};
pub use value_transformer::{OpenedValue, SealId, SealedValue, ValueTransformer};
pub use watch::{EventBatch, Watcher};
