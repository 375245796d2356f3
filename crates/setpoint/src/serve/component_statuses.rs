//! The virtual resources of the server. ComponentStatuses are the health of the store, the controllers and the scheduler in
//! this process.

use std::iter;

use setpoint_api::{Gvk, Key, Status};
use setpoint_registry_api::{ReviewFuture, ReviewRequest, VirtualResource};
use setpoint_schema::Tree;
use setpoint_store::Store;
use setpoint_strategy::meta;

use super::metrics_api::MetricsApi;

/// The virtual resources of the server: access reviews, the status of its components, and the metrics of nodes and pods.
#[derive(Debug)]
pub(super) struct VirtualResources<R> {
    pub reviews: R,
    /// All stores, the default one first.
    pub stores: Vec<Store>,
    /// Whether any controller runs in this process.
    pub runs_controllers: bool,
    /// Whether the scheduler runs in this process.
    pub runs_scheduler: bool,
    /// The metrics API, if it is served.
    pub metrics: Option<MetricsApi>,
}

impl<R: VirtualResource> VirtualResource for VirtualResources<R> {
    fn prepare(&self, request: &mut ReviewRequest<'_>) -> Result<(), Status> {
        self.reviews.prepare(request)
    }

    fn create<'a>(&'a self, request: ReviewRequest<'a>) -> ReviewFuture<'a> {
        self.reviews.create(request)
    }

    fn objects(&self, gvk: &Gvk, namespace: &str) -> Vec<Tree> {
        match &self.metrics {
            Some(metrics) if MetricsApi::serves(gvk) => metrics.objects(gvk, namespace),
            _ if gvk.kind == "ComponentStatus" => self.component_statuses(),
            _ => self.reviews.objects(gvk, namespace),
        }
    }

    fn find(&self, gvk: &Gvk, key: &Key) -> Result<Option<Tree>, Status> {
        match &self.metrics {
            Some(metrics) if MetricsApi::serves(gvk) => metrics.find(gvk, key).map(Some),
            _ => {
                let mut objects = self.objects(gvk, key.namespace()).into_iter();
                Ok(objects.find(|object| meta::name(object) == key.name()))
            }
        }
    }
}

impl<R> VirtualResources<R> {
    fn component_statuses(&self) -> Vec<Tree> {
        let manager = component_status("controller-manager", running(self.runs_controllers));
        let stores = self.stores.iter().enumerate().map(|(index, store)| {
            let health = store.check_writable().map_err(|error| error.to_string());
            component_status(&format!("etcd-{index}"), health)
        });
        let scheduler = component_status("scheduler", running(self.runs_scheduler));
        iter::once(manager).chain(stores).chain([scheduler]).collect()
    }
}

/// A component that fails stops the process, so one that runs is healthy.
fn running(is_running: bool) -> Result<(), String> {
    let disabled = || "disabled by --controllers".to_owned();
    is_running.then_some(()).ok_or_else(disabled)
}

fn component_status(name: &str, health: Result<(), String>) -> Tree {
    let mut condition = Tree::default();
    condition.set(&["type"], "Healthy");
    match health {
        Ok(()) => {
            condition.set(&["status"], "True");
            condition.set(&["message"], "ok");
        }
        Err(error) => {
            condition.set(&["status"], "False");
            condition.set(&["error"], error);
        }
    }
    let mut status = Tree::default();
    status.set(&["apiVersion"], "v1");
    status.set(&["kind"], "ComponentStatus");
    status.set(&["metadata", "name"], name);
    status.set(&["conditions"], vec![condition]);
    status
}
