//! Garbage collector: deletes objects whose owners are gone.
//!
//! An object is deleted when all its owners are. An owner deleted with foreground propagation stays until its
//! dependents are gone; one deleted with orphan propagation stays until their references to it are removed. A cache
//! alone never proves an owner gone: the API server is queried before anything is deleted.
//!
//! Start reading at [`plan`] for the decision, then [`Collector::reconcile`].

mod graph;
mod plan;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use setpoint_api::object::OwnerReference;
use setpoint_api::options::{DeleteOptions, DeletionPropagation};
use setpoint_api::{Gvr, Status, Stored};
use setpoint_runtime::{Client, Context, Controller, DynamicApi, Error, Next, Reconcile};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::garbage_collector::graph::{Graph, finalizers, owner_state};
use crate::garbage_collector::plan::{Decision, Dependent, FOREGROUND, ORPHAN, OwnerState, decide};
use crate::resources::{ObjectRef, ServedResources};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "garbage-collector-controller";

/// As many workers as kube-controller-manager has.
const WORKERS: usize = 20;

/// How soon to check an object again whose owner is not watched: its kind may be served by now, or the aggregated API
/// server may have deleted the owner.
const UNKNOWN_OWNER: Duration = Duration::from_secs(60);

/// Runs the controller over the served resources until stopped.
pub async fn run(context: Context, served: ServedResources, stop: CancellationToken) -> Result<(), Error> {
    let graph = Arc::new(Graph::new(context.caches.clone()));
    let collector = Collector { graph: graph.clone() };
    let (names, list) = watch::channel(graph.update(&served.now()));
    let refs_to_enqueue = graph.clone();
    let controller = Controller::new(NAME, collector)
        .workers(WORKERS)
        .watches_dynamic(list, move |resource, change| {
            refs_to_enqueue.refs_to_enqueue(resource, change)
        });
    tokio::select! {
        ended = controller.run(&context, stop) => ended,
        () = served.follow(names, |resources| graph.update(resources)) => Ok(()),
    }
}

/// The reconciler.
#[derive(Debug)]
struct Collector {
    graph: Arc<Graph>,
}

impl Reconcile<ObjectRef> for Collector {
    async fn reconcile(&self, item: &ObjectRef, client: &Client) -> Result<Next, Error> {
        let Some(object) = self.graph.find(item) else {
            return Ok(Next::Done);
        };
        if object.header().deleting {
            self.finish(client, item, &object).await?;
            return Ok(Next::Done);
        }
        let mut owners = Vec::new();
        for owner in &object.header().owner_references {
            owners.push((owner, self.find_owner_state(client, &object, owner).await?));
        }
        if owners
            .iter()
            .all(|(_, owner_state)| *owner_state == OwnerState::Solid)
        {
            return Ok(self.next_check(&object));
        }
        let dependents = self.graph.dependents(object.uid());
        let is_waiting = |object: &Stored| finalizers(object).iter().any(|one| one == FOREGROUND);
        let decision = decide(&Dependent {
            owners,
            finalizers: finalizers(&object),
            has_dependents: !dependents.is_empty(),
            is_in_cycle: dependents
                .iter()
                .any(|(_, one)| one.header().deleting && is_waiting(one)),
        });
        self.carry_out(client, item, &object, decision).await?;
        Ok(Next::Done)
    }
}

impl Collector {
    /// When to check an object that stays: never if all its owners are watched, since their events enqueue it.
    fn next_check(&self, object: &Stored) -> Next {
        let served = self.graph.served();
        let mut owners = object.header().owner_references.iter();
        match owners.all(|owner| served.is_watched(owner)) {
            true => Next::Done,
            false => Next::After(UNKNOWN_OWNER),
        }
    }

    /// The state of an owner. A cache that lacks it may be stale, so then the API server decides.
    async fn find_owner_state(
        &self,
        client: &Client,
        object: &Stored,
        owner: &OwnerReference,
    ) -> Result<OwnerState, Error> {
        let Some(item) = self.graph.owner(object.key(), owner) else {
            // Nothing can be concluded about a kind that is not served.
            return Ok(OwnerState::Solid);
        };
        if let Some(found) = self.graph.find(&item) {
            let owner_state = owner_state(owner, &found);
            if owner_state != OwnerState::Dangling {
                return Ok(owner_state);
            }
        }
        match self.handle(client, &item).get(item.key.name()).await {
            Ok(found) => Ok(owner_state(owner, &found)),
            Err(status) if status.is_not_found() => Ok(OwnerState::Dangling),
            Err(status) => Err(status.into()),
        }
    }

    async fn carry_out(
        &self,
        client: &Client,
        item: &ObjectRef,
        object: &Stored,
        decision: Decision,
    ) -> Result<(), Error> {
        match decision {
            Decision::Keep => Ok(()),
            Decision::Delete(propagation) => self.delete(client, item, object, propagation).await,
            Decision::Release(uids) => self.edit(client, item, |metadata| release(metadata, &uids)).await,
            Decision::UnblockAndDelete => {
                self.edit(client, item, unblock).await?;
                let unblocked = self.handle(client, item).get(item.key.name()).await?;
                self.delete(client, item, &unblocked, DeletionPropagation::Foreground)
                    .await
            }
        }
    }

    /// Removes the finalizer of a terminating object, if what it waited for has happened.
    async fn finish(&self, client: &Client, item: &ObjectRef, object: &Stored) -> Result<(), Error> {
        let finalizers = finalizers(object);
        let dependents = self.graph.dependents(object.uid());
        if finalizers.iter().any(|one| one == ORPHAN) {
            let uid = object.uid().to_owned();
            for (dependent, _) in &dependents {
                self.edit(client, dependent, |metadata| {
                    release(metadata, std::slice::from_ref(&uid))
                })
                .await?;
            }
            return self
                .edit(client, item, |metadata| drop_finalizer(metadata, ORPHAN))
                .await;
        }
        let blocks = |one: &Stored| {
            let mut owners = one.header().owner_references.iter();
            owners.any(|owner| owner.uid == object.uid() && owner.block_owner_deletion)
        };
        let is_blocked = dependents.iter().any(|(_, one)| blocks(one));
        if finalizers.iter().any(|one| one == FOREGROUND) && !is_blocked {
            return self
                .edit(client, item, |metadata| drop_finalizer(metadata, FOREGROUND))
                .await;
        }
        Ok(())
    }

    /// Deletes this version of the object: if it has changed since, the decision is made again.
    async fn delete(
        &self,
        client: &Client,
        item: &ObjectRef,
        object: &Stored,
        propagation: DeletionPropagation,
    ) -> Result<(), Error> {
        tracing::debug!(resource = %self.gvr(item).group_resource(), key = %item.key, "deleting an object whose owners are gone");
        let options = DeleteOptions {
            propagation_policy: Some(propagation),
            uid: Some(object.uid().to_owned()),
            resource_version: Some(object.resource_version().to_string()),
            ..DeleteOptions::default()
        };
        let deleted = self.handle(client, item).delete(item.key.name(), options).await;
        unless_gone(deleted.map(drop))
    }

    /// Updates the metadata of the object as it is now. A deleted object needs no update.
    async fn edit(
        &self,
        client: &Client,
        item: &ObjectRef,
        change: impl FnOnce(&mut Value),
    ) -> Result<(), Error> {
        let handle = self.handle(client, item);
        let object = match handle.get(item.key.name()).await {
            Err(status) if status.is_not_found() => return Ok(()),
            object => object?,
        };
        let mut body: Value = object.decode()?;
        change(&mut body["metadata"]);
        let updated = handle
            .update(item.key.name(), setpoint_api::json::to_vec(&body)?)
            .await;
        unless_gone(updated.map(drop))
    }

    fn handle(&self, client: &Client, item: &ObjectRef) -> DynamicApi {
        client.dynamic(self.gvr(item), item.key.namespace())
    }

    fn gvr(&self, item: &ObjectRef) -> Gvr {
        self.graph.served().resources.at(item.resource_index).gvr.clone()
    }
}

fn unless_gone(outcome: Result<(), Status>) -> Result<(), Error> {
    match outcome {
        Err(status) if status.is_not_found() => Ok(()),
        outcome => Ok(outcome?),
    }
}

/// Removes the references to these owners.
fn release(metadata: &mut Value, uids: &[String]) {
    retain(metadata, "ownerReferences", |owner| {
        uids.iter().all(|uid| owner["uid"] != **uid)
    });
}

/// Clears `blockOwnerDeletion` of all references.
fn unblock(metadata: &mut Value) {
    let owners = metadata["ownerReferences"].as_array_mut();
    for owner in owners.into_iter().flatten() {
        owner["blockOwnerDeletion"] = Value::Bool(false);
    }
}

fn drop_finalizer(metadata: &mut Value, finalizer: &str) {
    retain(metadata, "finalizers", |one| *one != finalizer);
}

fn retain(metadata: &mut Value, field: &str, keep: impl Fn(&Value) -> bool) {
    if let Some(list) = metadata[field].as_array_mut() {
        list.retain(keep);
    }
}

#[cfg(test)]
mod tests;
