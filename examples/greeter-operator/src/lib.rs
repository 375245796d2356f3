//! Greeter: a custom resource, and a controller that keeps a ConfigMap with its greeting for each object.
//!
//! Start reading at [`greeter`], the kind, then [`controller`], its reconciler.

pub mod controller;
pub mod greeter;

use kube::CustomResourceExt;
use setpoint_manifests::Manifests;
use setpoint_runtime::Manager;
use setpoint_runtime::reconcile::Error;

pub use greeter::Greeter;

/// The manifests to apply before the controller can run: its CRD and its RBAC role.
pub fn manifests() -> Result<String, Error> {
    let mut manager = Manager::unconnected();
    controller::add(&mut manager)?;
    let manifests = Manifests::new(controller::NAME, controller::NAME)
        .crd(Greeter::crd())
        .rbac_rules(manager.rbac_rules());
    Ok(manifests.to_yaml())
}
