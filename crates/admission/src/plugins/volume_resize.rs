//! PersistentVolumeClaimResize: a claim may grow only if its StorageClass allows volume expansion.

use serde::Deserialize;

use setpoint_api::{GroupResource, Key, Quantity, Status};
use setpoint_registry_api::{Operation, Review};
use setpoint_schema::{Tree, fields};

use crate::chain::Plugin;
use crate::review;

/// Checks updates that increase the requested storage.
#[derive(Debug)]
pub(crate) struct PersistentVolumeClaimResize;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Class {
    allow_volume_expansion: bool,
}

impl Plugin for PersistentVolumeClaimResize {
    fn name(&self) -> &'static str {
        "PersistentVolumeClaimResize"
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if review.operation != Operation::Update || !review::is_resource(review, "", "persistentvolumeclaims")
        {
            return Ok(());
        }
        let (Some(old), Some(claim)) = (review.decode_old(), review.object.as_deref()) else {
            return Ok(());
        };
        if size(claim) <= size(&old) {
            return Ok(());
        }
        if old.str_at(&[fields::STATUS, fields::PHASE]) != Some("Bound") {
            let why = "Only bound persistent volume claims can be expanded";
            return Err(review::forbidden(review, why));
        }
        if !can_grow(review, claim) {
            let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
            return Err(review::forbidden(review, why));
        }
        Ok(())
    }
}

fn size(claim: &Tree) -> Quantity {
    let text = claim.str_at(&[fields::SPEC, fields::RESOURCES, fields::REQUESTS, "storage"]);
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn can_grow(review: &Review<'_>, claim: &Tree) -> bool {
    let Some(class) = claim.str_at(&[fields::SPEC, fields::STORAGE_CLASS_NAME]) else {
        return false;
    };
    let classes = GroupResource::new("storage.k8s.io", "storageclasses");
    let found = review.find(&classes, &Key::new("", class));
    found.is_some_and(|class| review::view::<Class>(&class).allow_volume_expansion)
}
