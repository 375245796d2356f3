//! What a server serves: the resources of all groups and versions, and how to get from a kind or a word to one of them.
//!
//! The answer comes in one piece from a server that knows the aggregated form, which all do since Kubernetes 1.27; from
//! others it is put together. What is known is kept until something is asked for that is not known: a custom kind may
//! have come since.

mod mapper;
mod read;

use std::sync::Arc;

use compact_str::CompactString;
use setpoint_api::{Gvk, Gvr, Status};

use crate::http::Http;

pub use mapper::Mapper;

/// One resource in one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiResource {
    /// Where its objects are found.
    pub gvr: Gvr,
    /// What they are.
    pub gvk: Gvk,
    /// Whether they live in namespaces.
    pub namespaced: bool,
    /// What one of them is called.
    pub singular: CompactString,
    /// What users may type instead.
    pub short_names: Vec<CompactString>,
    /// The groups of resources it belongs to: `all`.
    pub categories: Vec<CompactString>,
    /// What can be done with it.
    pub verbs: Vec<CompactString>,
    /// The parts of an object that have a path of their own: `status`, `scale`.
    pub subresources: Vec<CompactString>,
}

/// Everything the server serves, in the order in which it prefers groups and versions.
pub async fn discover(http: &Http) -> Result<Vec<ApiResource>, Status> {
    let mut resources = Vec::new();
    for root in ["/api", "/apis"] {
        let answer = http.get_as(root, AGGREGATED).await?;
        match read::root(&answer)? {
            read::Root::Aggregated(found) => resources.extend(found),
            read::Root::Versions(paths) => {
                for path in paths {
                    resources.extend(version_at(http, &path).await);
                }
            }
        }
    }
    Ok(resources)
}

const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// The resources of one version; none of one whose server does not answer, since the others may.
async fn version_at(http: &Http, path: &str) -> Vec<ApiResource> {
    let read = match http.get(path).await {
        Ok(answer) => read::version(&answer),
        Err(status) => Err(status),
    };
    read.unwrap_or_else(|status| {
        tracing::warn!(%status, path, "a version cannot be discovered");
        Vec::new()
    })
}

// === impl ApiResource ===

impl ApiResource {
    /// Whether the resource can be listed and watched, so that an informer can follow it.
    pub fn is_watchable(&self) -> bool {
        ["list", "watch"]
            .iter()
            .all(|verb| self.verbs.iter().any(|own| own == verb))
    }

    /// Whether the status has a path of its own.
    pub fn has_status(&self) -> bool {
        self.subresources.iter().any(|sub| sub == "status")
    }
}

/// What is known of a server, shared by those who read it.
type Known = Arc<[ApiResource]>;
