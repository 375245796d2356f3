//! The pods on our nodes: brought up, reported, taken down.

use std::collections::HashMap;
use std::sync::Arc;

use compact_str::CompactString;
use k8s_openapi::api::core::v1::Pod;
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Clock, Key};
use setpoint_runtime::{Client, Error, Lister, Next, Reconcile, Typed};

use crate::config::Machine;
use crate::plan::{PodView, Step, step};
use crate::runtime::{Life, Progress, Runtime, Sandbox, Unwanted, Wanted};
use crate::status;

/// The reconciler of all pods on all nodes of this agent.
#[derive(Debug)]
pub(crate) struct Pods {
    pub(crate) pods: Lister<Pod>,
    /// By the name of the node.
    pub(crate) machines: Arc<HashMap<CompactString, Machine>>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) client: Client,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Reconcile for Pods {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(pod) = self.pods.find(key) else {
            self.runtime.forget(key);
            return Ok(Next::Done);
        };
        let view: PodView = pod.decode().map_err(Error::terminal)?;
        let Some(machine) = self.machines.get(&view.spec.node_name) else {
            return Ok(Next::Done);
        };
        match step(&view) {
            Step::Leave => Ok(Next::Done),
            Step::Run => self.bring_up(machine, &pod).await,
            Step::Stop { grace } => {
                let unwanted = Unwanted {
                    key,
                    uid: pod.uid(),
                    grace,
                    now: self.clock.now(),
                };
                self.take_down(&pod, unwanted).await
            }
        }
    }
}

impl Pods {
    /// Takes over the pods that an agent before this one has left running, before any new one gets an address. A
    /// pod that cannot be taken over shows when its turn comes.
    pub(crate) async fn take_over(&self) {
        for pod in self.pods.list() {
            let Some(machine) = self.find_machine(&pod) else {
                continue;
            };
            let Ok(decoded) = pod.to_owned() else {
                continue;
            };
            if decoded
                .status
                .as_ref()
                .is_some_and(|status| status.pod_ip.is_some())
            {
                let taken = self
                    .runtime
                    .start(self.wanted(machine, pod.key(), &decoded))
                    .await;
                if let Err(error) = taken {
                    tracing::warn!(pod = %pod.key(), %error, "a running pod was not taken over");
                }
            }
        }
    }

    /// The machine among ours that the pod is bound to.
    fn find_machine(&self, pod: &Typed<Pod>) -> Option<&Machine> {
        let view: PodView = pod.decode().ok()?;
        self.machines.get(&view.spec.node_name)
    }

    async fn bring_up(&self, machine: &Machine, pod: &Typed<Pod>) -> Result<Next, Error> {
        let mut decoded = pod.to_owned()?;
        let started = self
            .runtime
            .start(self.wanted(machine, pod.key(), &decoded))
            .await;
        let sandbox: Sandbox = match started.map_err(Error::failed)? {
            Progress::Done(sandbox) => sandbox,
            Progress::Wait(wait) => return Ok(Next::After(wait)),
        };
        let status = status::told(self.clock.now(), machine, &decoded, &sandbox);
        let next = match sandbox.life {
            Life::Running { look: Some(look), .. } => Next::After(look),
            Life::Running { .. } | Life::Ended { .. } => Next::Done,
        };
        if decoded.status.as_ref() == Some(&status) {
            return Ok(next);
        }
        decoded.status = Some(status);
        let pods = self.client.namespaced::<Pod>(pod.key().namespace());
        match pods.update_status(&decoded).await {
            Err(status) if status.is_not_found() => Ok(Next::Done),
            updated => Ok(updated.map(|_| next)?),
        }
    }

    /// Stops the pod, then lets go of it. Only this very pod: one that came later under its name stays.
    async fn take_down(&self, pod: &Typed<Pod>, unwanted: Unwanted<'_>) -> Result<Next, Error> {
        let stopped = self.runtime.stop(unwanted).await.map_err(Error::failed)?;
        if let Progress::Wait(wait) = stopped {
            return Ok(Next::After(wait));
        }
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            uid: Some(pod.uid().to_owned()),
            ..DeleteOptions::default()
        };
        let pods = self.client.namespaced::<Pod>(pod.key().namespace());
        match pods.delete(pod.key().name(), options).await {
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(Next::Done),
            deleted => Ok(deleted.map(|_| Next::Done)?),
        }
    }

    fn wanted<'a>(&self, machine: &'a Machine, key: &'a Key, pod: &'a Pod) -> Wanted<'a> {
        Wanted {
            machine,
            key,
            pod,
            now: self.clock.now(),
        }
    }
}
