//! An operator: the knowledge of a database administrator, as a control loop.
//!
//! One custom resource, a [`Database`], stands for a database of several members, of which one is the primary. The
//! operator installs it, upgrades it member by member with a backup before, backs it up on schedule, makes another member
//! the primary when the primary fails, and takes a last backup before a database is deleted.
//!
//! Start reading at [`database`], the custom resource; then [`plan`], which decides and is pure; [`objects`] has the desired
//! objects, and [`controller`] observes, plans, acts and reports.

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

/// The manifests to apply before the controller can run: its CRD and its RBAC role.
pub fn manifests() -> Result<String, Error> {
    let mut manager = Manager::unconnected();
    add(&mut manager)?;
    let manifests = Manifests::new(controller::NAME, controller::NAME)
        .crd(Database::crd())
        .rbac_rules(manager.rbac_rules());
    Ok(manifests.to_yaml())
}
