//! An operator: what somebody who runs a database by hand knows, as a control loop.
//!
//! One custom resource, a [`Database`], stands for a database of several members, of which one is the primary. The
//! operator installs it, upgrades it member by member with a backup before, backs it up on schedule, makes another member
//! the primary when the primary fails, and takes a last backup before it lets a database go.
//!
//! Start reading at [`database`], the kind; then [`plan`], which decides and is pure; [`objects`] says what things look
//! like, and [`controller`] reads, plans, acts and reports.

pub mod controller;
pub mod database;
pub mod objects;
pub mod observe;
pub mod plan;
mod report;

use kube::CustomResourceExt;
use setpoint_manifests::Manifests;
use setpoint_runtime::Manager;
use setpoint_runtime::reconcile::Error;

pub use controller::add;
pub use database::Database;

/// Everything that a cluster must be told before this can run: the kind, and what the program may do.
pub fn manifests() -> Result<String, Error> {
    let mut manager = Manager::unconnected();
    add(&mut manager)?;
    let manifests = Manifests::new(controller::NAME, controller::NAME)
        .define(Database::crd())
        .rights(manager.rights());
    Ok(manifests.to_yaml())
}
