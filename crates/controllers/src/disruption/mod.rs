//! Computes for each PodDisruptionBudget how many of its pods may be evicted now.
//!
//! [`mod@plan`] does the arithmetic; this module finds out how many pods their controllers want. The API server grants
//! evictions and lowers the number in the same write; a pod whose eviction was granted counts as gone for two minutes.

mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1;
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde::Deserialize;
use setpoint_api::object::OwnerReference;
use setpoint_api::{Change, Clock, Key, Stored};
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Reconcile, Recorder, TypedObject,
};
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::disruption::plan::{Plan, failed, needs_expected_count, plan, target};
use crate::pods::Pod;
use crate::selector_view::selector_of;

/// The name as kube-controller-manager has it.
pub const NAME: &str = "disruption-controller";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Budgets::new(&context)?;
    let budgets = reconciler.budgets.clone();
    let by_pod = budgets.clone();
    let by_owner = move |change: &Change| budgets_to_enqueue(&budgets, change);
    Controller::new(NAME, reconciler)
        .reconciles::<PodDisruptionBudget>()
        .watches(v1::Pod::resource().group_resource(), move |change| {
            budgets_of_pod(&by_pod, change)
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
    clock: Arc<dyn Clock>,
    events: Recorder,
}

/// The replicas of a controller of pods.
#[derive(Debug, Deserialize)]
struct ScaleView {
    spec: ScaleViewSpec,
}

#[derive(Debug, Deserialize)]
struct ScaleViewSpec {
    replicas: Option<i32>,
}

/// The budgets that select a pod, or did before the change.
fn budgets_of_pod(budgets: &Lister<PodDisruptionBudget>, change: &Change) -> Vec<Key> {
    let covers = |budget: &TypedObject<PodDisruptionBudget>| {
        selector_of(budget).is_some_and(|selector| {
            let selects = |pod: &Arc<Stored>| selector.matches(|label| pod.label(label));
            selects(change.object()) || change.old().is_some_and(selects)
        })
    };
    let all = budgets.in_namespace(change.key().namespace());
    all.into_iter()
        .filter(covers)
        .map(|budget| budget.key().clone())
        .collect()
}

/// The budgets in the namespace of a controller whose replicas changed.
fn budgets_to_enqueue(budgets: &Lister<PodDisruptionBudget>, change: &Change) -> Vec<Key> {
    let replicas = |object: &Arc<Stored>| object.view::<ScaleView>().ok().map(|view| view.spec.replicas);
    if let Change::Modified { old, new } = change
        && (old.header().generation == new.header().generation || replicas(old) == replicas(new))
    {
        return Vec::new();
    }
    let all = budgets.in_namespace(change.key().namespace());
    all.into_iter().map(|budget| budget.key().clone()).collect()
}

impl Reconcile for Budgets {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(object) = self.budgets.find(key) else {
            return Ok(Next::Done);
        };
        let budget = object.to_owned()?;
        let pods = self.pods_of(&object);
        if pods.is_empty() {
            self.events.normal(&object, "NoPods", "No matching pods found");
        }
        let scale = match needs_expected_count(&budget) {
            true => self.scale(&object, &budget, &pods),
            false => Ok(0),
        };
        match scale {
            Ok(scale) => {
                let target = target(&budget, pods.len(), scale);
                self.report(
                    client,
                    &object,
                    budget.clone(),
                    plan(self.clock.now(), &budget, &pods, target),
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
                    not_deleted: Vec::new(),
                    recheck: None,
                };
                self.report(client, &object, budget, nothing_else).await?;
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
            clock: context.clock.clone(),
            events: context.events.for_component("controllermanager"),
        })
    }

    fn pods_of(&self, budget: &Stored) -> Vec<Pod> {
        let Some(selector) = selector_of(budget) else {
            return Vec::new();
        };
        let pods = self.pods.matching(budget.key().namespace(), &selector);
        pods.into_iter().map(|pod| Pod::read(pod.into_stored())).collect()
    }

    /// The sum of the replicas of the pods' controllers. Pods without a controller get an event and are not counted.
    fn scale(
        &self,
        object: &TypedObject<PodDisruptionBudget>,
        budget: &PodDisruptionBudget,
        pods: &[Pod],
    ) -> Result<i32, String> {
        let mut replicas_by_controller: BTreeMap<String, i32> = BTreeMap::new();
        let mut is_unmanaged = false;
        for pod in pods {
            let Some(owner) = pod.object().controller() else {
                is_unmanaged = true;
                continue;
            };
            let found = self.controller_scale(pod.object().key().namespace(), owner);
            let (uid, count) = found
                .ok_or_else(|| format!("found no controllers for pod {:?}", pod.object().key().name()))?;
            replicas_by_controller.insert(uid, count);
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
        Ok(replicas_by_controller.values().sum())
    }

    /// The topmost controller of this owner's pods, and its replicas.
    fn controller_scale(&self, namespace: &str, owner: &OwnerReference) -> Option<(String, i32)> {
        let key = Key::new(namespace, &owner.name);
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        let found = match (group, owner.kind.as_str()) {
            ("apps", "ReplicaSet") => self.sets.find(&key)?.into_stored(),
            ("apps", "StatefulSet") => self.stateful_sets.find(&key)?.into_stored(),
            ("", "ReplicationController") => self.controllers.find(&key)?.into_stored(),
            _ => return None,
        };
        let deployment = found
            .controller()
            .filter(|deployment| deployment.kind == "Deployment");
        let deployment =
            deployment.and_then(|deployment| self.deployments.find(&Key::new(namespace, &deployment.name)));
        let controller = deployment.map_or(found, TypedObject::into_stored);
        let replicas = controller.view::<ScaleView>().ok()?.spec.replicas.unwrap_or(1);
        Some((controller.uid().to_owned(), replicas))
    }

    /// Writes the status if it changed.
    async fn report(
        &self,
        client: &Client,
        object: &TypedObject<PodDisruptionBudget>,
        mut budget: PodDisruptionBudget,
        plan: Plan,
    ) -> Result<Next, Error> {
        let next = plan.recheck.map_or(Next::Done, Next::After);
        for name in &plan.not_deleted {
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
        let handle = client.namespaced::<PodDisruptionBudget>(object.key().namespace());
        match handle.update_status(&budget).await {
            Err(status) if status.is_not_found() => Ok(Next::Done),
            written => Ok(written.map(|_| next)?),
        }
    }
}

#[cfg(test)]
mod tests;
