//! Deletes the content of a terminating namespace, then finalizes it.
//!
//! Pods are deleted first, so that nothing they use is removed while they run. The remaining content and its finalizers
//! are reported in the namespace's status until there are none.
//!
//! Start reading at [`Namespaces::reconcile`].

mod plan;
mod status;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use serde::Deserialize;
use setpoint_api::options::{DeleteOptions, DeletionPropagation, ListOptions};
use setpoint_api::{Change, Clock, GroupResource, Gvr, Key, Status, Stored};
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Reconcile, TypedObject};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::namespace::plan::{FINALIZER, NamespaceView, RemainingObjects, Step, step};
use crate::resources::{Resource, Resources, ServedResources};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "namespace-controller";

/// How soon a namespace with remaining content is checked again, should no deletion enqueue it before.
const RECHECK: Duration = Duration::from_secs(5);

/// The status code for a verb that a resource does not support.
const METHOD_NOT_ALLOWED: u16 = 405;

/// Runs the controller over the served resources until stopped.
pub async fn run(context: Context, served: ServedResources, stop: CancellationToken) -> Result<(), Error> {
    let namespaces: Lister<Namespace> = context.lister()?;
    let (names, list) = watch::channel(in_namespaces(&served.now()));
    let reconciler = Namespaces {
        namespaces: namespaces.clone(),
        served: served.clone(),
        clock: context.clock.clone(),
    };
    let controller = Controller::new(NAME, reconciler)
        .reconciles::<Namespace>()
        .watches_dynamic(list, move |_, change| namespaces_to_enqueue(&namespaces, change));
    tokio::select! {
        ended = controller.run(&context, stop) => ended,
        () = served.follow(names, in_namespaces) => Ok(()),
    }
}

fn in_namespaces(resources: &Resources) -> Vec<GroupResource> {
    let namespaced = resources.iter().filter(|resource| resource.namespaced);
    namespaced.map(|resource| resource.gvr.group_resource()).collect()
}

/// The reconciler.
#[derive(Debug)]
struct Namespaces {
    namespaces: Lister<Namespace>,
    served: ServedResources,
    clock: Arc<dyn Clock>,
}

/// The result of one deletion of all content.
#[derive(Debug, Default)]
struct DeletionResult {
    remaining: Vec<RemainingObjects>,
    failures: Vec<String>,
    /// Group versions whose resources are unknown, since discovery failed.
    undiscovered: Vec<String>,
}

impl DeletionResult {
    /// Whether nothing is left, in undiscovered resources either.
    fn is_done(&self) -> bool {
        self.remaining.is_empty() && self.failures.is_empty() && self.undiscovered.is_empty()
    }
}

/// The terminating namespace of a deleted object.
fn namespaces_to_enqueue(namespaces: &Lister<Namespace>, change: &Change) -> Vec<Key> {
    let key = Key::new("", change.key().namespace());
    let is_leaving = || namespaces.find(&key).is_some_and(|one| one.header().deleting);
    match change.is_deletion() && is_leaving() {
        true => vec![key],
        false => Vec::new(),
    }
}

impl Reconcile for Namespaces {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(namespace) = self.namespaces.find(key) else {
            return Ok(Next::Done);
        };
        let view: NamespaceView = namespace.decode().map_err(Error::terminal)?;
        if step(&view) == Step::Leave {
            return Ok(Next::Done);
        }
        let result = self.delete_content(client, key.name()).await;
        if result.is_done() {
            finalize(client, &namespace).await?;
            return Ok(Next::Done);
        }
        self.report(client, &namespace, &result).await?;
        Ok(Next::After(RECHECK))
    }
}

impl Namespaces {
    /// Deletes everything in the namespace: pods first, the rest once there are none.
    async fn delete_content(&self, client: &Client, namespace: &str) -> DeletionResult {
        let resources = self.served.now();
        let mut result = DeletionResult {
            undiscovered: resources.undiscovered().to_vec(),
            ..DeletionResult::default()
        };
        let namespaced = resources.iter().filter(|resource| resource.namespaced);
        let (pods, others): (Vec<&Resource>, Vec<&Resource>) =
            namespaced.partition(|resource| resource.gvr == Pod::resource());
        for resource in pods {
            delete_resource(client, &resource.gvr, namespace, &mut result).await;
        }
        if result.remaining.is_empty() && result.failures.is_empty() {
            for resource in others {
                delete_resource(client, &resource.gvr, namespace, &mut result).await;
            }
        }
        result
    }

    async fn report(
        &self,
        client: &Client,
        namespace: &TypedObject<Namespace>,
        result: &DeletionResult,
    ) -> Result<(), Error> {
        let mut body = namespace.to_owned()?;
        let old = body.status.clone().unwrap_or_default();
        let status = status::status(self.clock.now(), &old, result);
        if status == old {
            return Ok(());
        }
        body.status = Some(status);
        client.all::<Namespace>().update_status(&body).await?;
        Ok(())
    }
}

async fn delete_resource(client: &Client, resource: &Gvr, namespace: &str, result: &mut DeletionResult) {
    match delete_all(client, resource, namespace).await {
        Ok(objects) if objects.is_empty() => {}
        Ok(objects) => result.remaining.push(remaining(resource, &objects)),
        Err(status) => result.failures.push(status.message),
    }
}

/// Deletes all objects of a resource, and returns those that still exist.
async fn delete_all(client: &Client, resource: &Gvr, namespace: &str) -> Result<Vec<Arc<Stored>>, Status> {
    let handle = client.dynamic(resource.clone(), namespace);
    let objects = handle.list(&ListOptions::default()).await?.items;
    if objects.iter().all(|object| object.header().deleting) {
        return Ok(objects);
    }
    let options = DeleteOptions {
        propagation_policy: Some(DeletionPropagation::Background),
        ..DeleteOptions::default()
    };
    match handle
        .delete_collection(options.clone(), ListOptions::default())
        .await
    {
        // Some aggregated API servers do not support deletecollection.
        Err(status) if status.code == METHOD_NOT_ALLOWED => {
            for object in &objects {
                let deleted = handle.delete(object.key().name(), options.clone()).await;
                deleted.map(drop).or_else(|status| match status.is_not_found() {
                    true => Ok(()),
                    false => Err(status),
                })?;
            }
        }
        deleted => drop(deleted?),
    }
    Ok(handle.list(&ListOptions::default()).await?.items)
}

/// Removes this controller's finalizer from the namespace.
async fn finalize(client: &Client, namespace: &TypedObject<Namespace>) -> Result<(), Error> {
    let mut body = namespace.to_owned()?;
    let finalizers = body
        .spec
        .get_or_insert_default()
        .finalizers
        .get_or_insert_default();
    finalizers.retain(|one| one != FINALIZER);
    let finalized = client
        .all::<Namespace>()
        .update_subresource(&body, "finalize")
        .await;
    match finalized {
        Err(status) if status.is_not_found() => Ok(()),
        finalized => Ok(finalized.map(drop)?),
    }
}

/// The finalizers of an object.
#[derive(Default, Deserialize)]
#[serde(default)]
struct FinalizersView {
    metadata: FinalizersMeta,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FinalizersMeta {
    finalizers: Vec<String>,
}

fn remaining(resource: &Gvr, objects: &[Arc<Stored>]) -> RemainingObjects {
    let mut remaining = RemainingObjects {
        resource: resource.group_resource().to_string(),
        objects: objects.len(),
        ..RemainingObjects::default()
    };
    for object in objects.iter().filter(|object| object.header().has_finalizers) {
        let view: FinalizersView = object.decode().unwrap_or_default();
        for finalizer in view.metadata.finalizers {
            *remaining.finalizers.entry(finalizer).or_default() += 1;
        }
    }
    remaining
}

#[cfg(test)]
mod tests;
