//! Bootstrap objects, as the registry takes them.

use std::time::Duration;

use setpoint_api::Gvr;
use setpoint_schema::Tree;

/// An object that the registry creates at start-up if it is missing, and reconciles if it exists.
#[derive(Debug, Clone)]
pub struct BootstrapObject {
    pub resource: Gvr,
    pub object: Tree,
    /// The owner of its fields in `metadata.managedFields`.
    pub field_manager: &'static str,
    /// Whether a new object must pass its kind's validation.
    pub is_validated: bool,
    pub reconcile: Reconcile,
    pub recheck: Recheck,
}

/// When the API server looks at a bootstrap object again after its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recheck {
    /// Never: once deleted, it is missing until the next start.
    Never,
    /// It is created again if it is missing. One that exists is left as it is.
    CreateEvery(Duration),
    /// It is created again if it is missing, and reconciled if it has changed.
    ReconcileEvery(Duration),
}

/// Reconciles an existing object with the desired one; `None` if nothing changes.
pub type Reconcile = fn(existing: &Tree, desired: &Tree) -> Option<Tree>;

impl Recheck {
    /// The time between two checks; `None` if there are none.
    pub fn period(self) -> Option<Duration> {
        match self {
            Self::Never => None,
            Self::CreateEvery(period) | Self::ReconcileEvery(period) => Some(period),
        }
    }
}
