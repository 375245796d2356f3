//! Keeps as many identical pods as each ReplicaSet asks for.
//!
//! A reconcile reads the set and its pods from the caches, decides in [`mod@plan`] (pure), creates or deletes, and writes
//! the status if it changed. It never counts events: whatever was missed, the next look at the state makes it good.
//! It sees its own writes, since a key is held until the caches have them; so no pod is created twice.
//!
//! Start reading at [`ReplicaSets::reconcile`], then [`mod@plan`].

mod claim;
mod plan;
mod slow_start;
mod status;
mod views;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Change, Clock, Key, Status, Stored};
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Reconcile, Recorder, Typed, freshness, owner,
};
use tokio_util::sync::CancellationToken;

use crate::replica_set::plan::{Action, Plan, plan};
use crate::replica_set::slow_start::{all, slow_start};
use crate::replica_set::status::Failure;
use crate::replica_set::views::{Pod, SetView};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "replicaset-controller";

/// Runs the controller until stopped.
pub async fn run(context: Context, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = ReplicaSets::new(&context)?;
    let sets = reconciler.sets.clone();
    Controller::new(NAME, reconciler)
        .reconciles::<ReplicaSet>()
        .watches(v1::Pod::resource().group_resource(), move |change| {
            concerned(&sets, change)
        })
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
pub(crate) struct ReplicaSets {
    sets: Lister<ReplicaSet>,
    pods: Lister<v1::Pod>,
    client: Client,
    clock: Arc<dyn Clock>,
    events: Recorder,
}

/// The sets that a change of a pod concerns: its controller, or all that select it while it has none.
fn concerned(sets: &Lister<ReplicaSet>, change: &Change) -> Vec<Key> {
    let mut keys = owner::controllers_of::<ReplicaSet>(change);
    let pod = change.object();
    if pod.controller().is_some() || change.is_deletion() || pod.header().labels.is_empty() {
        return keys;
    }
    for set in sets.in_namespace(pod.key().namespace()) {
        let view = set.view::<SetView>();
        if view.is_ok_and(|view| view.selector.matches(|label| pod.label(label))) {
            keys.push(set.key().clone());
        }
    }
    keys
}

impl Reconcile for ReplicaSets {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(set) = self.sets.find(key) else {
            return Ok(Next::Done);
        };
        let view = set.view::<SetView>().map_err(Error::terminal)?;
        let pods = self.claim(&set, &view).await?;
        let plan = plan(self.clock.now(), &view, &pods, || self.related(&set, &pods));
        let failure = self.carry_out(&set, &plan).await;
        self.report(&set, &view, &plan, failure.as_ref()).await?;
        match failure {
            Some(failure) => Err(Error::failed(failure.message)),
            None => Ok(plan.recheck.map_or(Next::Done, Next::After)),
        }
    }
}

impl ReplicaSets {
    pub(crate) fn new(context: &Context) -> Result<Self, Error> {
        let pods: Lister<v1::Pod> = context.lister()?;
        pods.cache().add_index(claim::ORPHANS, claim::orphan_namespace);
        Ok(Self {
            sets: context.lister()?,
            pods,
            client: context.client.clone(),
            clock: context.clock.clone(),
            events: context.events.of(NAME),
        })
    }

    /// The pods of all sets under the same controller as this one, with its own.
    fn related(&self, set: &Typed<ReplicaSet>, own: &[Pod]) -> Vec<Pod> {
        let Some(controller) = set.controller() else {
            return own.to_vec();
        };
        let siblings = self.sets.owned_by(&controller.uid);
        let pods = siblings
            .iter()
            .flat_map(|sibling| self.pods.owned_by(sibling.uid()));
        pods.map(|pod| Pod::read(pod.into_stored())).collect()
    }

    /// Does what the plan says; what went wrong, if something did. A set on its way out is left as it is.
    async fn carry_out(&self, set: &Typed<ReplicaSet>, plan: &Plan<'_>) -> Option<Failure> {
        if set.header().deleting {
            return None;
        }
        match &plan.action {
            Action::Nothing => None,
            Action::Create(count) => self.create(set, *count).await,
            Action::Delete(victims) => self.delete(set, victims).await,
        }
    }

    async fn create(&self, set: &Typed<ReplicaSet>, count: usize) -> Option<Failure> {
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
            self.seen_written(pod);
            let message = format!("Created pod: {}", pod.key().name());
            self.events.normal(set, "SuccessfulCreate", message);
        }
        // A namespace on its way out takes no more pods, which is nobody's failure.
        let refused = outcome
            .refused
            .filter(|status| !is_namespace_terminating(status))?;
        self.events
            .warning(set, "FailedCreate", format!("Error creating: {refused}"));
        Some(Failure::create(&refused.message))
    }

    async fn delete(&self, set: &Typed<ReplicaSet>, victims: &[&Pod]) -> Option<Failure> {
        tracing::debug!(set = %set.key(), deleting = victims.len(), "too many replicas");
        let pods = self.client.namespaced::<v1::Pod>(set.key().namespace());
        let acts = victims.iter().map(|victim| {
            let (pods, victim) = (pods.clone(), victim.object().clone());
            async move {
                let options = DeleteOptions {
                    uid: Some(victim.uid().to_owned()),
                    ..DeleteOptions::default()
                };
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
            left.iter().for_each(|left| self.seen_written(left));
            let message = format!("Deleted pod: {}", victim.key().name());
            self.events.normal(set, "SuccessfulDelete", message);
        }
        let refused = outcome.refused?;
        self.events
            .warning(set, "FailedDelete", format!("Error deleting: {refused}"));
        Some(Failure::delete(&refused.message))
    }

    /// The write was made in a task of its own, so the reconcile must be told of it.
    fn seen_written(&self, pod: &Stored) {
        freshness::note(&v1::Pod::resource().group_resource(), pod.resource_version());
    }

    /// Writes the status if it says something new.
    async fn report(
        &self,
        set: &Typed<ReplicaSet>,
        view: &SetView,
        plan: &Plan<'_>,
        failure: Option<&Failure>,
    ) -> Result<(), Error> {
        let status = status::status(self.clock.now(), view, plan.counts, failure);
        if status == view.status {
            return Ok(());
        }
        let sets = self.client.namespaced::<ReplicaSet>(set.key().namespace());
        let mut updated = set.to_owned()?;
        updated.status = Some(status);
        match sets.update_status(&updated).await {
            Err(status) if status.is_not_found() => Ok(()),
            written => Ok(written.map(drop)?),
        }
    }
}

/// The document of a new pod of the set. It has no name of its own: every pod of the set is made of the same bytes.
fn new_pod(set: &Typed<ReplicaSet>) -> Result<Vec<u8>, Error> {
    let decoded: ReplicaSet = set.to_owned()?;
    let template: PodTemplateSpec = decoded.spec.template.unwrap_or_default();
    let mut metadata = template.metadata.unwrap_or_default();
    metadata.generate_name = Some(format!("{}-", set.key().name()));
    metadata.namespace = Some(set.key().namespace().to_owned());
    metadata.owner_references = Some(vec![owner::controller_reference(set)]);
    let pod = v1::Pod {
        metadata,
        spec: template.spec,
        status: None,
    };
    Ok(serde_json::to_vec(&pod)?)
}

fn is_namespace_terminating(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.clone().any(|cause| cause.reason == "NamespaceTerminating")
}

#[cfg(test)]
mod tests;
