//! Read-your-writes consistency of reconciles.
//!
//! A cache is a little behind the server. A reconcile on a cache without the writes of the previous one would repeat them:
//! one pod too many. So the client of a [`crate::Context`] records every write made during a reconcile, and the worker holds
//! the key until the caches that the controller reads have reached the revisions of those writes. A reconciler does nothing
//! for it.
//!
//! Which reconcile a write belongs to follows from the task: the worker runs each reconcile in the scope of a task-local.
//! Concurrent requests of one reconcile run in its task ([`crate::batches`]) and are recorded too; those of a spawned task
//! are not.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use setpoint_api::{Body, GroupResource, Request, ResourceVersion, Response, Serve, ServeFuture, Verb};
use setpoint_cache::Cache;

tokio::task_local! {
    static WRITES: RefCell<Writes>;
}

/// The newest revision of each resource that a reconcile has written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Writes {
    newest: Vec<(GroupResource, ResourceVersion)>,
}

/// A `Serve` that records the writes of the running reconcile. Reads pass through.
pub(crate) struct WriteTracker {
    serve: Arc<dyn Serve>,
}

/// Runs a reconcile and returns its writes.
pub(crate) async fn track<T>(reconcile: impl Future<Output = T>) -> (T, Writes) {
    let tracked = async {
        let outcome = reconcile.await;
        (outcome, WRITES.with(RefCell::take))
    };
    WRITES.scope(RefCell::default(), tracked).await
}

// === impl Writes ===

impl Writes {
    fn record(&mut self, resource: &GroupResource, version: ResourceVersion) {
        match self.newest.iter_mut().find(|(own, _)| own == resource) {
            Some((_, newest)) => *newest = version.max(*newest),
            None => self.newest.push((resource.clone(), version)),
        }
    }

    /// The caches among these that do not have the writes yet, with the revision each has to reach.
    pub(crate) fn unseen(&self, caches: &[Arc<Cache>]) -> Vec<(Arc<Cache>, ResourceVersion)> {
        let unseen = |cache: &Arc<Cache>| {
            let (_, version) = self.newest.iter().find(|(own, _)| own == cache.resource())?;
            (cache.version() < *version).then(|| (cache.clone(), *version))
        };
        caches.iter().filter_map(unseen).collect()
    }
}

// === impl WriteTracker ===

impl WriteTracker {
    /// Wraps a server.
    pub(crate) fn new(serve: Arc<dyn Serve>) -> Self {
        Self { serve }
    }
}

impl Serve for WriteTracker {
    fn call(&self, request: Request) -> ServeFuture<'_> {
        if is_read(&request.verb) {
            return self.serve.call(request);
        }
        let resource = request.target.resource.group_resource();
        let reply = self.serve.call(request);
        Box::pin(async move {
            let response = reply.await?;
            record_response(&resource, &response);
            Ok(response)
        })
    }
}

impl fmt::Debug for WriteTracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WriteTracker")
    }
}

fn is_read(verb: &Verb) -> bool {
    matches!(verb, Verb::Get(_) | Verb::List(_) | Verb::Watch(_))
}

/// Records the write in the reconcile that runs in this task, if there is one.
fn record_response(resource: &GroupResource, response: &Response) {
    if let Body::Object(object) = &response.body {
        let version = object.resource_version();
        let _ = WRITES.try_with(|writes| writes.borrow_mut().record(resource, version));
    }
}
