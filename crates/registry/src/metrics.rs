//! Counters of the registry.

mod latency;
mod text;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use setpoint_api::ApiVerb;

pub(crate) use latency::{AdmissionDurations, AdmissionStep, CommitDurations, CommitOperation};

/// The name of the store with this index, as kube-apiserver names those of its etcd clusters.
fn storage_cluster_id(index: usize) -> String {
    format!("etcd-{index}")
}

/// A reading of the counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Metrics {
    /// By verb, in the order of [`ApiVerb::ALL`].
    pub verbs: [VerbMetrics; 8],
    /// Updates that had a conflict: returned to the caller, or retried by the server.
    pub conflicts: u64,
    /// Writes that would have changed nothing and were skipped.
    pub unchanged_writes: u64,
    pub open_watches: u64,
    /// Committed batches applied to the caches, and the changes in them.
    pub fed_batches: u64,
    pub fed_changes: u64,
}

/// Requests of one verb.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VerbMetrics {
    pub requests: u64,
    pub failed: u64,
}

/// The counters behind [`Metrics`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    requests: [AtomicU64; 8],
    failed: [AtomicU64; 8],
    pub(crate) conflicts: AtomicU64,
    pub(crate) unchanged_writes: AtomicU64,
    pub(crate) open_watches: AtomicU64,
    pub(crate) fed_batches: AtomicU64,
    pub(crate) fed_changes: AtomicU64,
    pub(crate) admission: AdmissionDurations,
}

impl Counters {
    pub(crate) fn count(&self, verb: ApiVerb, failed: bool) {
        self.requests[verb as usize].fetch_add(1, Relaxed);
        self.failed[verb as usize].fetch_add(u64::from(failed), Relaxed);
    }

    pub(crate) fn read(&self) -> Metrics {
        let mut verbs = [VerbMetrics::default(); 8];
        for (at, verb) in verbs.iter_mut().enumerate() {
            verb.requests = self.requests[at].load(Relaxed);
            verb.failed = self.failed[at].load(Relaxed);
        }
        Metrics {
            verbs,
            conflicts: self.conflicts.load(Relaxed),
            unchanged_writes: self.unchanged_writes.load(Relaxed),
            open_watches: self.open_watches.load(Relaxed),
            fed_batches: self.fed_batches.load(Relaxed),
            fed_changes: self.fed_changes.load(Relaxed),
        }
    }
}
