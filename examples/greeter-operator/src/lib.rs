//! Greeter: each has a ConfigMap of its name with the greeting it asks for.
//!
//! Start reading at [`greeter`], the kind, then [`controller`], what is done about it.

pub mod controller;
pub mod greeter;

use kube::CustomResourceExt;
use setpoint_manifests::Manifests;
use setpoint_runtime::Manager;
use setpoint_runtime::reconcile::Error;

pub use greeter::Greeter;

/// Everything that a cluster must be told before this can run: the kind, and what the program may do.
pub fn manifests() -> Result<String, Error> {
    let mut manager = Manager::unconnected();
    controller::add(&mut manager)?;
    let manifests = Manifests::new(controller::NAME, controller::NAME)
        .define(Greeter::crd())
        .rights(manager.rights());
    Ok(manifests.to_yaml())
}
