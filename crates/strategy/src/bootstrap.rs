//! Bootstrap objects, as the registry takes them.

use setpoint_api::Gvr;
use setpoint_schema::Tree;

/// An object that the registry creates at start-up if it is missing, and reconciles if it exists.
#[derive(Debug, Clone)]
pub struct BootstrapObject {
    pub resource: Gvr,
    pub object: Tree,
    /// Whether a new object must pass its kind's validation.
    pub is_validated: bool,
    pub reconcile: Reconcile,
}

/// Reconciles an existing object with the desired one; `None` if nothing changes.
pub type Reconcile = fn(existing: &Tree, desired: &Tree) -> Option<Tree>;
