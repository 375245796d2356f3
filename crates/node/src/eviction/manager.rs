//! [`EvictionManager`]: watches the node's resources, and evicts one pod at a time while one of them is low.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use parking_lot::Mutex;
use setpoint_api::{Clock, Key, Quantity};
use setpoint_runtime::{EventType, Lister};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::message::message;
use super::observation::{Observations, met, observe};
use super::pressure::{NodePressure, Pressure};
use super::ranking::{Candidate, is_critical, rank};
use super::threshold::{Signal, Threshold};
use super::usage::{ContainerUsage, container_usage, pod_usage};
use crate::container_config::pod_resources::pod_requests;
use crate::container_config::{NodeFacts, log_directory, pod_directory};
use crate::garbage_collection::GarbageCollector;
use crate::pod::bound_pod::BoundPod;
use crate::pod::record::{PodFailure, Records};
use crate::pod::work::PodExecutor;

/// How often the resources are measured.
const INTERVAL: Duration = Duration::from_secs(10);
/// A condition of the node holds for this long after its resource was low for the last time.
const PRESSURE_TRANSITION_PERIOD: Duration = Duration::from_secs(5 * 60);
/// How long the containers of an evicted pod may take to stop.
const EVICTION_GRACE: Duration = Duration::from_secs(1);
/// How long the manager waits for an evicted pod to end before it measures again, and how often it checks.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(30);
const CLEANUP_INTERVAL: Duration = Duration::from_secs(1);

/// Evicts pods from this machine.
#[derive(Debug)]
pub(crate) struct EvictionManager {
    pub(crate) thresholds: Vec<Threshold>,
    pub(crate) pressure: Arc<NodePressure>,
    pub(crate) executor: Arc<PodExecutor>,
    pub(crate) records: Arc<Records>,
    pub(crate) pods: Lister<Pod>,
    pub(crate) node: Arc<NodeFacts>,
    pub(crate) garbage: Arc<GarbageCollector>,
    /// The keys of pods to reconcile.
    pub(crate) keys: mpsc::Sender<Key>,
    /// When each condition was observed for the last time.
    pub(crate) observed_at: Mutex<BTreeMap<Pressure, Timestamp>>,
}

impl EvictionManager {
    /// Measures periodically until stopped.
    pub(crate) async fn run(&self, stop: CancellationToken) {
        let watch = async {
            loop {
                if let Some(key) = self.synchronize().await {
                    self.wait_for_end(&key).await;
                } else {
                    self.clock().sleep(INTERVAL).await;
                }
            }
        };
        stop.run_until_cancelled(watch).await;
    }

    fn clock(&self) -> &dyn Clock {
        &*self.executor.clock
    }

    /// Measures once, and frees what is low. Returns the key of the pod that was evicted for it.
    async fn synchronize(&self) -> Option<Key> {
        let observations = self.observe().await;
        let met = met(&self.thresholds, &observations);
        self.update_pressure(met.iter().map(|threshold| threshold.signal.pressure()));
        let threshold = **met.first()?;
        self.node_event(&format!("Attempting to reclaim {}", threshold.signal.resource()));
        if self.reclaim(threshold).await {
            return None;
        }
        self.evict(&threshold, &observations).await
    }

    async fn observe(&self) -> Observations {
        observe(&*self.executor.runtime, &self.node.root).await
    }

    /// The conditions that hold: those observed now, and those observed not long ago.
    fn update_pressure(&self, now_observed: impl Iterator<Item = Pressure>) {
        let now = self.clock().now();
        let mut observed_at = self.observed_at.lock();
        observed_at.extend(now_observed.map(|pressure| (pressure, now)));
        observed_at.retain(|_, at| is_recent(*at, now));
        let pressures: BTreeSet<Pressure> = observed_at.keys().copied().collect();
        self.pressure.set(pressures);
    }

    /// Removes dead containers and unused images if the disk is low. Returns whether that was enough.
    async fn reclaim(&self, threshold: Threshold) -> bool {
        if threshold.signal.pressure() != Pressure::Disk {
            return false;
        }
        self.garbage.collect_containers_of_ended_pods().await;
        self.garbage.remove_unused_images().await;
        met(&self.thresholds, &self.observe().await)
            .iter()
            .all(|threshold| threshold.signal.pressure() != Pressure::Disk)
    }

    /// Evicts the first pod of the ranking.
    async fn evict(&self, threshold: &Threshold, observations: &Observations) -> Option<Key> {
        let usage = container_usage(&*self.executor.runtime).await;
        let usage = usage.inspect_err(|error| tracing::warn!(%error, "cannot measure the pods"));
        let mut usage = usage.ok()?;
        let pods = self.active_pods();
        let measures: Vec<_> = pods.values().map(|pod| self.measure(pod, &usage)).collect();
        let signal = threshold.signal;
        // Files are counted outside the threads of async tasks: there may be millions.
        let candidates = tokio::task::spawn_blocking(move || {
            let mut candidates: Vec<Candidate> =
                measures.iter().map(|measure| measure.candidate(signal)).collect();
            rank(&mut candidates);
            candidates
        });
        let candidates = candidates.await.ok()?;
        let evictable = |one: &&Candidate| pods.get(&one.key).is_some_and(|pod| !is_critical(&pod.object));
        let key = candidates.iter().find(evictable)?.key.clone();
        let pod = pods.get(&key)?;
        let containers = usage.remove(pod.uid()).unwrap_or_default();
        let message = message(threshold, observations, &pod.object, &containers);
        tracing::warn!(pod = %key, message, "evicting a pod");
        self.executor
            .events
            .pod(pod, EventType::Warning, "Evicted", message.clone());
        let failure = PodFailure {
            reason: "Evicted".to_owned(),
            message,
            termination: Some(EVICTION_GRACE),
        };
        self.records.end(&key, failure);
        // The queue is closed only when the agent stops.
        let _ = self.keys.send(key.clone()).await;
        Some(key)
    }

    /// The pods of the agent of which something may run, by key. An evicted pod that has stopped is not among them, even if
    /// the API server cannot be reached to have its status.
    fn active_pods(&self) -> BTreeMap<Key, Arc<BoundPod>> {
        let keys = self.records.running().into_iter();
        let pod = |key: Key| {
            let pod = self.pods.find(&key)?.to_owned().ok()?;
            let pod = BoundPod::new(pod);
            (!pod.is_terminal()).then(|| (key, Arc::new(pod)))
        };
        keys.filter_map(pod).collect()
    }

    fn measure(&self, pod: &Arc<BoundPod>, usage: &HashMap<String, ContainerUsage>) -> PodMeasure {
        let volumes = pod_directory(&self.node.root, pod.uid()).join("volumes/kubernetes.io~empty-dir");
        PodMeasure {
            pod: pod.clone(),
            containers: usage.get(pod.uid()).cloned(),
            directories: [volumes, log_directory(&pod.object, &self.node)],
        }
    }

    async fn wait_for_end(&self, key: &Key) {
        let began = self.clock().now();
        loop {
            self.clock().sleep(CLEANUP_INTERVAL).await;
            let waited = Duration::try_from(self.clock().now().duration_since(began));
            let is_running = self.active_pods().contains_key(key);
            if !is_running || waited.is_ok_and(|waited| waited >= CLEANUP_TIMEOUT) {
                return;
            }
        }
    }

    fn node_event(&self, message: &str) {
        if let Some(recorder) = &self.executor.events.recorder {
            let node = ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(self.node.name.clone()),
                // The kubelet's events about its node have the name as uid.
                uid: Some(self.node.name.clone()),
                ..ObjectReference::default()
            };
            recorder.record(node, EventType::Warning, "EvictionThresholdMet", message);
        }
    }
}

/// A pod whose use of a resource is to be measured.
struct PodMeasure {
    pod: Arc<BoundPod>,
    /// `None` if the runtime reports nothing of it.
    containers: Option<ContainerUsage>,
    /// Its volumes and logs on the node's disk.
    directories: [PathBuf; 2],
}

impl PodMeasure {
    /// The pod with its use. Reads the whole tree of its files if the signal is about disks.
    fn candidate(&self, signal: Signal) -> Candidate {
        let containers = self.containers.as_ref();
        let usage = containers.and_then(|containers| pod_usage(signal, containers, &self.directories));
        let requests = pod_requests(&self.pod.object);
        let request = requests.get(signal.resource());
        Candidate {
            key: self.pod.key.clone(),
            priority: self.pod.spec().priority.unwrap_or(0),
            usage,
            request: request.copied().map_or(0, Quantity::value),
        }
    }
}

fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    let passed = Duration::try_from(now.duration_since(at)).unwrap_or_default();
    passed < PRESSURE_TRANSITION_PERIOD
}
