//! Graceful shutdown of a node: its pods are terminated in the order of their priority before the agent ends.
//!
//! The program requests it by a [`Shutdown`] and waits for its completion; meanwhile the agent works on. It
//! follows the kubelet's `pkg/kubelet/nodeshutdown`.

mod groups;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use setpoint_api::Key;
use setpoint_runtime::Lister;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::pod::bound_pod::BoundPod;
use crate::pod::record::{PodFailure, Records};
use crate::pod::work::PodExecutor;
use groups::groups;

/// The reason of pods that ended because of the shutdown.
pub(crate) const REASON: &str = "Terminated";

/// How often the agent checks whether the pods have ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// A request to shut a node down, which the agent and the program share.
#[derive(Debug, Clone)]
pub struct Shutdown {
    /// The time for all pods.
    grace_period: Duration,
    /// The part of it for critical pods, which end last.
    critical_grace_period: Duration,
    /// Cancelled once the agent waits for the request. Before, there are no pods that it could terminate.
    managed: CancellationToken,
    requested: CancellationToken,
    completed: CancellationToken,
}

/// Terminates the pods of a node that shuts down.
#[derive(Debug)]
pub(crate) struct ShutdownManager {
    pub(crate) shutdown: Shutdown,
    pub(crate) executor: Arc<PodExecutor>,
    pub(crate) records: Arc<Records>,
    pub(crate) pods: Lister<Pod>,
    /// The keys of pods to reconcile.
    pub(crate) keys: mpsc::Sender<Key>,
}

// === impl Shutdown ===

impl Shutdown {
    /// A shutdown with the time for all pods, of which a part is for critical ones.
    pub fn new(grace_period: Duration, critical_grace_period: Duration) -> Self {
        Self {
            grace_period,
            critical_grace_period: critical_grace_period.min(grace_period),
            managed: CancellationToken::new(),
            requested: CancellationToken::new(),
            completed: CancellationToken::new(),
        }
    }

    /// Terminates the pods of the node. Returns when they have ended, or their time is over, and at once if the agent still
    /// waits for its API server or its container runtime.
    pub async fn run(&self) {
        self.requested.cancel();
        if self.managed.is_cancelled() {
            self.completed.cancelled().await;
        }
    }

    pub(crate) async fn requested(&self) {
        self.requested.cancelled().await;
    }

    pub(crate) fn is_requested(&self) -> bool {
        self.requested.is_cancelled()
    }

    /// The status of a pod that comes too late.
    pub(crate) fn rejection(&self) -> Option<PodFailure> {
        self.is_requested().then(|| PodFailure {
            reason: "NodeShutdown".to_owned(),
            message: "Pod was rejected as the node is shutting down.".to_owned(),
            termination: None,
        })
    }
}

// === impl ShutdownManager ===

impl ShutdownManager {
    /// Waits for the request, and terminates the pods.
    pub(crate) async fn run(&self, stop: CancellationToken) {
        self.shutdown.managed.cancel();
        let terminate = async {
            self.shutdown.requested().await;
            self.terminate_pods().await;
        };
        stop.run_until_cancelled(terminate).await;
        self.shutdown.completed.cancel();
    }

    async fn terminate_pods(&self) {
        tracing::info!("the node is shutting down: terminating its pods");
        let Shutdown {
            grace_period,
            critical_grace_period,
            ..
        } = self.shutdown;
        for group in groups(self.active_pods(), grace_period, critical_grace_period) {
            for pod in &group.pods {
                let failure = PodFailure {
                    reason: REASON.to_owned(),
                    message: "Pod was terminated in response to imminent node shutdown.".to_owned(),
                    termination: Some(group.grace_period),
                };
                self.records.end(&pod.key, failure);
                // The queue is closed only when the agent stops.
                let _ = self.keys.send(pod.key.clone()).await;
            }
            let keys: HashSet<Key> = group.pods.iter().map(|pod| pod.key.clone()).collect();
            tokio::select! {
                () = self.wait_for_end(&keys) => {}
                () = self.executor.clock.sleep(group.grace_period) => {
                    tracing::warn!("some pods did not end within their time");
                }
            }
        }
    }

    async fn wait_for_end(&self, keys: &HashSet<Key>) {
        while self.active_pods().iter().any(|pod| keys.contains(&pod.key)) {
            self.executor.clock.sleep(CHECK_INTERVAL).await;
        }
    }

    fn active_pods(&self) -> Vec<BoundPod> {
        let keys = self.records.active().into_iter();
        let pods = keys.filter_map(|key| self.pods.find(&key)?.to_owned().ok());
        pods.map(BoundPod::new).filter(|pod| !pod.is_terminal()).collect()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_shutdown_completes_at_once_while_the_agent_has_not_started() {
        let shutdown = Shutdown::new(Duration::from_secs(30), Duration::from_secs(10));
        assert_eq!(shutdown.run().now_or_never(), Some(()));
        assert!(shutdown.is_requested());
        shutdown.managed.cancel();
        assert_eq!(shutdown.run().now_or_never(), None);
    }
}
