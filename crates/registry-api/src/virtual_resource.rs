//! Virtual resources, whose objects are not stored: reviews such as SubjectAccessReview, which can only be created, and
//! ComponentStatuses, which can only be read.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use jiff::Timestamp;

use setpoint_api::{Gvk, Status, Stored, Target, User};
use setpoint_cache::Caches;
use setpoint_schema::Tree;

/// Handler of the virtual resources of the API.
pub trait VirtualResource: Send + Sync + Debug {
    /// Handles a create. Returns the object of the response: mostly the one of the request, with its status.
    fn create<'a>(&'a self, request: ReviewRequest<'a>) -> ReviewFuture<'a>;

    /// All objects of a kind that can be read, computed at the time of the call.
    fn objects(&self, _gvk: &Gvk) -> Vec<Tree> {
        Vec::new()
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
