//! Which volume a claim is bound to, and the phases of both. Pure.

use k8s_openapi::api::core::v1::{
    ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus,
};
use setpoint_api::Quantity;
use setpoint_runtime::label_selector;

pub(crate) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
pub(crate) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// The phase of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Unbound, or reserved for a claim that does not exist yet.
    Available,
    Bound,
    /// Its claim was deleted.
    Released,
}

/// The smallest volume that satisfies the claim; one that is reserved for it comes first.
pub(crate) fn find<'a>(
    claim: &PersistentVolumeClaim,
    volumes: &'a [PersistentVolume],
) -> Option<&'a PersistentVolume> {
    let reserved = volumes.iter().find(|volume| is_reserved_for(volume, claim));
    if reserved.is_some() {
        return reserved;
    }
    let free = volumes
        .iter()
        .filter(|volume| is_free(volume) && fits(claim, volume));
    free.min_by_key(|volume| (capacity(volume), volume.metadata.name.clone()))
}

/// Whether the volume references this claim, or one of its name without a uid.
pub(crate) fn is_reserved_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    reference.is_some_and(|reference| {
        let has_uid = reference.uid.as_deref().is_some_and(|uid| !uid.is_empty());
        reference.name == claim.metadata.name
            && reference.namespace == claim.metadata.namespace
            && (!has_uid || reference.uid == claim.metadata.uid)
    })
}

fn is_free(volume: &PersistentVolume) -> bool {
    let spec = volume.spec.as_ref();
    volume.metadata.deletion_timestamp.is_none() && spec.is_some_and(|spec| spec.claim_ref.is_none())
}

fn fits(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let (Some(claim_spec), Some(volume_spec)) = (&claim.spec, &volume.spec) else {
        return false;
    };
    let modes = volume_spec.access_modes.clone().unwrap_or_default();
    let labels = volume.metadata.labels.clone().unwrap_or_default();
    let selector = claim_spec.selector.as_ref().map(label_selector);
    let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".to_owned());
    claim_spec
        .access_modes
        .iter()
        .flatten()
        .all(|mode| modes.contains(mode))
        && claim_spec.storage_class_name.clone().unwrap_or_default()
            == volume_spec.storage_class_name.clone().unwrap_or_default()
        && mode(&claim_spec.volume_mode) == mode(&volume_spec.volume_mode)
        && request(claim) <= capacity(volume)
        && selector.is_none_or(|selector| {
            selector.is_ok_and(|selector| selector.matches(|label| labels.get(label).map(String::as_str)))
        })
}

fn request(claim: &PersistentVolumeClaim) -> Quantity {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let storage = resources.and_then(|resources| resources.requests.as_ref()?.get("storage"));
    storage
        .and_then(|amount| amount.0.parse().ok())
        .unwrap_or_default()
}

fn capacity(volume: &PersistentVolume) -> Quantity {
    let capacity = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref());
    let storage = capacity.and_then(|capacity| capacity.get("storage"));
    storage
        .and_then(|amount| amount.0.parse().ok())
        .unwrap_or_default()
}

/// The volume with a reference to the claim; unchanged if it has it already.
pub(crate) fn bound_volume(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> PersistentVolume {
    let mut bound_volume = volume.clone();
    let spec = bound_volume.spec.get_or_insert_default();
    if spec
        .claim_ref
        .as_ref()
        .is_some_and(|own| own.uid == claim.metadata.uid)
    {
        return bound_volume;
    }
    let was_kept = spec.claim_ref.is_some();
    spec.claim_ref = Some(ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace: claim.metadata.namespace.clone(),
        name: claim.metadata.name.clone(),
        uid: claim.metadata.uid.clone(),
        resource_version: claim.metadata.resource_version.clone(),
        field_path: None,
    });
    if !was_kept {
        note(&mut bound_volume.metadata.annotations, BOUND_BY_CONTROLLER);
    }
    bound_volume
}

/// The claim with the name of the volume; unchanged if it has it already.
pub(crate) fn bound_claim(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> PersistentVolumeClaim {
    let mut bound_claim = claim.clone();
    let spec = bound_claim.spec.get_or_insert_default();
    if spec.volume_name.as_deref().unwrap_or_default().is_empty() {
        spec.volume_name.clone_from(&volume.metadata.name);
        note(&mut bound_claim.metadata.annotations, BOUND_BY_CONTROLLER);
    }
    note(&mut bound_claim.metadata.annotations, BIND_COMPLETED);
    bound_claim
}

fn note(annotations: &mut Option<std::collections::BTreeMap<String, String>>, name: &str) {
    let annotations = annotations.get_or_insert_default();
    annotations.insert(name.to_owned(), "yes".to_owned());
}

/// The status of a claim bound to the volume.
pub(crate) fn bound_status(
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> PersistentVolumeClaimStatus {
    let spec = volume.spec.clone().unwrap_or_default();
    PersistentVolumeClaimStatus {
        phase: Some("Bound".to_owned()),
        access_modes: spec.access_modes,
        capacity: spec.capacity,
        ..claim.status.clone().unwrap_or_default()
    }
}

/// The phase of the volume, given its claim as it exists now.
pub(crate) fn phase(volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>) -> Phase {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    let uid = reference
        .and_then(|reference| reference.uid.as_deref())
        .filter(|uid| !uid.is_empty());
    match (uid, claim) {
        (None, _) => Phase::Available,
        (Some(uid), Some(claim)) if claim.metadata.uid.as_deref() == Some(uid) => Phase::Bound,
        _ => Phase::Released,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn volume(name: &str, storage: &str, class: &str, kept_for: Option<&str>) -> PersistentVolume {
        let reference = kept_for.map(|name| json!({"namespace": "default", "name": name}));
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": {
            "capacity": {"storage": storage}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
            "storageClassName": class, "claimRef": reference}}))
        .unwrap()
    }

    fn claim(storage: &str, class: &str, mode: &str) -> PersistentVolumeClaim {
        serde_json::from_value(json!({"metadata": {"name": "data", "namespace": "default", "uid": "u"}, "spec": {
            "accessModes": [mode], "storageClassName": class, "resources": {"requests": {"storage": storage}}}}))
        .unwrap()
    }

    #[track_caller]
    fn check(claim: &PersistentVolumeClaim, volumes: &[PersistentVolume], expected: Option<&str>) {
        let found = find(claim, volumes).and_then(|volume| volume.metadata.name.as_deref());
        assert_eq!(found, expected);
    }

    #[test]
    fn a_claim_gets_the_smallest_volume_that_fits() {
        let volumes = [
            volume("big", "10Gi", "", None),
            volume("small", "1Gi", "", None),
            volume("gold", "2Gi", "gold", None),
        ];
        check(&claim("1Gi", "", "ReadWriteOnce"), &volumes, Some("small"));
        check(&claim("2Gi", "", "ReadWriteOnce"), &volumes, Some("big"));
        check(&claim("1Gi", "gold", "ReadOnlyMany"), &volumes, Some("gold"));
        check(&claim("1Gi", "", "ReadWriteMany"), &volumes, None);
        check(&claim("20Gi", "", "ReadWriteOnce"), &volumes, None);
    }

    #[test]
    fn a_volume_reserved_for_a_claim_is_bound_to_no_other() {
        let volumes = [
            volume("small", "1Gi", "", None),
            volume("kept", "9Gi", "", Some("data")),
        ];
        check(&claim("1Gi", "", "ReadWriteOnce"), &volumes, Some("kept"));
        let others = [volume("kept", "9Gi", "", Some("other"))];
        check(&claim("1Gi", "", "ReadWriteOnce"), &others, None);
    }

    #[test]
    fn a_volume_is_released_when_its_claim_is_gone() {
        let claim = claim("1Gi", "", "ReadWriteOnce");
        let volume = bound_volume(&volume("a", "1Gi", "", None), &claim);
        assert_eq!(phase(&volume, Some(&claim)), Phase::Bound);
        assert_eq!(phase(&volume, None), Phase::Released);
    }
}
