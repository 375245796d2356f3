//! Keeps one ReplicaSet per template of each Deployment, and moves pods from the old ones to the newest, step by step.
//!
//! A reconcile claims the ReplicaSets, decides one step in [`mod@plan`] (pure), carries it out, and writes the status.
//! The sizes of the sets are computed in [`sizes`]. It never touches pods, and it never rolls back by itself: a rollout
//! without progress is reported, not undone.
//!
//! Start reading at [`Deployments::reconcile`], then [`mod@plan`], then [`sizes`].

mod plan;
mod sets;
mod sizes;
mod status;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use setpoint_api::options::{DeleteOptions, DeletionPropagation};
use setpoint_api::{Change, Clock, Key, Status};
use setpoint_runtime::label_selector;
use setpoint_runtime::{
    Api, Client, Context, Controller, Error, Lister, Next, Object, Reconcile, Recorder, TypedObject, owner,
};
use tokio_util::sync::CancellationToken;

use crate::deployment::plan::{Step, plan};
use crate::deployment::status::{RolloutEvent, StatusInput};
use crate::pod_control::is_namespace_terminating;
use crate::selector_view::selector_of;
use crate::{Config, controller_ref, pods};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "deployment-controller";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Deployments::new(&context)?;
    let (deployments, sets) = (reconciler.deployments.clone(), reconciler.sets.clone());
    Controller::new(NAME, reconciler)
        .reconciles::<Deployment>()
        .watches(ReplicaSet::resource().group_resource(), move |change| {
            controller_ref::owners_to_enqueue(&deployments, change, |deployment| selector_of(deployment))
        })
        .watches(Pod::resource().group_resource(), move |change| {
            owners_of_deleted(&sets, change)
        })
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
pub(crate) struct Deployments {
    deployments: Lister<Deployment>,
    sets: Lister<ReplicaSet>,
    pods: Lister<Pod>,
    clock: Arc<dyn Clock>,
    events: Recorder,
}

/// The Deployment that owned a deleted pod: it may be waiting for the last of them.
fn owners_of_deleted(sets: &Lister<ReplicaSet>, change: &Change) -> Vec<Key> {
    if !change.is_deletion() {
        return Vec::new();
    }
    let sets = owner::controllers_of::<ReplicaSet>(change)
        .into_iter()
        .filter_map(|key| sets.find(&key));
    sets.flat_map(|set| owner::controllers_of::<Deployment>(&Change::Added(set.into_stored())))
        .collect()
}

impl Reconcile for Deployments {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(object) = self.deployments.find(key) else {
            return Ok(Next::Done);
        };
        let deployment = object.to_owned()?;
        if deployment.spec.selector == meta::LabelSelector::default() {
            return self.report_selecting_all(client, &object, deployment).await;
        }
        let selector = label_selector(&deployment.spec.selector).map_err(Error::terminal)?;
        let claimed = controller_ref::claim(client, &self.sets, &object, &selector).await?;
        let claimed: Result<Vec<ReplicaSet>, Status> = claimed
            .into_iter()
            .map(|set| TypedObject::new(set).to_owned())
            .collect();
        let sets = claimed?;
        let plan = plan(&deployment, &sets, || self.old_pods_run(&deployment, &sets));
        let (new, _) = sets::split(&deployment, &sets);
        let input = StatusInput {
            now: self.clock.now(),
            deployment: &deployment,
            new,
            all: &sets,
            status_mode: plan.status_mode,
            event: RolloutEvent::None,
        };
        self.carry_out(client, &object, input, plan.step).await
    }
}

impl Deployments {
    pub(crate) fn new(context: &Context) -> Result<Self, Error> {
        let sets = context.lister()?;
        controller_ref::add_orphan_index(&sets);
        Ok(Self {
            deployments: context.lister()?,
            sets,
            pods: context.lister()?,
            clock: context.clock.clone(),
            events: context.events.for_component(NAME),
        })
    }

    /// A Deployment that selects all pods gets a warning event and is not reconciled.
    async fn report_selecting_all(
        &self,
        client: &Client,
        object: &TypedObject<Deployment>,
        mut deployment: Deployment,
    ) -> Result<Next, Error> {
        let message = "This deployment is selecting all pods. A non-empty selector is required.";
        self.events.warning(object, "SelectingAll", message);
        let generation = deployment.metadata.generation;
        let status = deployment.status.get_or_insert_default();
        if status.observed_generation < generation {
            status.observed_generation = generation;
            deployments_of(client, object).update_status(&deployment).await?;
        }
        Ok(Next::Done)
    }

    /// Whether a pod of an old set may still run.
    fn old_pods_run(&self, deployment: &Deployment, sets: &[ReplicaSet]) -> bool {
        let (_, olds) = sets::split(deployment, sets);
        let uids = olds.into_iter().filter_map(|old| old.metadata.uid.as_deref());
        let mut old_pods = uids.flat_map(|uid| self.pods.owned_by(uid));
        old_pods.any(|pod| !pods::Pod::read(pod.into_stored()).is_finished())
    }

    /// Carries out the step and writes the status.
    async fn carry_out(
        &self,
        client: &Client,
        object: &TypedObject<Deployment>,
        mut input: StatusInput<'_>,
        step: Step,
    ) -> Result<Next, Error> {
        match step {
            Step::Nothing => {}
            Step::Create(set) => return self.create(client, object, input, *set).await,
            Step::Amend(set) => {
                sets_of(client, object).update(&set).await?;
            }
            Step::Resize(resized) => self.resize(client, object, &resized).await?,
            Step::Clean(excess_sets) => clean(client, object, &excess_sets).await?,
        }
        input.now = self.clock.now();
        let revision = input.new.map(sets::revision);
        self.report(client, object, input, revision).await
    }

    /// Creates the ReplicaSet of the newest template.
    async fn create(
        &self,
        client: &Client,
        object: &TypedObject<Deployment>,
        input: StatusInput<'_>,
        mut set: ReplicaSet,
    ) -> Result<Next, Error> {
        set.metadata.owner_references = Some(vec![owner::controller_reference(object)]);
        let name = set.metadata.name.clone().unwrap_or_default();
        match sets_of(client, object).create(&set).await {
            Ok(_) => {
                let replicas = sets::replicas(&set);
                if replicas > 0 {
                    let message = format!("Scaled up replica set {name} from 0 to {replicas}");
                    self.events.normal(object, "ScalingReplicaSet", message);
                }
                let event = RolloutEvent::Created(&name);
                let input = StatusInput { event, ..input };
                self.report(client, object, input, Some(sets::revision(&set)))
                    .await
            }
            Err(status) if status.is_already_exists() => {
                handle_name_collision(client, object, input.deployment, &name).await
            }
            Err(status) if is_namespace_terminating(&status) => Ok(Next::Done),
            Err(status) => {
                let why = status.to_string();
                let message = format!("Failed to create new replica set {name:?}: {why}");
                self.events.warning(object, "ReplicaSetCreateError", message);
                let event = RolloutEvent::NotCreated(&name, &why);
                self.report(client, object, StatusInput { event, ..input }, None)
                    .await?;
                Err(status.into())
            }
        }
    }

    async fn resize(
        &self,
        client: &Client,
        object: &TypedObject<Deployment>,
        resized: &[(i32, ReplicaSet)],
    ) -> Result<(), Error> {
        let handle = sets_of(client, object);
        for (before, set) in resized {
            handle.update(set).await?;
            let (name, after) = (
                set.metadata.name.as_deref().unwrap_or_default(),
                sets::replicas(set),
            );
            let direction = if after > *before { "up" } else { "down" };
            if after != *before {
                let message = format!("Scaled {direction} replica set {name} from {before} to {after}");
                self.events.normal(object, "ScalingReplicaSet", message);
            }
        }
        Ok(())
    }

    /// Writes the status and the revision annotation if they changed.
    async fn report(
        &self,
        client: &Client,
        object: &TypedObject<Deployment>,
        input: StatusInput<'_>,
        revision: Option<i64>,
    ) -> Result<Next, Error> {
        let status = status::status(input);
        let next = self.next(input, &status);
        let revision = revision
            .filter(|revision| *revision > 0)
            .map(|revision| revision.to_string());
        let has_revision = revision
            .as_deref()
            .is_none_or(|revision| sets::notes_revision(input.deployment, revision));
        if has_revision && input.deployment.status.as_ref() == Some(&status) {
            return Ok(next);
        }
        let mut updated = input.deployment.clone();
        updated.status = Some(status);
        if let Some(revision) = revision {
            let annotations = updated.metadata.annotations.get_or_insert_default();
            annotations.insert(sets::REVISION.to_owned(), revision);
        }
        match deployments_of(client, object).update_status(&updated).await {
            Err(status) if status.is_not_found() => Ok(Next::Done),
            written => Ok(written.map(|_| next)?),
        }
    }

    fn next(&self, input: StatusInput<'_>, status: &DeploymentStatus) -> Next {
        let deadline = status::deadline_in(self.clock.now(), input.deployment, status);
        deadline.map_or(Next::Done, Next::After)
    }
}

/// A set of that name exists already. If it is not ours, the next name uses another collision count.
async fn handle_name_collision(
    client: &Client,
    object: &TypedObject<Deployment>,
    deployment: &Deployment,
    name: &str,
) -> Result<Next, Error> {
    let there = sets_of(client, object).get(name).await?;
    let is_ours = there.controller().is_some_and(|owner| owner.uid == object.uid());
    if !is_ours || !sets::has_template(&there.to_owned()?, &deployment.spec.template) {
        let mut updated = deployment.clone();
        let status = updated.status.get_or_insert_default();
        status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
        deployments_of(client, object).update_status(&updated).await?;
    }
    Err(Error::failed(format!("replica set {name} already exists")))
}

async fn clean(
    client: &Client,
    object: &TypedObject<Deployment>,
    excess_sets: &[ReplicaSet],
) -> Result<(), Error> {
    let handle = sets_of(client, object);
    for set in excess_sets {
        let options = DeleteOptions {
            uid: set.metadata.uid.clone(),
            propagation_policy: Some(DeletionPropagation::Background),
            ..DeleteOptions::default()
        };
        let name = set.metadata.name.as_deref().unwrap_or_default();
        match handle.delete(name, options).await {
            Err(status) if status.is_not_found() => {}
            deleted => drop(deleted?),
        }
    }
    Ok(())
}

fn deployments_of(client: &Client, object: &TypedObject<Deployment>) -> Api<Deployment> {
    client.namespaced(object.key().namespace())
}

fn sets_of(client: &Client, object: &TypedObject<Deployment>) -> Api<ReplicaSet> {
    client.namespaced(object.key().namespace())
}

#[cfg(test)]
mod tests;
