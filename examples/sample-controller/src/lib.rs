//! The sample controller of Kubernetes, in Rust: each Foo has a Deployment of the name and size in its spec.
//!
//! It behaves as <https://github.com/kubernetes/sample-controller> does: the same CRD, the same events, the same
//! status. What takes the Go original a thousand generated lines is the derive on [`foo::FooSpec`] here.
//!
//! Start reading at [`foo`], the custom resource, then [`controller`], its reconciler.

#![allow(clippy::disallowed_names, reason = "a Foo is called so upstream")]

pub mod controller;
pub mod foo;

use kube::CustomResourceExt;
use setpoint_manifests::Manifests;
use setpoint_runtime::Manager;
use setpoint_runtime::reconcile::Error;

pub use controller::add;
pub use foo::Foo;

/// The manifests to apply before the controller can run: its CRD and its RBAC role.
pub fn manifests() -> Result<String, Error> {
    let mut manager = Manager::unconnected();
    add(&mut manager)?;
    let manifests = Manifests::new(controller::NAME, controller::NAME)
        .crd(Foo::crd())
        .rbac_rules(manager.rbac_rules());
    Ok(manifests.to_yaml())
}
