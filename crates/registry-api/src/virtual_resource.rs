//! Virtual resources, whose objects are not stored: reviews such as SubjectAccessReview, which can only be created, and
//! ComponentStatuses and the metrics of nodes and pods, which can only be read.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use jiff::Timestamp;

use setpoint_api::{Gvk, Key, Status, Stored, Target, User};
use setpoint_cache::Caches;
use setpoint_schema::Tree;

/// Handler of the virtual resources of the API.
pub trait VirtualResource: Send + Sync + Debug {
    /// Checks and completes a request before validating admission sees it.
    fn prepare(&self, _request: &mut ReviewRequest<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Handles a create. Returns the object of the response: mostly the one of the request, with its status.
    fn create<'a>(&'a self, request: ReviewRequest<'a>) -> ReviewFuture<'a>;

    /// The objects of a kind that can be read, computed at the time of the call: those of a namespace, or all of them if
    /// it is empty.
    fn objects(&self, _gvk: &Gvk, _namespace: &str) -> Vec<Tree> {
        Vec::new()
    }

    /// The object of this key, computed at the time of the call. The error is that of a kind with a message of its own for
    /// an object that does not exist.
    fn find(&self, gvk: &Gvk, key: &Key) -> Result<Option<Tree>, Status> {
        let mut objects = self.objects(gvk, key.namespace()).into_iter();
        Ok(objects.find(|object| object.str_at(&["metadata", "name"]) == Some(key.name())))
    }
}

/// The pending result of [`VirtualResource::create`].
pub type ReviewFuture<'a> = Pin<Box<dyn Future<Output = Result<Tree, Status>> + Send + 'a>>;

/// A create of a virtual resource.
#[derive(Clone)]
pub struct ReviewRequest<'a> {
    pub user: &'a Arc<User>,
    /// The kind of the body.
    pub gvk: &'a Gvk,
    pub target: &'a Target,
    /// The object that a subresource belongs to.
    pub parent: Option<Arc<Stored>>,
    /// The object of the request, in normal form and with its defaults.
    pub body: Tree,
    pub caches: &'a dyn Caches,
    pub now: Timestamp,
}

/// Serves no virtual resource: for tests, and for servers without authentication.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoVirtualResources;

impl VirtualResource for NoVirtualResources {
    fn create<'a>(&'a self, _request: ReviewRequest<'a>) -> ReviewFuture<'a> {
        Box::pin(async { Err(Status::method_not_allowed()) })
    }
}

impl Debug for ReviewRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReviewRequest")
            .field("gvk", &self.gvk)
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}
