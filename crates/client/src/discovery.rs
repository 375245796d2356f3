//! Discovery: the resources that a server serves in all groups and versions, and [`RestMapper`], from a kind or a name to a
//! resource.
//!
//! Servers since Kubernetes 1.27 return everything in one response (aggregated discovery); for others it is put together
//! from one request for each version. The mapper caches the result until a lookup fails: a custom kind may have been
//! installed since.

mod formats;
mod mapper;

use std::sync::Arc;

use compact_str::CompactString;
use setpoint_api::{ApiVerb, Gvk, Gvr, Status};

use crate::http::Http;

pub use mapper::RestMapper;

/// One resource in one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiResource {
    /// Group, version and resource, as in the URL.
    pub gvr: Gvr,
    /// The kind of its objects.
    pub gvk: Gvk,
    /// Whether its objects are namespaced.
    pub namespaced: bool,
    /// The singular name.
    pub singular: CompactString,
    /// Short names, as kubectl accepts them.
    pub short_names: Vec<CompactString>,
    /// Categories, such as `all`.
    pub categories: Vec<CompactString>,
    /// The verbs that it supports.
    pub verbs: Vec<CompactString>,
    /// Its subresources: `status`, `scale`.
    pub subresources: Vec<CompactString>,
}

/// All resources of the server, in its order of preference of groups and versions.
pub async fn discover(http: &Http) -> Result<Vec<ApiResource>, Status> {
    let mut resources = Vec::new();
    for root in ["/api", "/apis"] {
        let json = http.get_as(root, AGGREGATED).await?;
        match formats::root(&json)? {
            formats::Root::Aggregated(found) => resources.extend(found),
            formats::Root::Versions(paths) => {
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

/// The resources of one version; none if its server does not respond, since other versions may.
async fn version_at(http: &Http, path: &str) -> Vec<ApiResource> {
    let read = match http.get(path).await {
        Ok(json) => formats::version(&json),
        Err(status) => Err(status),
    };
    read.unwrap_or_else(|status| {
        tracing::warn!(%status, path, "cannot discover the resources of a version");
        Vec::new()
    })
}

// === impl ApiResource ===

impl ApiResource {
    /// Whether the resource can be listed and watched, so that an informer can follow it.
    pub fn is_watchable(&self) -> bool {
        [ApiVerb::List, ApiVerb::Watch]
            .iter()
            .all(|verb| self.verbs.iter().any(|own| own == verb.as_str()))
    }

    /// Whether it has a status subresource.
    pub fn has_status(&self) -> bool {
        self.subresources.iter().any(|sub| sub == "status")
    }
}

/// The resources of a server, shared by readers.
type DiscoveredResources = Arc<[ApiResource]>;
