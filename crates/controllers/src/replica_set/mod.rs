//! The ReplicaSet controller: keeps the number of identical pods that each ReplicaSet specifies. The same code runs as
//! the ReplicationController controller.
//!
//! It is the smallest complete controller here, and the model of the others. A reconcile has four steps:
//!
//! 1. *Read* the set and its pods from the caches. Only the key of the set is given, no event: whatever events were
//!    missed, the next reconcile corrects it.
//! 2. *Plan* in [`mod@plan`], a pure function: how many pods to create, or which to delete.
//! 3. *Act* on the plan through the API, in batches.
//! 4. *Report* the counts and a failure in the status, if it changed.
//!
//! A cache is a little behind the server, so a reconcile that ran at once again would create the same pods twice. The
//! runtime prevents this: the client that each reconcile is given records its writes, and the key is held until the
//! caches have them. So every write goes through that client, and the reconciler keeps none.
//!
//! Start reading at [`ReplicaSets::reconcile`], then [`mod@plan`].

mod kind;
mod plan;
mod status;
mod views;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{self, ReplicationController};
use setpoint_api::{Change, Clock, Key, Status};
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Reconcile, TypedObject};
use tokio_util::sync::CancellationToken;

use crate::pod_control::PodControl;
use crate::pods::Pod;
use crate::replica_set::kind::Set;
use crate::replica_set::plan::{Action, Plan, plan};
use crate::replica_set::status::{Failure, status};
use crate::replica_set::views::SetView;
use crate::{Config, controller_ref, template};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "replicaset-controller";
/// The name of the ReplicationController controller.
pub const REPLICATION_NAME: &str = "replicationcontroller-controller";

/// Runs the ReplicaSet controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    run_for::<ReplicaSet>(context, &config, stop).await
}

/// Runs the ReplicationController controller until stopped.
pub async fn run_replication(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    run_for::<ReplicationController>(context, &config, stop).await
}

async fn run_for<T: Set>(context: Context, config: &Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = ReplicaSets::<T>::new(&context)?;
    let sets = reconciler.sets.clone();
    Controller::new(T::CONTROLLER, reconciler)
        .reconciles::<T>()
        .watches(v1::Pod::resource().group_resource(), move |change| {
            sets_to_enqueue(&sets, change)
        })
        .workers(config.workers(T::CONTROLLER))
        .run(&context, stop)
        .await
}

/// The sets to enqueue after a change of a pod: its controller, or all that select it while it has none.
fn sets_to_enqueue<T: Set>(sets: &Lister<T>, change: &Change) -> Vec<Key> {
    controller_ref::owners_to_enqueue(sets, change, |set| {
        T::view(set).ok().map(|view| view.selector.clone())
    })
}

/// The reconciler: what it reads, and what it creates and deletes pods with.
#[derive(Debug)]
pub(crate) struct ReplicaSets<T> {
    sets: Lister<T>,
    pods: Lister<v1::Pod>,
    pod_control: PodControl,
    clock: Arc<dyn Clock>,
}

impl<T: Set> Reconcile for ReplicaSets<T> {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(set) = self.sets.find(key) else {
            return Ok(Next::Done);
        };
        let view = T::view(&set).map_err(Error::terminal)?;
        let pods = self.claim_pods(client, &set, &view).await?;
        let plan = plan(self.clock.now(), &view, &pods, || self.related_pods(&set, &pods));
        let outcome = self.carry_out(client, &set, &plan).await;
        let status = status(self.clock.now(), &view, plan.counts, outcome.as_ref().err());
        report(client, &set, &view.status, T::supported_status(status)).await?;
        outcome.map_err(|failure| failure.error)?;
        Ok(plan.next)
    }
}

impl<T: Set> ReplicaSets<T> {
    pub(crate) fn new(context: &Context) -> Result<Self, Error> {
        let pods = context.lister()?;
        controller_ref::add_orphan_index(&pods);
        let events = context.events.for_component(T::COMPONENT);
        Ok(Self {
            sets: context.lister()?,
            pods,
            pod_control: PodControl::new(events),
            clock: context.clock.clone(),
        })
    }

    /// The pods of the set, after adopting and releasing pods by its selector.
    async fn claim_pods(
        &self,
        client: &Client,
        set: &TypedObject<T>,
        view: &SetView,
    ) -> Result<Vec<Pod>, Error> {
        let claimed = controller_ref::claim(client, &self.pods, set, &view.selector).await?;
        Ok(claimed.into_iter().map(Pod::read).collect())
    }

    /// The pods of all sets with the same controller as this one, its own included.
    fn related_pods(&self, set: &TypedObject<T>, own: &[Pod]) -> Vec<Pod> {
        let Some(controller) = set.controller() else {
            return own.to_vec();
        };
        let siblings = self.sets.owned_by(&controller.uid);
        let pods = siblings
            .iter()
            .flat_map(|sibling| self.pods.owned_by(sibling.uid()));
        pods.map(|pod| Pod::read(pod.into_stored())).collect()
    }

    /// Creates or deletes pods as planned.
    async fn carry_out(&self, client: &Client, set: &TypedObject<T>, plan: &Plan<'_>) -> Result<(), Failure> {
        match &plan.action {
            Action::Nothing => Ok(()),
            Action::Create(count) => self.create(client, set, *count).await.map_err(Failure::create),
            Action::Delete(victims) => {
                let victims = victims.iter().copied();
                let deleted = self.pod_control.delete(client, set, victims).await;
                deleted.map_err(Failure::delete)
            }
        }
    }

    /// Creates this number of pods from the template.
    async fn create(&self, client: &Client, set: &TypedObject<T>, count: usize) -> Result<(), Status> {
        let new_pod = template::new_pod(set, set.to_owned()?.into_template());
        let pods = &self.pod_control;
        let outcome = pods.create_identical(client, set, &new_pod, count).await?;
        outcome.into_result().map(drop)
    }
}

/// Writes the status if it changed.
async fn report<T: Set>(
    client: &Client,
    set: &TypedObject<T>,
    old: &ReplicaSetStatus,
    new: ReplicaSetStatus,
) -> Result<(), Error> {
    if new == *old {
        return Ok(());
    }
    let mut updated = set.to_owned()?;
    updated.put_status(new);
    let sets = client.namespaced::<T>(set.key().namespace());
    match sets.update_status(&updated).await {
        Err(status) if status.is_not_found() => Ok(()),
        written => Ok(written.map(drop)?),
    }
}

#[cfg(test)]
mod tests;
