//! ComponentStatuses: the health of the store, the controllers and the scheduler in this process.

use setpoint_api::Gvk;
use setpoint_registry_api::{ReviewFuture, ReviewRequest, VirtualResource};
use setpoint_schema::Tree;
use setpoint_store::Store;

/// The virtual resources of the server: access reviews, and the status of its components.
#[derive(Debug)]
pub(super) struct VirtualResources<R> {
    pub reviews: R,
    pub store: Store,
    /// Whether any controller runs in this process.
    pub runs_controllers: bool,
    /// Whether the scheduler runs in this process.
    pub runs_scheduler: bool,
}

impl<R: VirtualResource> VirtualResource for VirtualResources<R> {
    fn create<'a>(&'a self, request: ReviewRequest<'a>) -> ReviewFuture<'a> {
        self.reviews.create(request)
    }

    fn objects(&self, gvk: &Gvk) -> Vec<Tree> {
        if gvk.kind != "ComponentStatus" {
            return self.reviews.objects(gvk);
        }
        let store = self.store.check_writable().map_err(|error| error.to_string());
        vec![
            component_status("controller-manager", running(self.runs_controllers)),
            component_status("etcd-0", store),
            component_status("scheduler", running(self.runs_scheduler)),
        ]
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
