//! Deletes what its owners have left behind.
//!
//! An object whose owners are all gone goes too. An owner that was deleted in the foreground stays until its
//! dependents are gone; one that was deleted as an orphaner stays until they have let go of it. What is gone is
//! never concluded from a cache alone: the API is asked before anything is deleted for it.
//!
//! Start reading at [`plan`] for the judgement, then [`Collector::reconcile`].

mod graph;
mod plan;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use setpoint_api::object::Owner;
use setpoint_api::options::{DeleteOptions, Propagation};
use setpoint_api::{Gvr, Status, Stored};
use setpoint_runtime::{Client, Context, Controller, Dynamic, Error, Next, Reconcile};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::garbage_collector::graph::{Graph, fate, finalizers};
use crate::garbage_collector::plan::{Dependent, FOREGROUND, Fate, ORPHAN, Verdict, judge};
use crate::resources::{Item, Served};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "garbage-collector-controller";

/// As many as kube-controller-manager has.
const WORKERS: usize = 20;

/// How soon to look again at an object whose owner cannot be followed: its kind may be served by now, or the server
/// that keeps the owner may have let go of it.
const UNKNOWN_OWNER: Duration = Duration::from_secs(60);

/// Runs the controller over what is served until stopped.
pub async fn run(context: Context, served: Served, stop: CancellationToken) -> Result<(), Error> {
    let graph = Arc::new(Graph::new(context.caches.clone()));
    let collector = Collector {
        graph: graph.clone(),
        client: context.client.clone(),
    };
    let (names, list) = watch::channel(graph.update(&served.now()));
    let concerned = graph.clone();
    let controller = Controller::new(NAME, collector)
        .workers(WORKERS)
        .watches_listed(list, move |resource, change| {
            concerned.concerned(resource, change)
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
    client: Client,
}

impl Reconcile<Item> for Collector {
    async fn reconcile(&self, item: &Item) -> Result<Next, Error> {
        let Some(object) = self.graph.find(item) else {
            return Ok(Next::Done);
        };
        if object.header().deleting {
            self.finish(item, &object).await?;
            return Ok(Next::Done);
        }
        let mut owners = Vec::new();
        for owner in &object.header().owners {
            owners.push((owner, self.fate_of(&object, owner).await?));
        }
        if owners.iter().all(|(_, fate)| *fate == Fate::Solid) {
            return Ok(self.next_look(&object));
        }
        let dependents = self.graph.dependents(object.uid());
        let is_waiting = |object: &Stored| finalizers(object).iter().any(|one| one == FOREGROUND);
        let verdict = judge(&Dependent {
            owners,
            finalizers: finalizers(&object),
            has_dependents: !dependents.is_empty(),
            is_in_circle: dependents
                .iter()
                .any(|(_, one)| one.header().deleting && is_waiting(one)),
        });
        self.carry_out(item, &object, verdict).await?;
        Ok(Next::Done)
    }
}

impl Collector {
    /// When to look again at an object that stays: at once if something happens to its owners, where that is seen.
    fn next_look(&self, object: &Stored) -> Next {
        let known = self.graph.known();
        let mut owners = object.header().owners.iter();
        match owners.all(|owner| known.is_followed(owner)) {
            true => Next::Done,
            false => Next::After(UNKNOWN_OWNER),
        }
    }

    /// What became of an owner. A cache that does not have it may be behind, so the API has the last word.
    async fn fate_of(&self, object: &Stored, owner: &Owner) -> Result<Fate, Error> {
        let Some(item) = self.graph.owner(object.key(), owner) else {
            // Of what is not served nothing can be concluded.
            return Ok(Fate::Solid);
        };
        if let Some(found) = self.graph.find(&item) {
            let fate = fate(owner, &found);
            if fate != Fate::Gone {
                return Ok(fate);
            }
        }
        match self.handle(&item).get(item.key.name()).await {
            Ok(found) => Ok(fate(owner, &found)),
            Err(status) if status.is_not_found() => Ok(Fate::Gone),
            Err(status) => Err(status.into()),
        }
    }

    async fn carry_out(&self, item: &Item, object: &Stored, verdict: Verdict) -> Result<(), Error> {
        match verdict {
            Verdict::Keep => Ok(()),
            Verdict::Delete(propagation) => self.delete(item, object, propagation).await,
            Verdict::Release(uids) => self.edit(item, |metadata| release(metadata, &uids)).await,
            Verdict::UnblockAndDelete => {
                self.edit(item, unblock).await?;
                let unblocked = self.handle(item).get(item.key.name()).await?;
                self.delete(item, &unblocked, Propagation::Foreground).await
            }
        }
    }

    /// Lets an object on its way out go on, if what it waited for has happened.
    async fn finish(&self, item: &Item, object: &Stored) -> Result<(), Error> {
        let finalizers = finalizers(object);
        let dependents = self.graph.dependents(object.uid());
        if finalizers.iter().any(|one| one == ORPHAN) {
            let uid = object.uid().to_owned();
            for (dependent, _) in &dependents {
                self.edit(dependent, |metadata| {
                    release(metadata, std::slice::from_ref(&uid))
                })
                .await?;
            }
            return self.edit(item, |metadata| drop_finalizer(metadata, ORPHAN)).await;
        }
        let blocks = |one: &Stored| {
            let mut owners = one.header().owners.iter();
            owners.any(|owner| owner.uid == object.uid() && owner.blocks_deletion)
        };
        let is_blocked = dependents.iter().any(|(_, one)| blocks(one));
        if finalizers.iter().any(|one| one == FOREGROUND) && !is_blocked {
            return self
                .edit(item, |metadata| drop_finalizer(metadata, FOREGROUND))
                .await;
        }
        Ok(())
    }

    /// Deletes this very version of the object: what changed since is judged anew.
    async fn delete(&self, item: &Item, object: &Stored, propagation: Propagation) -> Result<(), Error> {
        tracing::debug!(resource = %self.gvr(item).group_resource(), key = %item.key, "its owners are gone");
        let options = DeleteOptions {
            propagation: Some(propagation),
            uid: Some(object.uid().to_owned()),
            resource_version: Some(object.resource_version().to_string()),
            ..DeleteOptions::default()
        };
        let deleted = self.handle(item).delete(item.key.name(), options).await;
        unless_gone(deleted.map(drop))
    }

    /// Changes the metadata of an object as it is now. An object that is gone needs no change.
    async fn edit(&self, item: &Item, change: impl FnOnce(&mut Value)) -> Result<(), Error> {
        let handle = self.handle(item);
        let object = match handle.get(item.key.name()).await {
            Err(status) if status.is_not_found() => return Ok(()),
            object => object?,
        };
        let mut document: Value = object.decode()?;
        change(&mut document["metadata"]);
        let updated = handle
            .update(item.key.name(), serde_json::to_vec(&document)?)
            .await;
        unless_gone(updated.map(drop))
    }

    fn handle(&self, item: &Item) -> Dynamic {
        self.client.dynamic(self.gvr(item), item.key.namespace())
    }

    fn gvr(&self, item: &Item) -> Gvr {
        self.graph.known().resources.at(item.place).gvr.clone()
    }
}

fn unless_gone(outcome: Result<(), Status>) -> Result<(), Error> {
    match outcome {
        Err(status) if status.is_not_found() => Ok(()),
        outcome => Ok(outcome?),
    }
}

/// Takes the references to these owners away.
fn release(metadata: &mut Value, uids: &[String]) {
    retain(metadata, "ownerReferences", |owner| {
        uids.iter().all(|uid| owner["uid"] != **uid)
    });
}

/// Stops all references from holding up their owners.
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
