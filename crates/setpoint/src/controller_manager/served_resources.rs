//! [`ServedByDiscovery`]: the resources that an API server serves, for the controllers that handle every resource, and the
//! caches of them.
//!
//! They are discovered again when a CustomResourceDefinition or an APIService changes, and every half minute, as
//! kube-controller-manager's garbage collector does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use parking_lot::RwLock;
use setpoint_api::{ApiVerb, Clock, GroupResource, Gvr};
use setpoint_client::Http;
use setpoint_client::discovery::{self, ApiResource};
use setpoint_client::kubeconfig::Connection;
use setpoint_controllers::{Resource, Resources, ServedResources};
use setpoint_runtime::reflector::ReflectorOptions;
use setpoint_runtime::{Cache, Caches, Error, HandlerOptions, SharedInformerFactory};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// How often the resources are discovered if nothing changes.
const PERIOD: Duration = Duration::from_secs(30);

/// How long after a change they are discovered: a new CustomResourceDefinition changes several times, and is served after
/// that.
const SETTLE_TIME: Duration = Duration::from_millis(500);

/// The resources that an API server serves.
pub(super) struct ServedByDiscovery {
    http: Http,
    state: Arc<State>,
    /// The number of changes.
    changes: watch::Sender<u64>,
}

/// What the controllers read.
struct State {
    factory: SharedInformerFactory,
    resources: RwLock<BTreeMap<GroupResource, Resource>>,
}

impl ServedByDiscovery {
    /// The resources that were discovered at the start.
    pub(super) fn new(
        connection: &Connection,
        factory: SharedInformerFactory,
        discovered: &[ApiResource],
    ) -> Result<Self> {
        let resources = RwLock::new(select(discovered));
        Ok(Self {
            http: Http::new(connection)?,
            state: Arc::new(State { factory, resources }),
            changes: watch::Sender::new(0),
        })
    }

    /// The resources at any time.
    pub(super) fn resources(&self) -> ServedResources {
        let state = self.state.clone();
        let list = move || state.resources.read().values().cloned().collect::<Resources>();
        ServedResources::new(list, self.changes.subscribe())
    }

    /// The caches of all resources, including those that are served later.
    pub(super) fn caches(&self) -> Arc<dyn Caches> {
        self.state.clone()
    }

    /// Follows the resources until stopped.
    pub(super) async fn run(self, clock: Arc<dyn Clock>, stop: CancellationToken) -> Result<(), Error> {
        let changed = Arc::new(Notify::new());
        let definitions = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
        let services = Gvr::new("apiregistration.k8s.io", "v1", "apiservices");
        let mut registrations = Vec::new();
        for gvr in [definitions, services] {
            let informer = self.state.factory.informer(gvr, ReflectorOptions::default());
            let changed = changed.clone();
            let registered = informer.add_handler(HandlerOptions::default(), move |_| changed.notify_one());
            registrations.extend(registered);
        }
        let following = async {
            loop {
                tokio::select! {
                    () = changed.notified() => clock.sleep(SETTLE_TIME).await,
                    () = clock.sleep(PERIOD) => {}
                }
                self.discover().await;
            }
        };
        stop.run_until_cancelled(following).await;
        Ok(())
    }

    async fn discover(&self) {
        match discovery::discover(&self.http).await {
            Ok(discovered) => {
                let selected = select(&discovered);
                if *self.state.resources.read() != selected {
                    *self.state.resources.write() = selected;
                    self.changes.send_modify(|count| *count += 1);
                }
            }
            Err(status) => tracing::warn!(%status, "cannot discover the resources of the API server"),
        }
    }
}

impl Caches for State {
    fn cache(&self, resource: &GroupResource) -> Option<Arc<Cache>> {
        let gvr = self
            .resources
            .read()
            .get(resource)
            .map(|served| served.gvr.clone());
        match gvr {
            Some(gvr) => self.factory.cache_of(&gvr),
            None => self.factory.cache(resource),
        }
    }

    fn cache_of(&self, resource: &Gvr) -> Option<Arc<Cache>> {
        self.factory.cache_of(resource)
    }
}

/// The resources that can be watched and deleted, each in the version that the server prefers. Events are served by two
/// groups; they are those of the core group here.
fn select(discovered: &[ApiResource]) -> BTreeMap<GroupResource, Resource> {
    let can_delete = |one: &&ApiResource| one.verbs.iter().any(|verb| verb == ApiVerb::Delete.as_str());
    let is_copy = |one: &&ApiResource| one.gvr.group == "events.k8s.io";
    let mut selected = BTreeMap::new();
    for one in discovered
        .iter()
        .filter(|one| one.is_watchable() && can_delete(one) && !is_copy(one))
    {
        let resource = || Resource {
            gvk: one.gvk.clone(),
            gvr: one.gvr.clone(),
            namespaced: one.namespaced,
        };
        selected.entry(one.gvr.group_resource()).or_insert_with(resource);
    }
    selected
}

#[cfg(test)]
mod tests {
    use setpoint_api::Gvk;

    use super::*;

    fn served(group: &str, version: &str, resource: &str, verbs: &[&str]) -> ApiResource {
        ApiResource {
            gvr: Gvr::new(group, version, resource),
            gvk: Gvk::new(group, version, "Kind"),
            namespaced: true,
            singular: "".into(),
            short_names: vec![],
            categories: vec![],
            verbs: verbs.iter().map(|verb| (*verb).into()).collect(),
            subresources: vec![],
        }
    }

    #[test]
    fn each_resource_is_selected_once_in_the_preferred_version_if_it_can_be_collected() {
        let all = ["list", "watch", "delete"];
        let selected = select(&[
            served("", "v1", "events", &all),
            served("", "v1", "bindings", &["create"]),
            served("autoscaling", "v2", "horizontalpodautoscalers", &all),
            served("autoscaling", "v1", "horizontalpodautoscalers", &all),
            served("events.k8s.io", "v1", "events", &all),
            served("example.com", "v1", "readings", &["list", "watch"]),
        ]);
        let shown: Vec<String> = selected
            .values()
            .map(|one| format!("{} {}", one.gvr.version, one.gvr.resource))
            .collect();
        assert_eq!(shown, ["v1 events", "v2 horizontalpodautoscalers"]);
    }
}
