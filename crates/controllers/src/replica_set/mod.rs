//! Keeps the number of identical pods that each ReplicaSet specifies.
//!
//! A reconcile reads the set and its pods from the caches, decides in [`mod@plan`] (pure), creates or deletes, and
//! writes the status if it changed. It never counts events: whatever was missed, the next reconcile corrects it. It
//! sees its own writes, since a key is held back until the caches have them; so no pod is created twice.
//!
//! Start reading at [`ReplicaSets::reconcile`], then [`mod@plan`].

mod kind;
mod plan;
mod slow_start;
mod status;
mod views;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1;
use k8s_openapi::api::core::v1::ReplicationController;
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Change, Clock, Key, Status, Stored};
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Reconcile, Recorder, TypedObject,
    read_your_writes,
};
use tokio_util::sync::CancellationToken;

use crate::pods::Pod;
use crate::replica_set::kind::Set;
use crate::replica_set::plan::{Action, Plan, plan};
use crate::replica_set::slow_start::{all, slow_start};
use crate::replica_set::status::Failure;
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

/// The reconciler.
#[derive(Debug)]
pub(crate) struct ReplicaSets<T> {
    sets: Lister<T>,
    pods: Lister<v1::Pod>,
    client: Client,
    clock: Arc<dyn Clock>,
    events: Recorder,
}

/// The sets to enqueue after a change of a pod: its controller, or all that select it while it has none.
fn sets_to_enqueue<T: Set>(sets: &Lister<T>, change: &Change) -> Vec<Key> {
    controller_ref::owners_to_enqueue(sets, change, |set| {
        T::view(set).ok().map(|view| view.selector.clone())
    })
}

impl<T: Set> Reconcile for ReplicaSets<T> {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(set) = self.sets.find(key) else {
            return Ok(Next::Done);
        };
        let view = T::view(&set).map_err(Error::terminal)?;
        let pods = controller_ref::claim(&self.client, &self.pods, &set, &view.selector).await?;
        let pods: Vec<Pod> = pods.into_iter().map(Pod::read).collect();
        let plan = plan(self.clock.now(), &view, &pods, || self.related(&set, &pods));
        let failure = self.carry_out(&set, &plan).await;
        self.report(&set, &view, &plan, failure.as_ref()).await?;
        match failure {
            Some(failure) => Err(Error::failed(failure.message)),
            None => Ok(plan.recheck.map_or(Next::Done, Next::After)),
        }
    }
}

impl<T: Set> ReplicaSets<T> {
    pub(crate) fn new(context: &Context) -> Result<Self, Error> {
        let pods: Lister<v1::Pod> = context.lister()?;
        controller_ref::add_orphan_index(&pods);
        Ok(Self {
            sets: context.lister()?,
            pods,
            client: context.client.clone(),
            clock: context.clock.clone(),
            events: context.events.for_component(T::COMPONENT),
        })
    }

    /// The pods of all sets with the same controller as this one, its own included.
    fn related(&self, set: &TypedObject<T>, own: &[Pod]) -> Vec<Pod> {
        let Some(controller) = set.controller() else {
            return own.to_vec();
        };
        let siblings = self.sets.owned_by(&controller.uid);
        let pods = siblings
            .iter()
            .flat_map(|sibling| self.pods.owned_by(sibling.uid()));
        pods.map(|pod| Pod::read(pod.into_stored())).collect()
    }

    /// Carries out the plan, and returns the failure if there is one. A terminating set is left as it is.
    async fn carry_out(&self, set: &TypedObject<T>, plan: &Plan<'_>) -> Option<Failure> {
        if set.header().deleting {
            return None;
        }
        match &plan.action {
            Action::Nothing => None,
            Action::Create(count) => self.create(set, *count).await,
            Action::Delete(victims) => self.delete(set, victims).await,
        }
    }

    async fn create(&self, set: &TypedObject<T>, count: usize) -> Option<Failure> {
        tracing::debug!(set = %set.key(), creating = count, "too few replicas");
        let json = match new_pod(set) {
            Ok(json) => bytes::Bytes::from(json),
            Err(error) => return Some(Failure::create(&error.to_string())),
        };
        let pods = self.client.namespaced::<v1::Pod>(set.key().namespace());
        let outcome = slow_start(count, || {
            let (pods, json) = (pods.clone(), json.clone());
            async move { pods.dynamic().create(json).await }
        })
        .await;
        for pod in &outcome.done {
            self.record_write(pod);
            let message = format!("Created pod: {}", pod.key().name());
            self.events.normal(set, "SuccessfulCreate", message);
        }
        // A terminating namespace accepts no more pods, which is not a failure.
        let error = outcome.error.filter(|status| !is_namespace_terminating(status))?;
        self.events
            .warning(set, "FailedCreate", format!("Error creating: {error}"));
        Some(Failure::create(&error.message))
    }

    async fn delete(&self, set: &TypedObject<T>, victims: &[&Pod]) -> Option<Failure> {
        tracing::debug!(set = %set.key(), deleting = victims.len(), "too many replicas");
        let pods = self.client.namespaced::<v1::Pod>(set.key().namespace());
        let acts = victims.iter().map(|victim| {
            let (pods, victim) = (pods.clone(), victim.object().clone());
            async move {
                let options = DeleteOptions::with_uid(victim.uid());
                let deleted = pods.dynamic().delete(victim.key().name(), options).await;
                match deleted {
                    Ok(left) => Ok((victim, left)),
                    Err(status) if status.is_not_found() || status.is_conflict() => Ok((victim, None)),
                    Err(status) => Err(status),
                }
            }
        });
        let outcome = all(acts).await;
        for (victim, left) in &outcome.done {
            left.iter().for_each(|left| self.record_write(left));
            let message = format!("Deleted pod: {}", victim.key().name());
            self.events.normal(set, "SuccessfulDelete", message);
        }
        let error = outcome.error?;
        self.events
            .warning(set, "FailedDelete", format!("Error deleting: {error}"));
        Some(Failure::delete(&error.message))
    }

    /// The write happened in a task of its own, so it is recorded for the reconcile to wait for.
    fn record_write(&self, pod: &Stored) {
        read_your_writes::record_write(&v1::Pod::resource().group_resource(), pod.resource_version());
    }

    /// Writes the status if it changed.
    async fn report(
        &self,
        set: &TypedObject<T>,
        view: &SetView,
        plan: &Plan<'_>,
        failure: Option<&Failure>,
    ) -> Result<(), Error> {
        let status = T::supported_status(status::status(self.clock.now(), view, plan.counts, failure));
        if status == view.status {
            return Ok(());
        }
        let sets = self.client.namespaced::<T>(set.key().namespace());
        let mut updated = set.to_owned()?;
        updated.put_status(status);
        match sets.update_status(&updated).await {
            Err(status) if status.is_not_found() => Ok(()),
            written => Ok(written.map(drop)?),
        }
    }
}

/// A new pod of the set, as JSON. The server generates its name, so every pod of the set has the same bytes.
fn new_pod<T: Set>(set: &TypedObject<T>) -> Result<Vec<u8>, Error> {
    let pod = template::new_pod(set, set.to_owned()?.into_template());
    Ok(serde_json::to_vec(&pod)?)
}

fn is_namespace_terminating(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.clone().any(|cause| cause.reason == "NamespaceTerminating")
}

#[cfg(test)]
mod tests;
