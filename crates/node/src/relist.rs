//! [`Relist`]: compares the agent's records with everything that the runtime has.
//!
//! At the start it finds the containers that a previous agent left running; later it catches what events missed, and
//! removes what belongs to no pod of the API any more.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use setpoint_api::{Clock, Key};
use setpoint_container_runtime::{ContainerRecord, ContainerState, Error, SandboxRecord};
use setpoint_runtime::{Lister, TypedObject};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::pod::reconciler::PodTask;
use crate::pod::record::{PodRecord, Records};
use crate::pod::work::PodExecutor;
use crate::pod_view::PodView;

/// How often everything is compared.
const INTERVAL: Duration = Duration::from_secs(10);

/// What a comparison needs.
#[derive(Debug)]
pub(crate) struct Relist {
    executor: Arc<PodExecutor>,
    records: Arc<Records>,
    pods: Lister<Pod>,
    keys: mpsc::Sender<Key>,
    tasks: mpsc::Sender<PodTask>,
    clock: Arc<dyn Clock>,
}

impl Relist {
    /// A comparison that reconciles pods by the first channel, and removes what is left of others by the second.
    pub(crate) fn new(
        executor: &Arc<PodExecutor>,
        records: &Arc<Records>,
        pods: &Lister<Pod>,
        (keys, tasks): (&mpsc::Sender<Key>, &mpsc::Sender<PodTask>),
    ) -> Self {
        Self {
            executor: executor.clone(),
            records: records.clone(),
            pods: pods.clone(),
            keys: keys.clone(),
            tasks: tasks.clone(),
            clock: executor.clock.clone(),
        }
    }

    /// Compares periodically, until stopped. Pods of which something changed are reconciled.
    pub(crate) async fn run(&self, stop: CancellationToken) {
        let mut known = HashMap::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.clock.sleep(INTERVAL) => {}
            }
            match self.compare().await {
                Ok(states) => {
                    self.wake_changed(&known, &states).await;
                    known = states;
                }
                Err(error) => tracing::warn!(%error, "cannot list the containers of the runtime"),
            }
        }
    }

    /// Adds what the runtime has to the records, and removes what belongs to no pod. Returns a hash of the state of each
    /// pod, by uid.
    pub(crate) async fn compare(&self) -> Result<HashMap<String, u64>, Error> {
        let runtime = &self.executor.runtime;
        let (mut sandboxes, mut containers) =
            (runtime.list_sandboxes().await?, runtime.list_containers().await?);
        let orphans: Vec<SandboxRecord> = sandboxes
            .extract_if(.., |sandbox| !self.is_known(sandbox))
            .collect();
        for sandbox in &orphans {
            let own = containers.extract_if(.., |container| container.sandbox == sandbox.id);
            let own: Vec<ContainerRecord> = own.collect();
            self.remove(sandbox, &own).await;
        }
        self.records.add_listed(&sandboxes, &containers);
        self.remove_cgroups().await;
        Ok(states(&sandboxes, &containers))
    }

    /// Removes the cgroups of pods that have ended or are gone, which their work has not removed.
    async fn remove_cgroups(&self) {
        let setup = &self.executor.setup;
        let with_cgroups = setup.pods_with_cgroups();
        if with_cgroups.is_empty() {
            return;
        }
        let pods = self.pods.list();
        let is_active = |pod: &TypedObject<Pod>| !pod.decode().is_ok_and(|view: PodView| view.is_terminal());
        let active: HashSet<&str> = pods
            .iter()
            .filter(|pod| is_active(pod))
            .map(|pod| pod.uid())
            .collect();
        let static_pods = self.executor.static_pods.uids();
        for uid in with_cgroups
            .iter()
            .filter(|uid| !active.contains(uid.as_str()) && !static_pods.contains(uid))
        {
            setup.remove_cgroup(uid, &*self.clock).await;
        }
    }

    fn is_known(&self, sandbox: &SandboxRecord) -> bool {
        let key = Key::new(&sandbox.pod.namespace, &sandbox.pod.name);
        let is_static = self.executor.static_pods.find(&key);
        let uid = match is_static {
            Some(pod) => pod.metadata.uid.clone(),
            None => self.pods.find(&key).map(|pod| pod.uid().to_owned()),
        };
        uid.as_ref() == Some(&sandbox.pod.uid)
    }

    /// Removes a sandbox whose pod the API does not have.
    async fn remove(&self, sandbox: &SandboxRecord, containers: &[ContainerRecord]) {
        tracing::info!(
            namespace = sandbox.pod.namespace,
            pod = sandbox.pod.name,
            uid = sandbox.pod.uid,
            "removing the containers of a pod that is no longer in the API"
        );
        let record = Arc::new(Mutex::new(PodRecord {
            uid: sandbox.pod.uid.clone(),
            sandboxes: vec![sandbox.id.clone()],
            containers: containers.iter().map(|container| container.id.clone()).collect(),
            ..PodRecord::default()
        }));
        let executor = self.executor.clone();
        let task = PodTask {
            key: Key::new(&sandbox.pod.namespace, &sandbox.pod.name),
            work: Box::pin(async move { executor.remove_all(&record).await }),
        };
        // The channel is closed only when the agent stops.
        let _ = self.tasks.send(task).await;
    }

    async fn wake_changed(&self, known: &HashMap<String, u64>, states: &HashMap<String, u64>) {
        let changed = states
            .iter()
            .filter(|(uid, state)| known.get(*uid) != Some(*state));
        let gone = known.keys().filter(|uid| !states.contains_key(*uid));
        for uid in changed.map(|(uid, _)| uid).chain(gone) {
            if let Some(key) = self.records.wake(uid) {
                // The queue is closed only when the agent stops.
                let _ = self.keys.send(key).await;
            }
        }
    }
}

/// A hash of the sandboxes and containers of each pod, by uid.
fn states(sandboxes: &[SandboxRecord], containers: &[ContainerRecord]) -> HashMap<String, u64> {
    let mut parts: HashMap<&str, Vec<(&str, u8)>> = HashMap::new();
    for sandbox in sandboxes {
        let own = parts.entry(&sandbox.pod.uid).or_default();
        own.push((&sandbox.id.0, sandbox.state as u8));
        for container in containers
            .iter()
            .filter(|container| container.sandbox == sandbox.id)
        {
            own.push((&container.id.0, state_number(&container.state)));
        }
    }
    let hash = |(uid, mut parts): (&str, Vec<(&str, u8)>)| {
        parts.sort_unstable();
        let mut hasher = DefaultHasher::new();
        parts.hash(&mut hasher);
        (uid.to_owned(), hasher.finish())
    };
    parts.into_iter().map(hash).collect()
}

fn state_number(state: &ContainerState) -> u8 {
    match state {
        ContainerState::Created => 0,
        ContainerState::Running { .. } => 1,
        ContainerState::Exited(_) => 2,
        ContainerState::Unknown => 3,
    }
}
