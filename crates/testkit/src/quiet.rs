//! Waiting until a cluster has nothing more to do.

use std::fmt;

use parking_lot::Mutex;
use setpoint_api::ResourceVersion;
use setpoint_runtime::activity::{Activity, Busy};

use crate::cluster::{Cluster, QUIET};

/// The cluster did not come to rest: who has work, and how far things have come.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("still busy at revision {revision}: {}", Shown(.busy))]
pub struct StillBusy {
    /// The newest revision there is.
    pub revision: ResourceVersion,
    /// Everyone who has work.
    pub busy: Vec<Busy>,
}

/// Who of a cluster can tell whether it has work.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    activities: Mutex<Vec<Activity>>,
}

struct Shown<'a>(&'a [Busy]);

/// When nothing has changed for so many moments, nothing will.
const MAX_SAME_MOMENTS: usize = 1000;

// === impl Cluster ===

impl Cluster {
    /// Waits until no queue has work and no reconcile runs, at this moment of the clock: what waits for its time is not
    /// waited for. The revision reached, or who is still busy when nothing moves any more.
    ///
    /// Exact for controllers and whatever else registers with its context's [`Activity`]: everything that is committed
    /// has been told, every key that was woken has been reconciled, its writes are seen, its events are written. Of the
    /// other parts it is known only that they have written nothing for a while.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use setpoint_testkit::{Cluster, Part, set};
    ///
    /// let (cluster, _running) = Cluster::with([Part::Controller("replicaset")]).await;
    /// let sets = cluster.client("me").namespaced("default");
    /// sets.create(&set("web").replicas(3).build()).await.unwrap();
    /// cluster.wait_until_quiet().await.unwrap();
    /// assert_eq!(cluster.list::<k8s_openapi::api::core::v1::Pod>().len(), 3);
    /// # }
    /// ```
    pub async fn wait_until_quiet(&self) -> Result<ResourceVersion, StillBusy> {
        let (mut last, mut same) = (None, 0);
        loop {
            let revision = self.newest();
            self.caught_up(revision).await;
            let busy = self.watched.busy();
            if busy.is_empty() && self.stays_quiet(revision).await {
                return Ok(revision);
            }
            let seen = Some((revision, busy));
            same = if seen == last { same + 1 } else { 0 };
            if let Some((revision, busy)) = seen.clone()
                && same >= MAX_SAME_MOMENTS
            {
                return Err(StillBusy { revision, busy });
            }
            last = seen;
            self.moment().await;
        }
    }

    /// Whether nobody has begun anything since the revision was looked at.
    async fn stays_quiet(&self, revision: ResourceVersion) -> bool {
        if self.watched.is_blind() {
            self.settle().await;
        }
        // Everyone who was woken meanwhile gets a turn to say so.
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        self.newest() == revision && self.watched.busy().is_empty()
    }

    /// A moment, or less if something is committed.
    async fn moment(&self) {
        let mut watcher = self.follow();
        // Whether something came does not matter: everything is looked at anew.
        let _ = tokio::time::timeout(QUIET, watcher.next()).await;
    }
}

// === impl Watched ===

impl Watched {
    pub(crate) fn add(&self, activity: &Activity) {
        self.activities.lock().push(activity.clone());
    }

    fn busy(&self) -> Vec<Busy> {
        let activities = self.activities.lock().clone();
        activities.iter().flat_map(Activity::busy).collect()
    }

    /// Whether there is one among them who does not tell.
    fn is_blind(&self) -> bool {
        let activities = self.activities.lock();
        let tells = |activity: &Activity| activity.parts().iter().any(|part| part != "event recorder");
        !activities.iter().all(tells)
    }
}

// === impl Shown ===

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let busy: Vec<String> = self.0.iter().map(Busy::to_string).collect();
        f.write_str(&busy.join("; "))
    }
}
