//! Empties a namespace that was deleted, then lets it go.
//!
//! Pods go first, so that nothing they use is taken from under them. What is left, and what holds it back, is
//! written to the namespace's status until nothing is.
//!
//! Start reading at [`Namespaces::reconcile`].

mod plan;
mod status;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use serde::Deserialize;
use setpoint_api::options::{DeleteOptions, ListOptions, Propagation};
use setpoint_api::{Change, Clock, GroupResource, Gvr, Key, Status, Stored};
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Reconcile, Typed};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::namespace::plan::{FINALIZER, Left, NamespaceView, Step, step};
use crate::resources::{Resource, Resources, Served};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "namespace-controller";

/// How soon a namespace that is not empty is looked at again, should no deletion wake it before.
const RECHECK: Duration = Duration::from_secs(5);

/// The code of an answer to a verb that a resource does not have.
const METHOD_NOT_ALLOWED: u16 = 405;

/// Runs the controller over what is served until stopped.
pub async fn run(context: Context, served: Served, stop: CancellationToken) -> Result<(), Error> {
    let namespaces: Lister<Namespace> = context.lister()?;
    let (names, list) = watch::channel(in_namespaces(&served.now()));
    let reconciler = Namespaces {
        namespaces: namespaces.clone(),
        served: served.clone(),
        client: context.client.clone(),
        clock: context.clock.clone(),
    };
    let controller = Controller::new(NAME, reconciler)
        .reconciles::<Namespace>()
        .watches_listed(list, move |_, change| emptied(&namespaces, change));
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
    served: Served,
    client: Client,
    clock: Arc<dyn Clock>,
}

/// What a round of deletions came to.
#[derive(Debug, Default)]
struct Round {
    left: Vec<Left>,
    failures: Vec<String>,
    /// Versions of which nobody knows what they hold.
    unknown: Vec<String>,
}

impl Round {
    /// Whether nothing is left, and nothing could be that nobody knows of.
    fn is_done(&self) -> bool {
        self.left.is_empty() && self.failures.is_empty() && self.unknown.is_empty()
    }
}

/// The namespace that a deletion in it may have emptied.
fn emptied(namespaces: &Lister<Namespace>, change: &Change) -> Vec<Key> {
    let key = Key::new("", change.key().namespace());
    let is_leaving = || namespaces.find(&key).is_some_and(|one| one.header().deleting);
    match change.is_deletion() && is_leaving() {
        true => vec![key],
        false => Vec::new(),
    }
}

impl Reconcile for Namespaces {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(namespace) = self.namespaces.find(key) else {
            return Ok(Next::Done);
        };
        let view: NamespaceView = namespace.decode().map_err(Error::terminal)?;
        if step(&view) == Step::Leave {
            return Ok(Next::Done);
        }
        let round = self.empty(key.name()).await;
        if round.is_done() {
            self.finalize(&namespace).await?;
            return Ok(Next::Done);
        }
        self.report(&namespace, &round).await?;
        Ok(Next::After(RECHECK))
    }
}

impl Namespaces {
    /// Deletes everything in the namespace: pods first, the rest once there are none.
    async fn empty(&self, namespace: &str) -> Round {
        let resources = self.served.now();
        let mut round = Round {
            unknown: resources.unknown().to_vec(),
            ..Round::default()
        };
        let namespaced = resources.iter().filter(|resource| resource.namespaced);
        let (pods, others): (Vec<&Resource>, Vec<&Resource>) =
            namespaced.partition(|resource| resource.gvr == Pod::resource());
        for resource in pods {
            self.empty_resource(&resource.gvr, namespace, &mut round).await;
        }
        if round.left.is_empty() && round.failures.is_empty() {
            for resource in others {
                self.empty_resource(&resource.gvr, namespace, &mut round).await;
            }
        }
        round
    }

    async fn empty_resource(&self, resource: &Gvr, namespace: &str, round: &mut Round) {
        match self.delete_all(resource, namespace).await {
            Ok(objects) if objects.is_empty() => {}
            Ok(objects) => round.left.push(left(resource, &objects)),
            Err(status) => round.failures.push(status.message),
        }
    }

    /// Deletes all objects of a resource; what of them is still there afterwards.
    async fn delete_all(&self, resource: &Gvr, namespace: &str) -> Result<Vec<Arc<Stored>>, Status> {
        let handle = self.client.dynamic(resource.clone(), namespace);
        let objects = handle.list(&ListOptions::default()).await?.items;
        if objects.iter().all(|object| object.header().deleting) {
            return Ok(objects);
        }
        let options = DeleteOptions {
            propagation: Some(Propagation::Background),
            ..DeleteOptions::default()
        };
        match handle.delete_all(options.clone(), ListOptions::default()).await {
            // Some servers only know how to delete one at a time.
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

    /// Gives up the hold on the namespace.
    async fn finalize(&self, namespace: &Typed<Namespace>) -> Result<(), Error> {
        let mut document = namespace.to_owned()?;
        let finalizers = document
            .spec
            .get_or_insert_default()
            .finalizers
            .get_or_insert_default();
        finalizers.retain(|one| one != FINALIZER);
        let finalized = self
            .client
            .all::<Namespace>()
            .update_sub(&document, "finalize")
            .await;
        match finalized {
            Err(status) if status.is_not_found() => Ok(()),
            finalized => Ok(finalized.map(drop)?),
        }
    }

    async fn report(&self, namespace: &Typed<Namespace>, round: &Round) -> Result<(), Error> {
        let mut document = namespace.to_owned()?;
        let old = document.status.clone().unwrap_or_default();
        let status = status::status(self.clock.now(), &old, round);
        if status == old {
            return Ok(());
        }
        document.status = Some(status);
        self.client.all::<Namespace>().update_status(&document).await?;
        Ok(())
    }
}

/// The finalizers of an object.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Held {
    metadata: HeldMeta,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct HeldMeta {
    finalizers: Vec<String>,
}

fn left(resource: &Gvr, objects: &[Arc<Stored>]) -> Left {
    let mut left = Left {
        resource: resource.group_resource().to_string(),
        objects: objects.len(),
        ..Left::default()
    };
    for object in objects.iter().filter(|object| object.header().has_finalizers) {
        let held: Held = object.decode().unwrap_or_default();
        for finalizer in held.metadata.finalizers {
            *left.finalizers.entry(finalizer).or_default() += 1;
        }
    }
    left
}

#[cfg(test)]
mod tests;
