//! Tells for each PodDisruptionBudget how many of its pods may be evicted now.
//!
//! [`mod@plan`] does the sums; here is who is asked how many pods there should be. Evictions themselves are granted by the
//! server, which lowers the number in the same write; a granted pod counts as gone for two minutes.

mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1;
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use serde::Deserialize;
use setpoint_api::object::Owner;
use setpoint_api::selector::LabelSelector;
use setpoint_api::{Change, Clock, Key, Stored};
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Reconcile, Recorder, Typed,
};
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::disruption::plan::{Plan, asks_controllers, failed, need, plan};
use crate::pods::Pod;

/// The name as kube-controller-manager has it.
pub const NAME: &str = "disruption-controller";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Budgets::new(&context)?;
    let budgets = reconciler.budgets.clone();
    let by_pod = budgets.clone();
    let by_owner = move |change: &Change| scaled(&budgets, change);
    Controller::new(NAME, reconciler)
        .reconciles::<PodDisruptionBudget>()
        .watches(v1::Pod::resource().group_resource(), move |change| {
            covering(&by_pod, change)
        })
        .watches(Deployment::resource().group_resource(), by_owner.clone())
        .watches(ReplicaSet::resource().group_resource(), by_owner.clone())
        .watches(StatefulSet::resource().group_resource(), by_owner.clone())
        .watches(ReplicationController::resource().group_resource(), by_owner)
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
pub(crate) struct Budgets {
    budgets: Lister<PodDisruptionBudget>,
    pods: Lister<v1::Pod>,
    deployments: Lister<Deployment>,
    sets: Lister<ReplicaSet>,
    stateful_sets: Lister<StatefulSet>,
    controllers: Lister<ReplicationController>,
    client: Client,
    clock: Arc<dyn Clock>,
    events: Recorder,
}

/// What a budget picks, read without the rest of it.
#[derive(Debug, Deserialize)]
struct Picks {
    spec: PicksSpec,
}

#[derive(Debug, Deserialize)]
struct PicksSpec {
    selector: Option<meta::LabelSelector>,
}

/// How many pods something wants.
#[derive(Debug, Deserialize)]
struct Scaled {
    spec: ScaledSpec,
}

#[derive(Debug, Deserialize)]
struct ScaledSpec {
    replicas: Option<i32>,
}

fn selector_of(budget: &Stored) -> Option<LabelSelector> {
    let picks = budget.view::<Picks>().ok()?;
    LabelSelector::try_from(picks.spec.selector.as_ref()?).ok()
}

/// The budgets that cover a pod, or did before the change.
fn covering(budgets: &Lister<PodDisruptionBudget>, change: &Change) -> Vec<Key> {
    let covers = |budget: &Typed<PodDisruptionBudget>| {
        selector_of(budget).is_some_and(|selector| {
            let picks = |pod: &Arc<Stored>| selector.matches(|label| pod.label(label));
            picks(change.object()) || change.old().is_some_and(picks)
        })
    };
    let all = budgets.in_namespace(change.key().namespace());
    all.into_iter()
        .filter(covers)
        .map(|budget| budget.key().clone())
        .collect()
}

/// The budgets next to something that wants another number of pods than before.
fn scaled(budgets: &Lister<PodDisruptionBudget>, change: &Change) -> Vec<Key> {
    let wanted = |object: &Arc<Stored>| object.view::<Scaled>().ok().map(|view| view.spec.replicas);
    if let Change::Modified { old, new } = change
        && (old.header().generation == new.header().generation || wanted(old) == wanted(new))
    {
        return Vec::new();
    }
    let all = budgets.in_namespace(change.key().namespace());
    all.into_iter().map(|budget| budget.key().clone()).collect()
}

impl Reconcile for Budgets {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(object) = self.budgets.find(key) else {
            return Ok(Next::Done);
        };
        let budget = object.to_owned()?;
        let pods = self.pods_of(&object);
        if pods.is_empty() {
            self.events.normal(&object, "NoPods", "No matching pods found");
        }
        let scale = match asks_controllers(&budget) {
            true => self.scale(&object, &budget, &pods),
            false => Ok(0),
        };
        match scale {
            Ok(scale) => {
                let need = need(&budget, pods.len(), scale);
                self.report(
                    &object,
                    budget.clone(),
                    plan(self.clock.now(), &budget, &pods, need),
                )
                .await
            }
            Err(why) => {
                let message = format!("Failed to calculate the number of expected pods: {why}");
                self.events
                    .warning(&object, "CalculateExpectedPodCountFailed", message);
                let status = failed(self.clock.now(), &budget, &why);
                let nothing_else = Plan {
                    status,
                    stayed: Vec::new(),
                    recheck: None,
                };
                self.report(&object, budget, nothing_else).await?;
                Err(Error::failed(why))
            }
        }
    }
}

impl Budgets {
    pub(crate) fn new(context: &Context) -> Result<Self, Error> {
        Ok(Self {
            budgets: context.lister()?,
            pods: context.lister()?,
            deployments: context.lister()?,
            sets: context.lister()?,
            stateful_sets: context.lister()?,
            controllers: context.lister()?,
            client: context.client.clone(),
            clock: context.clock.clone(),
            events: context.events.of("controllermanager"),
        })
    }

    fn pods_of(&self, budget: &Stored) -> Vec<Pod> {
        let Some(selector) = selector_of(budget) else {
            return Vec::new();
        };
        let pods = self.pods.matching(budget.key().namespace(), &selector);
        pods.into_iter().map(|pod| Pod::read(pod.into_stored())).collect()
    }

    /// How many pods the controllers of these want in all. Pods of nobody are told of, and not counted.
    fn scale(
        &self,
        object: &Typed<PodDisruptionBudget>,
        budget: &PodDisruptionBudget,
        pods: &[Pod],
    ) -> Result<i32, String> {
        let mut wanted: BTreeMap<String, i32> = BTreeMap::new();
        let mut is_unmanaged = false;
        for pod in pods {
            let Some(owner) = pod.object().controller() else {
                is_unmanaged = true;
                continue;
            };
            let found = self.wanted_by(pod.object().key().namespace(), owner);
            let (uid, count) = found
                .ok_or_else(|| format!("found no controllers for pod {:?}", pod.object().key().name()))?;
            wanted.insert(uid, count);
        }
        if is_unmanaged {
            let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
            let selector = serde_json::to_string(&selector).unwrap_or_default();
            let message = format!(
                "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a result, \
                 the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account \
                 for these pods please set \".spec.minAvailable\" field of the PDB to an integer value."
            );
            self.events.warning(object, "UnmanagedPods", message);
        }
        Ok(wanted.values().sum())
    }

    /// Who wants the pods of this owner in the end, and how many.
    fn wanted_by(&self, namespace: &str, owner: &Owner) -> Option<(String, i32)> {
        let key = Key::new(namespace, &owner.name);
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        let found = match (group, owner.kind.as_str()) {
            ("apps", "ReplicaSet") => self.sets.find(&key)?.into_stored(),
            ("apps", "StatefulSet") => self.stateful_sets.find(&key)?.into_stored(),
            ("", "ReplicationController") => self.controllers.find(&key)?.into_stored(),
            _ => return None,
        };
        let above = found.controller().filter(|above| above.kind == "Deployment");
        let above = above.and_then(|above| self.deployments.find(&Key::new(namespace, &above.name)));
        let wanting = above.map_or(found, Typed::into_stored);
        let replicas = wanting.view::<Scaled>().ok()?.spec.replicas.unwrap_or(1);
        Some((wanting.uid().to_owned(), replicas))
    }

    /// Writes the status if it says something new.
    async fn report(
        &self,
        object: &Typed<PodDisruptionBudget>,
        mut budget: PodDisruptionBudget,
        plan: Plan,
    ) -> Result<Next, Error> {
        let next = plan.recheck.map_or(Next::Done, Next::After);
        for name in &plan.stayed {
            if let Some(pod) = self.pods.find(&Key::new(object.key().namespace(), name)) {
                let message = format!(
                    "Pod was expected by PDB {} to be deleted but it wasn't",
                    object.key()
                );
                self.events.warning(&pod, "NotDeleted", message);
            }
        }
        if budget.status.as_ref() == Some(&plan.status) {
            return Ok(next);
        }
        budget.status = Some(plan.status);
        let handle = self
            .client
            .namespaced::<PodDisruptionBudget>(object.key().namespace());
        match handle.update_status(&budget).await {
            Err(status) if status.is_not_found() => Ok(Next::Done),
            written => Ok(written.map(|_| next)?),
        }
    }
}

#[cfg(test)]
mod tests;
