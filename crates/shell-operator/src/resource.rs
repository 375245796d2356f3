//! Resources of a server, by the names that hooks use for them.

use std::sync::Arc;

use setpoint_api::{Clock, Status};
use setpoint_client::{ApiResource, Http, RestMapper};

/// Finds resources by kind, plural, singular or short name, in any case.
#[derive(Debug, Clone)]
pub(crate) struct ResourceFinder {
    mapper: RestMapper,
}

impl ResourceFinder {
    pub(crate) fn new(http: Http, clock: Arc<dyn Clock>) -> Self {
        let mapper = RestMapper::new(http, clock);
        Self { mapper }
    }

    /// The resource with this name, in this version or, if that is empty, in the preferred one.
    pub(crate) async fn find(&self, api_version: &str, kind: &str) -> Result<ApiResource, Status> {
        if api_version.is_empty() {
            return self.mapper.find(kind).await;
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let found = self.mapper.find(&format!("{kind}.{version}.{group}")).await;
        found.map_err(|_| {
            Status::bad_request(format!(
                "apiVersion '{api_version}', kind '{kind}' is not supported by cluster"
            ))
        })
    }
}
