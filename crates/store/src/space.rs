//! Free space of the disk under a store: how much there is, and whether writes are rejected for lack of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{Error, Txn};

/// State of the disk's space. The log sets it, the evaluator and the metrics read it.
///
/// While it is full, only transactions without puts are accepted: the log keeps some space for them. It stays full
/// until maintenance has found space again.
#[derive(Debug)]
pub(crate) struct Space {
    full: AtomicBool,
    /// Why the disk is full; `Some` whenever `full` is set.
    cause: Mutex<Option<Error>>,
    /// Notified each time the disk has become full.
    became_full: Notify,
    low: AtomicBool,
    /// Bytes that are free, as of the last look; [`UNKNOWN`] for a store without files.
    free_bytes: AtomicU64,
}

const UNKNOWN: u64 = u64::MAX;

impl Space {
    /// Fails for a transaction that needs space if there is none.
    pub(crate) fn check(&self, txn: &Txn) -> Result<(), Error> {
        match self.full.load(Relaxed) && txn.has_puts() {
            true => self.check_free(),
            false => Ok(()),
        }
    }

    /// Fails if the disk is full.
    pub(crate) fn check_free(&self) -> Result<(), Error> {
        self.cause.lock().clone().map_or(Ok(()), Err)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Relaxed)
    }

    pub(crate) fn set_full(&self, cause: &Error) {
        *self.cause.lock() = Some(cause.clone());
        if !self.full.swap(true, Relaxed) {
            tracing::error!(%cause, "the disk is full: only reads and deletes are served until there is space");
            self.became_full.notify_one();
        }
    }

    /// Resolves once the disk has become full since the last call.
    pub(crate) async fn became_full(&self) {
        self.became_full.notified().await;
    }

    pub(crate) fn clear_full(&self) {
        *self.cause.lock() = None;
        if self.full.swap(false, Relaxed) {
            tracing::warn!("there is space on the disk again: writes are served");
        }
    }

    /// Records the free bytes; fewer than `low_bytes` are worth a warning.
    pub(crate) fn set_free_bytes(&self, free_bytes: u64, low_bytes: u64) {
        self.free_bytes.store(free_bytes, Relaxed);
        let low = free_bytes < low_bytes;
        if !self.low.swap(low, Relaxed) && low {
            tracing::warn!(
                free_bytes,
                low_bytes,
                "the disk of the store is almost full; once it is, only reads and deletes are served"
            );
        }
    }

    /// Bytes that are free; `None` for a store without files.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        Some(self.free_bytes.load(Relaxed)).filter(|free| *free != UNKNOWN)
    }
}

impl Default for Space {
    fn default() -> Space {
        Space {
            full: AtomicBool::new(false),
            cause: Mutex::new(None),
            became_full: Notify::new(),
            low: AtomicBool::new(false),
            free_bytes: AtomicU64::new(UNKNOWN),
        }
    }
}
