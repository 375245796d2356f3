//! [`PodReconciler`]: finds the pod of a key and its record, and takes its next step.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use compact_str::CompactString;
use k8s_openapi::api::core::v1;
use setpoint_api::{Clock, Key};
use setpoint_runtime::{Client, Error, Lister, Next, Reconcile, TypedObject};
use tokio::sync::mpsc;

use super::admission::Admission;
use super::bound_pod::BoundPod;
use super::record::{Records, SharedRecord};
use super::step::PodStep;
use super::work::PodExecutor;
use crate::config::Machine;
use crate::eviction::NodePressure;
use crate::pod_view::PodView;
use crate::probes::Prober;
use crate::shutdown::Shutdown;
use crate::static_pods::mirror;

/// The reconciler of all pods on all nodes of this agent.
#[derive(Debug)]
pub(crate) struct PodReconciler {
    pub(crate) pods: Lister<v1::Pod>,
    /// By the name of the node.
    pub(crate) machines: Arc<HashMap<CompactString, Machine>>,
    pub(crate) executor: Arc<PodExecutor>,
    pub(crate) records: Arc<Records>,
    pub(crate) admission: Admission,
    pub(crate) clock: Arc<dyn Clock>,
    /// Runs work that does not complete at once.
    pub(crate) tasks: mpsc::Sender<PodTask>,
    /// The scheme of container ids.
    pub(crate) scheme: String,
    /// `None` if the runtime is simulated: its containers have nothing to probe, and the last status of a deleted pod is
    /// written only if a finalizer keeps the pod, since its deletion follows at once.
    pub(crate) prober: Option<Arc<Prober>>,
    /// What the node runs out of; `None` if it is simulated.
    pub(crate) pressure: Option<Arc<NodePressure>>,
    /// The shutdown of the node, while which no pods are started.
    pub(crate) shutdown: Option<Shutdown>,
}

/// How long after a failure the mirror of a static pod is created again.
const MIRROR_RETRY: Duration = Duration::from_secs(10);

/// Work for a pod, after which the pod is reconciled again.
pub(crate) struct PodTask {
    pub(crate) key: Key,
    pub(crate) work: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Reconcile for PodReconciler {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        match self.executor.static_pods.find(key) {
            Some(static_pod) => self.reconcile_static(key, client, &static_pod).await,
            None => self.reconcile_bound(key, client).await,
        }
    }
}

impl PodReconciler {
    /// A pod of the API.
    async fn reconcile_bound(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let pod = self.pods.find(key);
        self.remove_replaced(key, pod.as_ref().map(|pod| pod.uid())).await;
        let Some(pod) = pod else {
            return Ok(Next::Done);
        };
        let view: PodView = pod.decode().map_err(Error::terminal)?;
        let Some(machine) = self.machines.get(&view.spec.node_name) else {
            return Ok(Next::Done);
        };
        let record = self.records.find_or_create(key, pod.uid());
        record.lock().node.clone_from(&machine.name);
        let is_simulated = self.prober.is_none();
        if is_settled(&record, &pod) || (is_simulated && has_settled(&record) && view.is_status_current()) {
            return Ok(Next::Done);
        }
        let object = pod.to_owned()?;
        if !is_simulated && mirror::is_mirror(&object) {
            mirror::delete(client, &pod).await?;
            return Ok(Next::Done);
        }
        let step = PodStep {
            reconciler: self,
            client,
            machine,
            record,
            pod: Arc::new(BoundPod::new(object)),
            object: Some(&pod),
        };
        step.run().await
    }

    /// A pod of a file. It is shown by a mirror pod; while the API cannot have one, it runs without.
    async fn reconcile_static(
        &self,
        key: &Key,
        client: &Client,
        static_pod: &v1::Pod,
    ) -> Result<Next, Error> {
        let uid = static_pod.metadata.uid.as_deref().unwrap_or_default();
        self.remove_replaced(key, Some(uid)).await;
        let node = static_pod
            .spec
            .as_ref()
            .and_then(|spec| spec.node_name.as_deref());
        let Some(machine) = node.and_then(|node| self.machines.get(node)) else {
            return Ok(Next::Done);
        };
        let found = self.pods.find(key);
        let object = found.as_ref().map(|pod| pod.to_owned()).transpose()?;
        let object = object.filter(|object| mirror::is_current(object, static_pod));
        if object.is_none() {
            if let Some(other) = &found {
                mirror::delete(client, other).await?;
            }
            match mirror::create(client, static_pod, &machine.name).await {
                // Its creation is the next event of this pod.
                Ok(()) => return Ok(Next::Done),
                Err(error) => tracing::warn!(pod = %key, %error, "cannot create the mirror of a static pod"),
            }
        }
        let record = self.records.find_or_create(key, uid);
        record.lock().node.clone_from(&machine.name);
        let mirror = found.filter(|_| object.is_some());
        if mirror.as_ref().is_some_and(|mirror| is_settled(&record, mirror)) {
            return Ok(Next::Done);
        }
        let step = PodStep {
            reconciler: self,
            client,
            machine,
            record,
            pod: Arc::new(BoundPod::new(mirror::pod_to_run(static_pod, object))),
            object: mirror.as_ref(),
        };
        let next = step.run().await?;
        Ok(match (next, &mirror) {
            (Next::Done, None) => Next::After(MIRROR_RETRY),
            (next, _) => next,
        })
    }

    /// Removes what is left of a pod that the API does not have any more, or has with another uid.
    async fn remove_replaced(&self, key: &Key, uid: Option<&str>) {
        let Some(record) = self.records.find(key) else {
            return;
        };
        let (old, node) = {
            let record = record.lock();
            (record.uid.clone(), record.node.clone())
        };
        if uid == Some(old.as_str()) {
            return;
        }
        self.records.remove(key, &old);
        self.admission.remove(&node, &old);
        record.lock().work.cancel();
        let executor = self.executor.clone();
        let work = Box::pin(async move { executor.remove_all(&record).await });
        self.run_task(key, work).await;
    }

    /// Polls the work once; if it does not complete, a task goes on with it. Returns whether it completed.
    pub(super) async fn run_task(
        &self,
        key: &Key,
        mut work: Pin<Box<dyn Future<Output = ()> + Send>>,
    ) -> bool {
        tokio::select! {
            biased;
            () = &mut work => return true,
            () = std::future::ready(()) => {}
        }
        let key = key.clone();
        // The channel is closed only when the agent stops.
        let _ = self.tasks.send(PodTask { key, work }).await;
        false
    }
}

/// Whether nothing is left to do for this version of the pod.
fn is_settled(record: &SharedRecord, pod: &TypedObject<v1::Pod>) -> bool {
    let version = record.lock().settled_version.clone();
    version.is_some_and(|version| version == pod.resource_version().to_string())
}

fn has_settled(record: &SharedRecord) -> bool {
    record.lock().settled_version.is_some()
}
