//! [`Entry`]: a pod in the queue, and its state there.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use crate::pod_info::PodInfo;

/// A queued pod.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) pod: Arc<PodInfo>,
    /// How often it was popped.
    pub(super) attempts: u32,
    /// How often no node fitted.
    pub(super) unschedulable_count: u32,
    /// How often in a row an attempt failed otherwise.
    pub(super) error_count: u32,
    pub(super) first_attempt: Option<Timestamp>,
    /// When the last attempt ended.
    pub(super) since: Timestamp,
    pub(super) arrival: u64,
    /// The plugins that rejected it in the last attempt.
    pub(super) unschedulable_plugins: BTreeSet<&'static str>,
    /// Those among them that wait for something outside.
    pub(super) pending_plugins: BTreeSet<&'static str>,
    pub(super) state: QueueState,
}

/// The state of a queued pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueueState {
    /// It can be tried now.
    Active,
    /// An attempt failed; it becomes active at that time.
    Backoff { until: Timestamp, is_error: bool },
    /// No node fits. An event that may help ends it; at the latest that time does.
    Unschedulable { until: Timestamp },
    /// A PreEnqueue plugin holds it back until the pod is updated, or an event happens that the plugin registered.
    Gated,
    /// It was popped: its scheduling cycle or its binding is in flight, since the event of that number.
    InFlight { start: u64 },
}

impl QueueState {
    /// The queue as metrics name it; `None` for a pod that was popped.
    pub(super) fn queue(self) -> Option<&'static str> {
        match self {
            Self::Active => Some("active"),
            Self::Backoff { .. } => Some("backoff"),
            Self::Unschedulable { .. } | Self::Gated => Some("unschedulable"),
            Self::InFlight { .. } => None,
        }
    }
}

impl Entry {
    pub(super) fn new(pod: Arc<PodInfo>, arrival: u64) -> Self {
        Self {
            pod,
            attempts: 0,
            unschedulable_count: 0,
            error_count: 0,
            first_attempt: None,
            since: Timestamp::UNIX_EPOCH,
            arrival,
            unschedulable_plugins: BTreeSet::new(),
            pending_plugins: BTreeSet::new(),
            state: QueueState::InFlight { start: u64::MAX },
        }
    }
}
