//! The current objects of one resource: by key, with indexes, recent history and subscribers.
//!
//! The watch cache of the server and the informer cache of a controller are this one type: the server's store or a
//! reflector in a remote process feeds it, remote watchers and local controllers read it. All readers get the same `Arc`
//! of an object, never a copy, and no reader ever blocks the writer.
//!
//! A cache knows nothing of kinds, of encodings or of where its objects come from, and it starts no task.
//!
//! Start reading at [`cache`], then [`window`] for the history, [`subscribe`] for the cursors on it and
//! [`shared_poller`] for followers polled by one task.

#![warn(missing_docs)]

mod cache;
mod caches;
mod index;
mod metrics;
mod progress;
mod shared_poller;
mod snapshot;
mod subscribe;
mod window;

pub use cache::{Cache, Limits};
pub use caches::Caches;
pub use index::{CONTROLLER_INDEX, IndexFunc};
pub use metrics::Metrics;
pub use progress::Progress;
pub use snapshot::Snapshot;
pub use subscribe::Subscription;
pub use window::{Batch, TooOld};

/// The examples of the README, compiled with the doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
