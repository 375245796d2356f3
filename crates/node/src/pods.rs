//! [`PodReconciler`]: starts, reports and stops the pods bound to the agent's nodes.

use std::collections::HashMap;
use std::sync::Arc;

use compact_str::CompactString;
use k8s_openapi::api::core::v1;
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Clock, Key};
use setpoint_runtime::{Client, Error, Lister, Next, Reconcile, TypedObject};

use crate::config::Machine;
use crate::plan::{PodAction, PodView, plan};
use crate::pod::Pod;
use crate::runtime::{ContainersState, KillPod, Progress, Runtime, Sandbox, SyncPod};
use crate::status;
use crate::status_update::with_status;

/// The reconciler of all pods on all nodes of this agent.
#[derive(Debug)]
pub(crate) struct PodReconciler {
    pub(crate) pods: Lister<v1::Pod>,
    /// By the name of the node.
    pub(crate) machines: Arc<HashMap<CompactString, Machine>>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Reconcile for PodReconciler {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(pod) = self.pods.find(key) else {
            self.runtime.forget(key);
            return Ok(Next::Done);
        };
        let view: PodView = pod.decode().map_err(Error::terminal)?;
        let Some(machine) = self.machines.get(&view.spec.node_name) else {
            return Ok(Next::Done);
        };
        match plan(&view) {
            PodAction::Leave => Ok(Next::Done),
            PodAction::Sync => self.sync_pod(client, machine, &pod).await,
            PodAction::Kill { grace } => {
                let request = KillPod {
                    key,
                    uid: pod.uid(),
                    grace,
                    now: self.clock.now(),
                };
                self.kill_pod(client, &pod, request).await
            }
        }
    }
}

impl PodReconciler {
    /// Adopts the pods that a previous agent left running, before any new pod gets an address. A pod that cannot be
    /// adopted fails again when it is reconciled.
    pub(crate) async fn adopt_running(&self) {
        for pod in self.pods.list() {
            let Some(machine) = self.find_machine(&pod) else {
                continue;
            };
            let Ok(decoded) = pod.decode::<Pod>() else {
                continue;
            };
            if decoded.status.pod_ip.is_some() {
                let adopted = self
                    .runtime
                    .start(self.sync_request(machine, pod.key(), &decoded))
                    .await;
                if let Err(error) = adopted {
                    tracing::warn!(pod = %pod.key(), %error, "cannot adopt a running pod");
                }
            }
        }
    }

    /// The machine of this agent that the pod is bound to.
    fn find_machine(&self, pod: &TypedObject<v1::Pod>) -> Option<&Machine> {
        let view: PodView = pod.decode().ok()?;
        self.machines.get(&view.spec.node_name)
    }

    async fn sync_pod(
        &self,
        client: &Client,
        machine: &Machine,
        pod: &TypedObject<v1::Pod>,
    ) -> Result<Next, Error> {
        let decoded: Pod = pod.decode().map_err(Error::terminal)?;
        let started = self
            .runtime
            .start(self.sync_request(machine, pod.key(), &decoded))
            .await;
        let sandbox: Sandbox = match started.map_err(Error::failed)? {
            Progress::Done(sandbox) => sandbox,
            Progress::Wait(wait) => return Ok(Next::After(wait)),
        };
        let status = status::pod_status(self.clock.now(), machine, &decoded, &sandbox);
        let next = match sandbox.containers {
            ContainersState::Running {
                recheck_after: Some(recheck_after),
                ..
            } => Next::After(recheck_after),
            ContainersState::Running { .. } | ContainersState::Terminated { .. } => Next::Done,
        };
        if decoded.status == status {
            return Ok(next);
        }
        let pods = client.namespaced::<v1::Pod>(pod.key().namespace());
        let body = with_status(pod.stored(), &status)?;
        match pods
            .dynamic()
            .update_subresource(pod.key().name(), "status", body)
            .await
        {
            Err(status) if status.is_not_found() => Ok(Next::Done),
            updated => Ok(updated.map(|_| next)?),
        }
    }

    /// Stops the pod, then deletes it from the API, by uid so that a later pod of the same name stays.
    async fn kill_pod(
        &self,
        client: &Client,
        pod: &TypedObject<v1::Pod>,
        request: KillPod<'_>,
    ) -> Result<Next, Error> {
        let stopped = self.runtime.stop(request).await.map_err(Error::failed)?;
        if let Progress::Wait(wait) = stopped {
            return Ok(Next::After(wait));
        }
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            uid: Some(pod.uid().to_owned()),
            ..DeleteOptions::default()
        };
        let pods = client.namespaced::<v1::Pod>(pod.key().namespace());
        match pods.delete(pod.key().name(), options).await {
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(Next::Done),
            deleted => Ok(deleted.map(|_| Next::Done)?),
        }
    }

    fn sync_request<'a>(&self, machine: &'a Machine, key: &'a Key, pod: &'a Pod) -> SyncPod<'a> {
        SyncPod {
            machine,
            key,
            pod,
            now: self.clock.now(),
        }
    }
}
