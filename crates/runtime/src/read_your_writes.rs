//! Read-your-writes consistency of reconciles.
//!
//! A cache is a little behind the server. A reconcile on a cache without the writes of the previous one would repeat them:
//! one pod too many. So the client that a reconcile is given records its writes, and the worker holds the key until the
//! caches that the controller reads have reached the revisions of those writes.
//!
//! Which reconcile a write belongs to follows from the client alone: a clone of it in a concurrent request or in a spawned
//! task records for the same reconcile. Writes through another client are not recorded.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::{Body, GroupResource, Request, ResourceVersion, Response, Serve, ServeFuture, Verb};
use setpoint_cache::Cache;
use setpoint_client::Client;

/// The newest revision of each resource that a reconcile has written.
#[derive(Debug, Default)]
struct Writes {
    newest: Vec<(GroupResource, ResourceVersion)>,
}

/// A `Serve` that records the writes of one reconcile. Reads pass through.
pub(crate) struct WriteTracker {
    serve: Arc<dyn Serve>,
    writes: Mutex<Writes>,
}

// === impl Writes ===

impl Writes {
    fn record(&mut self, resource: &GroupResource, version: ResourceVersion) {
        match self.newest.iter_mut().find(|(own, _)| own == resource) {
            Some((_, newest)) => *newest = version.max(*newest),
            None => self.newest.push((resource.clone(), version)),
        }
    }

    fn unseen(&self, caches: &[Arc<Cache>]) -> Vec<(Arc<Cache>, ResourceVersion)> {
        let unseen = |cache: &Arc<Cache>| {
            let (_, version) = self.newest.iter().find(|(own, _)| own == cache.resource())?;
            (cache.version() < *version).then(|| (cache.clone(), *version))
        };
        caches.iter().filter_map(unseen).collect()
    }
}

// === impl WriteTracker ===

impl WriteTracker {
    /// The client for one reconcile, and the tracker of its writes.
    pub(crate) fn client(base: &Client) -> (Client, Arc<Self>) {
        let tracker = Arc::new(Self {
            serve: base.serve().clone(),
            writes: Mutex::default(),
        });
        (base.with_serve(tracker.clone()), tracker)
    }

    /// The caches among these that do not have the writes so far, with the revision each has to reach.
    pub(crate) fn unseen(&self, caches: &[Arc<Cache>]) -> Vec<(Arc<Cache>, ResourceVersion)> {
        self.writes.lock().unseen(caches)
    }

    fn record_response(&self, resource: &GroupResource, response: &Response) {
        if let Body::Object(object) = &response.body {
            self.writes.lock().record(resource, object.resource_version());
        }
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
            self.record_response(&resource, &response);
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
