//! The sample controller of Kubernetes, in Rust: each Foo has a Deployment of the name and size that it asks for.
//!
//! It behaves as <https://github.com/kubernetes/sample-controller> does: the same definition, the same events, the same
//! status. What takes the Go original a thousand generated lines is the derive on [`foo::FooSpec`] here.
//!
//! Start reading at [`foo`], the kind, then [`controller`], which is all the rest.

#![allow(clippy::disallowed_names, reason = "a Foo is called so upstream")]

pub mod controller;
pub mod foo;

use kube::CustomResourceExt;
use setpoint_manifests::Manifests;
use setpoint_runtime::Manager;
use setpoint_runtime::reconcile::Error;

pub use controller::add;
pub use foo::Foo;

/// Everything that a cluster must be told before this can run: the kind, and what the program may do.
pub fn manifests() -> Result<String, Error> {
    let mut manager = Manager::unconnected();
    add(&mut manager)?;
    let manifests = Manifests::new(controller::NAME, controller::NAME)
        .define(Foo::crd())
        .rights(manager.rights());
    Ok(manifests.to_yaml())
}
