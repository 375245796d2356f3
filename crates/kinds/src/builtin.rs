//! The list of all built-in kinds.

use setpoint_strategy::Kinds;

/// The built-in kinds, in the order of discovery. Each group lists its own.
pub fn builtin() -> Kinds {
    [
        crate::core::all(),
        crate::apiregistration::all(),
        crate::apps::all(),
        crate::events::all(),
        crate::authentication::all(),
        crate::authorization::all(),
        crate::autoscaling::all(),
        crate::batch::all(),
        crate::certificates::all(),
        crate::networking::all(),
        crate::policy::all(),
        crate::rbac::all(),
        crate::storage::all(),
        crate::admissionregistration::all(),
        crate::apiextensions::all(),
        crate::scheduling::all(),
        crate::coordination::all(),
        crate::node_k8s::all(),
        crate::discovery::all(),
        crate::resource::all(),
        crate::flowcontrol::all(),
        crate::storagemigration::all(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
