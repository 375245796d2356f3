//! Reading one's own writes.
//!
//! A cache is a little behind the server. A reconcile that ran on it before its own last writes arrived would do the same
//! again: one pod too many. So every write made during a reconcile is noted, and the key is held until the caches that
//! the controller reads have reached the revisions of those writes.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use setpoint_api::{Body, GroupResource, Reply, Request, ResourceVersion, Response, Serve, Verb};
use setpoint_cache::Cache;

tokio::task_local! {
    static WRITES: RefCell<Writes>;
}

/// The newest revision that a reconcile wrote of each resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Writes {
    newest: Vec<(GroupResource, ResourceVersion)>,
}

/// A server whose writes are noted for the reconcile that makes them.
///
/// What a reconcile does in its own task is seen, concurrently or not; for a write in a task that it starts, it calls
/// [`note`] itself.
pub struct Tracked {
    serve: Arc<dyn Serve>,
}

/// Runs a reconcile and collects what it writes.
pub async fn track<T>(reconcile: impl Future<Output = T>) -> (T, Writes) {
    let tracked = async {
        let outcome = reconcile.await;
        (outcome, WRITES.with(RefCell::take))
    };
    WRITES.scope(RefCell::default(), tracked).await
}

/// The reconcile that runs in this task has written this revision.
pub fn note(resource: &GroupResource, version: ResourceVersion) {
    // Outside a reconcile nobody asks.
    let _ = WRITES.try_with(|writes| writes.borrow_mut().note(resource, version));
}

// === impl Writes ===

impl Writes {
    fn note(&mut self, resource: &GroupResource, version: ResourceVersion) {
        match self.newest.iter_mut().find(|(own, _)| own == resource) {
            Some((_, newest)) => *newest = version.max(*newest),
            None => self.newest.push((resource.clone(), version)),
        }
    }

    /// The caches among these that have yet to see the writes, and what they have to reach.
    pub fn unseen(&self, caches: &[Arc<Cache>]) -> Vec<(Arc<Cache>, ResourceVersion)> {
        let wanted = |cache: &Arc<Cache>| {
            let (_, version) = self.newest.iter().find(|(own, _)| own == cache.resource())?;
            (cache.version() < *version).then(|| (cache.clone(), *version))
        };
        caches.iter().filter_map(wanted).collect()
    }
}

// === impl Tracked ===

impl Tracked {
    /// The same server, looked at.
    pub fn new(serve: Arc<dyn Serve>) -> Self {
        Self { serve }
    }
}

impl Serve for Tracked {
    fn call(&self, request: Request) -> Reply<'_> {
        if is_read(&request.verb) {
            return self.serve.call(request);
        }
        let resource = request.target.resource.group_resource();
        let reply = self.serve.call(request);
        Box::pin(async move {
            let response = reply.await?;
            note_written(&resource, &response);
            Ok(response)
        })
    }
}

impl fmt::Debug for Tracked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tracked")
    }
}

fn is_read(verb: &Verb) -> bool {
    matches!(verb, Verb::Get(_) | Verb::List(_) | Verb::Watch(_))
}

fn note_written(resource: &GroupResource, response: &Response) {
    if let Body::Object(object) = &response.body {
        note(resource, object.resource_version());
    }
}
