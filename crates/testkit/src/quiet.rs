//! [`Cluster::wait_until_quiet`]: waits until no controller has work.

use std::fmt;

use parking_lot::Mutex;
use setpoint_api::ResourceVersion;
use setpoint_runtime::activity::{Activity, BusyComponent};

use crate::cluster::{Cluster, QUIET_INTERVAL};

/// The cluster did not become quiet: the components that have work, and the newest revision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("still busy at revision {revision}: {}", BusyList(.busy))]
pub struct StillBusy {
    /// The newest revision.
    pub revision: ResourceVersion,
    /// The components that have work.
    pub busy: Vec<BusyComponent>,
}

/// The activity trackers of the components of a cluster.
#[derive(Debug, Default)]
pub(crate) struct ActivitySet {
    activities: Mutex<Vec<Activity>>,
}

struct BusyList<'a>(&'a [BusyComponent]);

/// After this many intervals without a change, the wait fails.
const MAX_UNCHANGED_INTERVALS: usize = 1000;

// === impl Cluster ===

impl Cluster {
    /// Waits until no queue has work and no reconcile runs at the current time of the clock: delayed keys are not waited
    /// for. Returns the revision reached, or the components that are still busy when nothing changes any more.
    ///
    /// Exact for controllers and whatever else registers with its context's [`Activity`]: every commit has been
    /// delivered, every enqueued key has been reconciled, its writes are in the caches, its events are written. Of other
    /// components it is known only that they have written nothing for a while.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use setpoint_testkit::{Cluster, Component, replica_set};
    ///
    /// let (cluster, _running) = Cluster::with([Component::Controller("replicaset")]).await;
    /// let sets = cluster.client("me").namespaced("default");
    /// sets.create(&replica_set("web").replicas(3).build()).await.unwrap();
    /// cluster.wait_until_quiet().await.unwrap();
    /// assert_eq!(cluster.list::<k8s_openapi::api::core::v1::Pod>().len(), 3);
    /// # }
    /// ```
    pub async fn wait_until_quiet(&self) -> Result<ResourceVersion, StillBusy> {
        let (mut last, mut same) = (None, 0);
        loop {
            let revision = self.revision();
            self.wait_for_caches(revision).await;
            let busy = self.activities.busy();
            if busy.is_empty() && self.stays_quiet(revision).await {
                return Ok(revision);
            }
            let state = Some((revision, busy));
            same = if state == last { same + 1 } else { 0 };
            if let Some((revision, busy)) = state.clone()
                && same >= MAX_UNCHANGED_INTERVALS
            {
                return Err(StillBusy { revision, busy });
            }
            last = state;
            self.wait_interval().await;
        }
    }

    /// Whether no component has started work since the revision was read.
    async fn stays_quiet(&self, revision: ResourceVersion) -> bool {
        if self.activities.has_unreported() {
            self.settle().await;
        }
        // Tasks that were woken meanwhile get a turn to register as busy.
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        self.revision() == revision && self.activities.busy().is_empty()
    }

    /// Waits for a quiet interval, or less if something is committed.
    async fn wait_interval(&self) {
        let mut watcher = self.watch_store();
        // Whether something was committed does not matter: the caller checks everything again.
        let _ = tokio::time::timeout(QUIET_INTERVAL, watcher.next()).await;
    }
}

// === impl ActivitySet ===

impl ActivitySet {
    pub(crate) fn add(&self, activity: &Activity) {
        self.activities.lock().push(activity.clone());
    }

    fn busy(&self) -> Vec<BusyComponent> {
        let activities = self.activities.lock().clone();
        activities.iter().flat_map(Activity::busy).collect()
    }

    /// Whether a component does not report its activity.
    fn has_unreported(&self) -> bool {
        let activities = self.activities.lock();
        let reports = |activity: &Activity| activity.components().iter().any(|part| part != "event recorder");
        !activities.iter().all(reports)
    }
}

// === impl BusyList ===

impl fmt::Display for BusyList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let busy: Vec<String> = self.0.iter().map(BusyComponent::to_string).collect();
        f.write_str(&busy.join("; "))
    }
}
