//! Keeps one ReplicaSet per template of each Deployment, and moves pods from the old ones to the newest, step by step.
//!
//! A reconcile claims the sets, decides one step in [`mod@plan`] (pure), takes it, and tells how it goes. The sizes of sets
//! are the arithmetic of [`sizes`]. It never touches pods, and it never goes back by itself: a rollout that makes no
//! progress is told, not undone.
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
use serde::Deserialize;
use setpoint_api::options::{DeleteOptions, Propagation};
use setpoint_api::selector::{BadSelector, LabelSelector};
use setpoint_api::{Change, Clock, Key, Status};
use setpoint_runtime::{
    Client, Context, Controller, Error, Handle, Lister, Next, Object, Reconcile, Recorder, Typed, owner,
};
use tokio_util::sync::CancellationToken;

use crate::deployment::plan::{Plan, Step, plan};
use crate::deployment::status::{News, Seen};
use crate::{Config, claims, pods};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "deployment-controller";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Deployments::new(&context)?;
    let (deployments, sets) = (reconciler.deployments.clone(), reconciler.sets.clone());
    Controller::new(NAME, reconciler)
        .reconciles::<Deployment>()
        .watches(ReplicaSet::resource().group_resource(), move |change| {
            claims::concerned(&deployments, change, selector_of)
        })
        .watches(Pod::resource().group_resource(), move |change| {
            bereft(&sets, change)
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
    client: Client,
    clock: Arc<dyn Clock>,
    events: Recorder,
}

/// What a Deployment picks, read without the rest of it.
#[derive(Debug, Deserialize)]
struct Picks {
    spec: PicksSpec,
}

#[derive(Debug, Deserialize)]
struct PicksSpec {
    selector: meta::LabelSelector,
}

fn selector_of(deployment: &Typed<Deployment>) -> Option<LabelSelector> {
    let picks = deployment.view::<Picks>().ok()?;
    LabelSelector::try_from(&picks.spec.selector).ok()
}

/// The Deployment that lost a pod: it may be waiting for the last of them to go.
fn bereft(sets: &Lister<ReplicaSet>, change: &Change) -> Vec<Key> {
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
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(object) = self.deployments.find(key) else {
            return Ok(Next::Done);
        };
        let deployment = object.to_owned()?;
        if deployment.spec.selector == meta::LabelSelector::default() {
            return self.refuse_to_select_all(&object, deployment).await;
        }
        let selector = LabelSelector::try_from(&deployment.spec.selector)
            .map_err(|error: BadSelector| Error::terminal(error))?;
        let claimed = claims::claim(&self.client, &self.sets, &object, &selector).await?;
        let claimed: Result<Vec<ReplicaSet>, Status> = claimed
            .into_iter()
            .map(|set| Typed::new(set).to_owned())
            .collect();
        let sets = claimed?;
        let plan = plan(&deployment, &sets, || self.old_pods_run(&deployment, &sets));
        self.carry_out(&object, &deployment, &sets, plan).await
    }
}

impl Deployments {
    pub(crate) fn new(context: &Context) -> Result<Self, Error> {
        let sets = context.lister()?;
        claims::index(&sets);
        Ok(Self {
            deployments: context.lister()?,
            sets,
            pods: context.lister()?,
            client: context.client.clone(),
            clock: context.clock.clone(),
            events: context.events.of(NAME),
        })
    }

    /// A Deployment that picks every pod there is does nothing but say so.
    async fn refuse_to_select_all(
        &self,
        object: &Typed<Deployment>,
        mut deployment: Deployment,
    ) -> Result<Next, Error> {
        let message = "This deployment is selecting all pods. A non-empty selector is required.";
        self.events.warning(object, "SelectingAll", message);
        let generation = deployment.metadata.generation;
        let status = deployment.status.get_or_insert_default();
        if status.observed_generation < generation {
            status.observed_generation = generation;
            self.deployments_of(object).update_status(&deployment).await?;
        }
        Ok(Next::Done)
    }

    /// Whether a pod of an old set may still be at work.
    fn old_pods_run(&self, deployment: &Deployment, sets: &[ReplicaSet]) -> bool {
        let (_, olds) = sets::split(deployment, sets);
        let uids = olds.into_iter().filter_map(|old| old.metadata.uid.as_deref());
        let mut old_pods = uids.flat_map(|uid| self.pods.owned_by(uid));
        old_pods.any(|pod| !pods::Pod::read(pod.into_stored()).is_finished())
    }

    /// Takes the step and tells how it goes.
    async fn carry_out(
        &self,
        object: &Typed<Deployment>,
        deployment: &Deployment,
        sets: &[ReplicaSet],
        plan: Plan,
    ) -> Result<Next, Error> {
        let (new, _) = sets::split(deployment, sets);
        let mut seen = Seen {
            now: self.clock.now(),
            deployment,
            new,
            all: sets,
            telling: plan.telling,
            news: News::None,
        };
        match plan.step {
            Step::Nothing => {}
            Step::Create(set) => return self.create(object, seen, *set).await,
            Step::Amend(set) => {
                self.sets_of(object).update(&set).await?;
            }
            Step::Resize(resized) => self.resize(object, &resized).await?,
            Step::Clean(going) => self.clean(object, &going).await?,
        }
        seen.now = self.clock.now();
        self.report(object, seen, new.map(sets::revision)).await
    }

    /// Makes the set of the newest template.
    async fn create(
        &self,
        object: &Typed<Deployment>,
        seen: Seen<'_>,
        mut set: ReplicaSet,
    ) -> Result<Next, Error> {
        set.metadata.owner_references = Some(vec![owner::controller_reference(object)]);
        let name = set.metadata.name.clone().unwrap_or_default();
        match self.sets_of(object).create(&set).await {
            Ok(_) => {
                let replicas = sets::replicas(&set);
                if replicas > 0 {
                    let message = format!("Scaled up replica set {name} from 0 to {replicas}");
                    self.events.normal(object, "ScalingReplicaSet", message);
                }
                let news = News::Created(&name);
                self.report(object, Seen { news, ..seen }, Some(sets::revision(&set)))
                    .await
            }
            Err(status) if status.is_already_exists() => {
                self.settle_collision(object, seen.deployment, &name).await
            }
            Err(status) if is_namespace_terminating(&status) => Ok(Next::Done),
            Err(status) => {
                let why = status.to_string();
                let message = format!("Failed to create new replica set {name:?}: {why}");
                self.events.warning(object, "ReplicaSetCreateError", message);
                let news = News::NotCreated(&name, &why);
                self.report(object, Seen { news, ..seen }, None).await?;
                Err(status.into())
            }
        }
    }

    /// There is a set of that name already. If it is not ours, the next one gets another name.
    async fn settle_collision(
        &self,
        object: &Typed<Deployment>,
        deployment: &Deployment,
        name: &str,
    ) -> Result<Next, Error> {
        let there = self.sets_of(object).get(name).await?;
        let is_ours = there.controller().is_some_and(|owner| owner.uid == object.uid());
        if !is_ours || !sets::is_of(&there.to_owned()?, &deployment.spec.template) {
            let mut updated = deployment.clone();
            let status = updated.status.get_or_insert_default();
            status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
            self.deployments_of(object).update_status(&updated).await?;
        }
        Err(Error::failed(format!("there is a replica set {name} already")))
    }

    async fn resize(&self, object: &Typed<Deployment>, resized: &[(i32, ReplicaSet)]) -> Result<(), Error> {
        let handle = self.sets_of(object);
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

    async fn clean(&self, object: &Typed<Deployment>, going: &[ReplicaSet]) -> Result<(), Error> {
        let handle = self.sets_of(object);
        for set in going {
            let options = DeleteOptions {
                uid: set.metadata.uid.clone(),
                propagation: Some(Propagation::Background),
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

    /// Writes the status, and the turn of the history, if they say something new.
    async fn report(
        &self,
        object: &Typed<Deployment>,
        seen: Seen<'_>,
        turn: Option<i64>,
    ) -> Result<Next, Error> {
        let status = status::status(seen);
        let next = self.next(seen, &status);
        let turn = turn.filter(|turn| *turn > 0).map(|turn| turn.to_string());
        let notes_turn = turn
            .as_deref()
            .is_none_or(|turn| sets::notes_revision(seen.deployment, turn));
        if notes_turn && seen.deployment.status.as_ref() == Some(&status) {
            return Ok(next);
        }
        let mut updated = seen.deployment.clone();
        updated.status = Some(status);
        if let Some(turn) = turn {
            let annotations = updated.metadata.annotations.get_or_insert_default();
            annotations.insert(sets::REVISION.to_owned(), turn);
        }
        match self.deployments_of(object).update_status(&updated).await {
            Err(status) if status.is_not_found() => Ok(Next::Done),
            written => Ok(written.map(|_| next)?),
        }
    }

    fn next(&self, seen: Seen<'_>, status: &DeploymentStatus) -> Next {
        let deadline = status::deadline_in(self.clock.now(), seen.deployment, status);
        deadline.map_or(Next::Done, Next::After)
    }

    fn deployments_of(&self, object: &Typed<Deployment>) -> Handle<Deployment> {
        self.client.namespaced(object.key().namespace())
    }

    fn sets_of(&self, object: &Typed<Deployment>) -> Handle<ReplicaSet> {
        self.client.namespaced(object.key().namespace())
    }
}

fn is_namespace_terminating(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "NamespaceTerminating")
}

#[cfg(test)]
mod tests;
