//! [`PodRecord`]: what the agent remembers of a pod between two reconciles.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use compact_str::CompactString;
use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_api::Key;
use setpoint_container_runtime::{ContainerId, ContainerRecord, SandboxId, SandboxRecord};
use tokio_util::sync::CancellationToken;

use super::backoff::Backoff;
use super::resize::{ActuatedResources, ResizeState};

/// The name of the removal of a pod among the retries, which no container has.
pub(crate) const REMOVAL: &str = "/removal";

/// What the agent remembers of a pod. All of it can be found again in the runtime and in the pod's status, except the
/// progress of work that a restart aborts.
#[derive(Debug, Default)]
pub(crate) struct PodRecord {
    pub(crate) uid: String,
    /// The name of its node.
    pub(crate) node: CompactString,
    /// All sandboxes of the pod in the runtime.
    pub(crate) sandboxes: Vec<SandboxId>,
    /// All containers of the pod in the runtime.
    pub(crate) containers: Vec<ContainerId>,
    /// Back-offs of restarts, by the name of the container.
    pub(crate) backoffs: BTreeMap<String, Backoff>,
    /// Images that could not be pulled, by reference.
    pub(crate) pulls: BTreeMap<String, PullFailure>,
    /// Why containers do not run, by name.
    pub(crate) waiting: BTreeMap<String, WaitingReason>,
    /// The resources that the containers run with, as far as this agent has set them.
    pub(crate) actuated: ActuatedResources,
    /// A resize that has not been carried out.
    pub(crate) resize: Option<ResizeState>,
    /// Why the agent ended the pod.
    pub(crate) failure: Option<PodFailure>,
    /// Whether nothing runs any more of a pod that ended, which the API may not have yet.
    pub(crate) has_stopped: bool,
    /// The work that a task does for the pod.
    pub(crate) work: Work,
    /// When a failed start is tried again, by the name of the container; the empty name is the sandbox, and [`REMOVAL`] the
    /// removal of the pod.
    pub(crate) retries: BTreeMap<String, Timestamp>,
    /// The resource version of the pod at which its status was complete and nothing was left to do. Whatever changes the
    /// pod other than through the API clears it.
    pub(crate) settled_version: Option<String>,
    /// The number of such changes. A step during which there was one has seen an older state, and settles nothing.
    pub(crate) changes: u64,
    /// Whether the last status of the deleted pod has been written.
    pub(crate) has_last_status: bool,
}

/// The work that is done for a pod outside its reconcile.
#[derive(Debug, Default)]
pub(crate) enum Work {
    /// None: the next reconcile plans.
    #[default]
    Idle,
    /// A task starts and stops containers by a plan. When it ends the pod is reconciled again.
    Sync { cancel: CancellationToken },
    /// A task stops the whole pod within this grace period, in seconds.
    Kill { grace: u64, cancel: CancellationToken },
}

/// Why a container does not run, for its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingReason {
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// An image that could not be pulled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PullFailure {
    pub(crate) backoff: Backoff,
    pub(crate) failed: Timestamp,
    /// The reason and the text of the failure.
    pub(crate) waiting: WaitingReason,
}

/// Why the agent ended a pod: the reason and the message of its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodFailure {
    pub(crate) reason: String,
    pub(crate) message: String,
    /// How long the containers of a running pod may take to stop, if the node terminates it for its own sake: such a pod has
    /// the condition DisruptionTarget.
    pub(crate) termination: Option<Duration>,
}

/// The records of all pods of an agent.
#[derive(Debug, Default)]
pub(crate) struct Records(Mutex<RecordMaps>);

/// A record that a reconcile and the work of the pod share.
pub(crate) type SharedRecord = Arc<Mutex<PodRecord>>;

#[derive(Debug, Default)]
struct RecordMaps {
    by_key: HashMap<Key, SharedRecord>,
    /// The key of each pod by its uid: exactly those of `by_key`.
    by_uid: HashMap<String, Key>,
}

// === impl PodRecord ===

impl PodRecord {
    /// Whether the pod may be removed now: after a failure that waits, as the end of the failed work reconciles the pod at once.
    pub(crate) fn may_remove(&self, now: Timestamp) -> bool {
        self.retries.get(REMOVAL).is_none_or(|at| *at <= now)
    }

    /// The runtime does not have the container any more.
    pub(crate) fn remove_container(&mut self, id: &ContainerId) {
        self.containers.retain(|own| own != id);
        self.actuated.remove(id);
    }

    /// The pod changed other than through the API: it is looked at again, whatever its resource version.
    pub(crate) fn mark_changed(&mut self) {
        self.settled_version = None;
        self.changes += 1;
    }
}

// === impl WaitingReason ===

impl WaitingReason {
    pub(crate) fn new(reason: &str, message: impl Into<String>) -> Self {
        Self {
            reason: reason.to_owned(),
            message: message.into(),
        }
    }
}

// === impl Work ===

impl Work {
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self, Self::Idle)
    }

    /// Ends the task early.
    pub(crate) fn cancel(&self) {
        match self {
            Self::Idle => {}
            Self::Sync { cancel } | Self::Kill { cancel, .. } => cancel.cancel(),
        }
    }
}

// === impl Records ===

impl Records {
    /// The record of a pod; a new one if there is none of this uid.
    pub(crate) fn find_or_create(&self, key: &Key, uid: &str) -> SharedRecord {
        let mut maps = self.0.lock();
        if let Some(record) = maps.by_key.get(key)
            && record.lock().uid == uid
        {
            return record.clone();
        }
        let record = PodRecord {
            uid: uid.to_owned(),
            ..PodRecord::default()
        };
        let record = Arc::new(Mutex::new(record));
        maps.by_key.insert(key.clone(), record.clone());
        maps.by_uid.insert(uid.to_owned(), key.clone());
        record
    }

    /// The record of a pod of any uid.
    pub(crate) fn find(&self, key: &Key) -> Option<SharedRecord> {
        self.0.lock().by_key.get(key).cloned()
    }

    /// Ends a pod. What is done for it now is the last.
    pub(crate) fn end(&self, key: &Key, failure: PodFailure) {
        if let Some(record) = self.find(key) {
            let mut record = record.lock();
            if record.failure.is_none() {
                record.failure = Some(failure);
                record.mark_changed();
            }
        }
    }

    /// The record of the pod of this uid, if no task works for it.
    pub(crate) fn find_idle(&self, uid: &str) -> Option<SharedRecord> {
        let maps = self.0.lock();
        let record = maps.by_key.get(maps.by_uid.get(uid)?)?;
        record.lock().work.is_idle().then(|| record.clone())
    }

    /// The keys of all pods that the runtime may have something of.
    pub(crate) fn active(&self) -> Vec<Key> {
        self.keys_of(|record| !record.sandboxes.is_empty())
    }

    /// The keys of all pods of which something may run.
    pub(crate) fn running(&self) -> Vec<Key> {
        self.keys_of(|record| !record.sandboxes.is_empty() && !record.has_stopped)
    }

    fn keys_of(&self, is_selected: impl Fn(&PodRecord) -> bool) -> Vec<Key> {
        let maps = self.0.lock();
        let selected = maps
            .by_key
            .iter()
            .filter(|(_, record)| is_selected(&record.lock()));
        selected.map(|(key, _)| key.clone()).collect()
    }

    /// Whether there is a pod of this uid.
    pub(crate) fn has(&self, uid: &str) -> bool {
        self.0.lock().by_uid.contains_key(uid)
    }

    pub(crate) fn remove(&self, key: &Key, uid: &str) {
        let mut maps = self.0.lock();
        maps.by_uid.remove(uid);
        let is_same = maps
            .by_key
            .get(key)
            .is_some_and(|record| record.lock().uid == uid);
        if is_same {
            maps.by_key.remove(key);
        }
    }

    /// The key of the pod of this uid, which is to be looked at again.
    pub(crate) fn wake(&self, uid: &str) -> Option<Key> {
        let maps = self.0.lock();
        let key = maps.by_uid.get(uid)?;
        if let Some(record) = maps.by_key.get(key) {
            record.lock().mark_changed();
        }
        Some(key.clone())
    }

    /// The keys of all pods, which are to be looked at again.
    pub(crate) fn wake_all(&self) -> Vec<Key> {
        let maps = self.0.lock();
        for record in maps.by_key.values() {
            record.lock().mark_changed();
        }
        maps.by_key.keys().cloned().collect()
    }

    /// Adds what the runtime has to the records, which are created where they are missing.
    pub(crate) fn add_listed(&self, sandboxes: &[SandboxRecord], containers: &[ContainerRecord]) {
        let mut owners = HashMap::new();
        for sandbox in sandboxes {
            let key = Key::new(&sandbox.pod.namespace, &sandbox.pod.name);
            let record = self.find_or_create(&key, &sandbox.pod.uid);
            let mut locked = record.lock();
            if !locked.sandboxes.contains(&sandbox.id) {
                locked.sandboxes.push(sandbox.id.clone());
            }
            drop(locked);
            owners.insert(&sandbox.id, record);
        }
        for container in containers {
            let Some(record) = owners.get(&container.sandbox) else {
                continue;
            };
            let mut record = record.lock();
            if !record.containers.contains(&container.id) {
                record.containers.push(container.id.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_that_failed_waits_for_its_retry() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut record = PodRecord::default();
        assert!(record.may_remove(at(0)));
        record.retries.insert(REMOVAL.to_owned(), at(5));
        assert!(!record.may_remove(at(4)) && record.may_remove(at(5)));
    }

    #[test]
    fn a_pod_that_has_stopped_is_active_until_it_is_removed_and_does_not_run() {
        let (records, key) = (Records::default(), Key::new("default", "web"));
        let record = records.find_or_create(&key, "u1");
        record.lock().sandboxes.push(SandboxId("s1".to_owned()));
        assert_eq!((records.active().len(), records.running().len()), (1, 1));
        record.lock().has_stopped = true;
        assert_eq!((records.active().len(), records.running().len()), (1, 0));
    }
}
