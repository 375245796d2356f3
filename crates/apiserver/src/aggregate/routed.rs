//! The API as parts of this process see it: what this server serves, and what others do.

use std::fmt;
use std::sync::Arc;

use setpoint_api::{Reply, Request, Serve};

use super::Aggregator;

/// Calls go to this server itself, or to the one that serves the resource.
pub struct Routed {
    pub aggregator: Arc<Aggregator>,
    /// What this server serves.
    pub local: Arc<dyn Serve>,
    /// Reaches the others, by the aggregator's own connections.
    pub others: Arc<dyn Serve>,
}

impl Serve for Routed {
    fn call(&self, request: Request) -> Reply<'_> {
        match self.aggregator.serves(&request.target.resource) {
            true => self.others.call(request),
            false => self.local.call(request),
        }
    }
}

impl fmt::Debug for Routed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routed")
            .field("others", &self.aggregator)
            .finish_non_exhaustive()
    }
}
