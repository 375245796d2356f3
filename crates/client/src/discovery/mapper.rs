//! [`Mapper`]: from a kind, or from a name as kubectl accepts it, to a resource.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_api::{Clock, Gvk, Status};

use super::{ApiResource, DiscoveredResources, discover};
use crate::http::Http;

/// A cache of discovery (client-go's RESTMapper). A failed lookup refreshes it. Cloning shares the cache.
#[derive(Clone)]
pub struct RestMapper {
    http: Http,
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    resources: DiscoveredResources,
    discovered_at: Option<Timestamp>,
}

/// Failed lookups refresh the cache at most this often: a caller may retry in a loop.
const MIN_REDISCOVERY_INTERVAL: Duration = Duration::from_secs(1);

impl RestMapper {
    /// An empty cache: the first lookup fills it.
    pub fn new(http: Http, clock: Arc<dyn Clock>) -> Self {
        let state = Arc::default();
        Self { http, clock, state }
    }

    /// The resource of a kind.
    pub async fn resource_for(&self, gvk: &Gvk) -> Result<ApiResource, Status> {
        let found = self
            .find_or_rediscover(|resources| resources.iter().find(|own| own.gvk == *gvk).cloned())
            .await?;
        found.ok_or_else(|| {
            Status::bad_request(format!(
                "no matches for kind {:?} in version {:?}",
                gvk.kind.as_str(),
                gvk.api_version().as_str()
            ))
        })
    }

    /// The resource by a name as kubectl accepts it: plural, singular, short name or kind, optionally followed by the group
    /// or by version and group. `deploy`, `deployments.apps` and `deployments.v1.apps` are one.
    pub async fn find(&self, name: &str) -> Result<ApiResource, Status> {
        let found = self
            .find_or_rediscover(|resources| match_resource(resources, name))
            .await?;
        found.ok_or_else(|| Status::bad_request(format!("the server doesn't have a resource type {name:?}")))
    }

    /// All resources.
    pub async fn all(&self) -> Result<Vec<ApiResource>, Status> {
        let resources = self.resources().await?;
        Ok(resources.to_vec())
    }

    /// Clears the cache, so that the next lookup refreshes it.
    pub fn reset(&self) {
        *self.state.lock() = State::default();
    }

    async fn find_or_rediscover<T>(
        &self,
        find: impl Fn(&[ApiResource]) -> Option<T>,
    ) -> Result<Option<T>, Status> {
        if let Some(found) = find(&self.resources().await?) {
            return Ok(Some(found));
        }
        if !self.may_rediscover() {
            return Ok(None);
        }
        Ok(find(&self.rediscover().await?))
    }

    async fn resources(&self) -> Result<DiscoveredResources, Status> {
        let resources = {
            let state = self.state.lock();
            state.discovered_at.map(|_| state.resources.clone())
        };
        match resources {
            Some(resources) => Ok(resources),
            None => self.rediscover().await,
        }
    }

    fn may_rediscover(&self) -> bool {
        let discovered_at = self.state.lock().discovered_at;
        discovered_at
            .is_none_or(|at| self.clock.now().duration_since(at).unsigned_abs() >= MIN_REDISCOVERY_INTERVAL)
    }

    async fn rediscover(&self) -> Result<DiscoveredResources, Status> {
        let resources: DiscoveredResources = discover(&self.http).await?.into();
        *self.state.lock() = State {
            resources: resources.clone(),
            discovered_at: Some(self.clock.now()),
        };
        Ok(resources)
    }
}

impl fmt::Debug for RestMapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resources = self.state.lock().resources.len();
        write!(f, "RestMapper({resources} resources)")
    }
}

/// The resource by name: exact names before short names, and of several groups or versions the one the server prefers.
fn match_resource(resources: &[ApiResource], name: &str) -> Option<ApiResource> {
    let name = name.to_lowercase();
    let (name, rest) = name.split_once('.').unwrap_or((&name, ""));
    let matches_group = |resource: &ApiResource| {
        let (group, version) = (resource.gvr.group.as_str(), resource.gvr.version.as_str());
        let versioned = rest.split_once('.').unwrap_or((rest, ""));
        rest.is_empty() || rest == group || versioned == (version, group)
    };
    let matches_name = |resource: &ApiResource| {
        let kind = resource.gvk.kind.to_lowercase();
        resource.gvr.resource == name || resource.singular == name || kind == name
    };
    let matches_short_name = |resource: &ApiResource| resource.short_names.iter().any(|own| own == name);
    let mut candidates = resources.iter().filter(|resource| matches_group(resource));
    let exact = candidates.clone().find(|resource| matches_name(resource));
    exact
        .or_else(|| candidates.find(|resource| matches_short_name(resource)))
        .cloned()
}

#[cfg(test)]
mod tests {
    use setpoint_api::Gvr;

    use super::*;

    fn resource(
        group: &str,
        version: &str,
        plural: &str,
        kind: &str,
        matches_short_name: &str,
    ) -> ApiResource {
        ApiResource {
            gvr: Gvr::new(group, version, plural),
            gvk: Gvk::new(group, version, kind),
            namespaced: true,
            singular: kind.to_lowercase().into(),
            short_names: vec![matches_short_name.into()],
            categories: Vec::new(),
            verbs: Vec::new(),
            subresources: Vec::new(),
        }
    }

    #[track_caller]
    fn check(name: &str, expected: &str) {
        let resources = [
            resource("", "v1", "events", "Event", "ev"),
            resource("apps", "v1", "deployments", "Deployment", "deploy"),
            resource("apps", "v1beta1", "deployments", "Deployment", "deploy"),
            resource("events.k8s.io", "v1", "events", "Event", "ev"),
            resource("x.io", "v1", "deploys", "Deploy", "pods"),
        ];
        let found = match_resource(&resources, name);
        let shown = found.map_or("nothing".to_owned(), |found| {
            format!("{} {}", found.gvr.api_version(), found.gvr.resource)
        });
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_name_is_resolved_as_kubectl_does() {
        for name in [
            "deployments",
            "deployment",
            "Deployment",
            "deployments.apps",
            "deployments.v1.apps",
        ] {
            check(name, "apps/v1 deployments");
        }
        check("deployments.v1beta1.apps", "apps/v1beta1 deployments");
        check("ev", "v1 events");
        check("events.events.k8s.io", "events.k8s.io/v1 events");
        check("deploy", "x.io/v1 deploys");
        check("deploy.apps", "apps/v1 deployments");
        check("nonsense", "nothing");
        check("deployments.other", "nothing");
    }
}
