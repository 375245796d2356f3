//! Events: hints that a pod changed.

use tokio::sync::broadcast;

/// A change of a sandbox or of one of its containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The uid of the pod, if the runtime knows it; otherwise all pods are to be looked at.
    pub pod_uid: Option<String>,
}

/// Receives events. One that lags behind gets an error, and looks at all pods.
pub type EventReceiver = broadcast::Receiver<Event>;
