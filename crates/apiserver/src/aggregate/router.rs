//! `Serve` for in-process callers that covers local and aggregated resources.

use std::fmt;
use std::sync::Arc;

use setpoint_api::{Request, Serve, ServeFuture};

use super::Aggregator;

/// Routes a call to the local API or to the remote that serves the resource.
pub struct Router {
    pub aggregator: Arc<Aggregator>,
    /// The local API.
    pub local: Arc<dyn Serve>,
    /// A client over the aggregator's connections.
    pub remote: Arc<dyn Serve>,
}

impl Serve for Router {
    fn call(&self, request: Request) -> ServeFuture<'_> {
        match self.aggregator.serves(&request.target.resource) {
            true => self.remote.call(request),
            false => self.local.call(request),
        }
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router")
            .field("remote", &self.aggregator)
            .finish_non_exhaustive()
    }
}
