//! StorageObjectInUseProtection: finalizers that keep volumes, claims and VolumeAttributesClasses while they are in use.

use setpoint_api::Status;
use setpoint_registry_api::{Operation, Review};
use setpoint_schema::{Tree, fields};
use setpoint_strategy::meta;

use crate::chain::Plugin;
use crate::review;

const PROTECTED: &[(&str, &str, &str)] = &[
    ("", "persistentvolumeclaims", "kubernetes.io/pvc-protection"),
    ("", "persistentvolumes", "kubernetes.io/pv-protection"),
    (
        "storage.k8s.io",
        "volumeattributesclasses",
        "kubernetes.io/vac-protection",
    ),
];

/// Adds the protection finalizer to new objects.
#[derive(Debug)]
pub(crate) struct StorageObjectInUseProtection;

impl Plugin for StorageObjectInUseProtection {
    fn name(&self) -> &'static str {
        "StorageObjectInUseProtection"
    }

    fn mutate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if review.operation != Operation::Create {
            return Ok(());
        }
        let found = PROTECTED
            .iter()
            .find(|(group, resource, _)| review::is_resource(review, group, resource));
        if let (Some((_, _, finalizer)), Some(object)) = (found, review.object.as_deref_mut()) {
            protect(object, finalizer);
        }
        Ok(())
    }
}

fn protect(object: &mut Tree, finalizer: &str) {
    let own = meta::find(object, "finalizers")
        .and_then(Tree::as_list)
        .unwrap_or_default();
    if !own.iter().any(|own| own.as_str() == Some(finalizer)) {
        review::push(
            object.child(fields::METADATA),
            "finalizers",
            Tree::from(finalizer),
        );
    }
}
