//! The pods of a StatefulSet and their claims: each has an ordinal, a name made of it, and storage of its own.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use setpoint_api::Stored;
use setpoint_runtime::{TypedObject, owner};

use crate::revisions::HASH_LABEL;
use crate::template;

const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// The ordinal in the name of a pod of this set; `None` if the name has another form.
pub(crate) fn ordinal(set: &str, pod: &str) -> Option<i32> {
    let number = pod.strip_prefix(set)?.strip_prefix('-')?;
    let is_plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse().ok().filter(|_| is_plain)
}

/// The pod of this ordinal, of this template and revision.
pub(crate) fn new_pod(
    object: &TypedObject<StatefulSet>,
    set: &StatefulSet,
    ordinal: i32,
    template: PodTemplateSpec,
    revision: &str,
) -> Pod {
    let mut pod = template::new_pod(object, template);
    let name = format!("{}-{ordinal}", object.key().name());
    pod.metadata.generate_name = None;
    pod.metadata.name = Some(name.clone());
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(NAME_LABEL.to_owned(), name.clone());
    labels.insert(INDEX_LABEL.to_owned(), ordinal.to_string());
    labels.insert(HASH_LABEL.to_owned(), revision.to_owned());
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(name);
    spec.subdomain = set.spec.service_name.clone().filter(|name| !name.is_empty());
    let claimed: Vec<Volume> = claims(object, set, ordinal)
        .into_iter()
        .map(|(volume, claim)| claimed(volume, claim))
        .collect();
    let volumes = spec.volumes.get_or_insert_default();
    volumes.retain(|volume| !claimed.iter().any(|own| own.name == volume.name));
    volumes.extend(claimed);
    if volumes.is_empty() {
        spec.volumes = None;
    }
    pod
}

fn claimed(volume: String, claim: PersistentVolumeClaim) -> Volume {
    Volume {
        name: volume,
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim.metadata.name.unwrap_or_default(),
            read_only: None,
        }),
        ..Volume::default()
    }
}

/// The claims of the pod of this ordinal, each with the name of its volume.
pub(crate) fn claims(
    object: &TypedObject<StatefulSet>,
    set: &StatefulSet,
    ordinal: i32,
) -> Vec<(String, PersistentVolumeClaim)> {
    let spec = set.spec.clone();
    let selected = spec.selector.match_labels.unwrap_or_default();
    let claim = |mut claim: PersistentVolumeClaim| {
        let volume = claim.metadata.name.take().unwrap_or_default();
        claim.metadata.name = Some(format!("{volume}-{}-{ordinal}", object.key().name()));
        claim.metadata.namespace = Some(object.key().namespace().to_owned());
        let labels = claim.metadata.labels.get_or_insert_default();
        labels.extend(selected.clone());
        claim.status = None;
        (volume, claim)
    };
    spec.volume_claim_templates
        .unwrap_or_default()
        .into_iter()
        .map(claim)
        .collect()
}

/// The owners that a claim should have: by the set's retention policy it is deleted with the set, with the pod that is
/// scaled down, or not at all. `condemned` is the pod if it is scaled down.
pub(crate) fn owners(
    object: &TypedObject<StatefulSet>,
    set: &StatefulSet,
    current: &[OwnerReference],
    condemned: Option<&Stored>,
) -> Vec<OwnerReference> {
    let policy = set.spec.persistent_volume_claim_retention_policy.as_ref();
    let is_delete = |word: Option<&String>| word.is_some_and(|word| word == "Delete");
    let with_set = is_delete(policy.and_then(|policy| policy.when_deleted.as_ref()));
    let with_pod = is_delete(policy.and_then(|policy| policy.when_scaled.as_ref()));
    let is_of_pod = |own: &OwnerReference| own.kind == "Pod" && own.api_version == "v1";
    let mut owners: Vec<OwnerReference> = current
        .iter()
        .filter(|own| own.uid != object.uid() && !is_of_pod(own))
        .cloned()
        .collect();
    match condemned.filter(|_| with_pod) {
        Some(pod) => owners.push(OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: pod.key().name().to_owned(),
            uid: pod.uid().to_owned(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }),
        None if with_set => owners.push(owner::controller_reference(object)),
        None => {}
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ordinal_is_parsed_from_the_name() {
        assert_eq!(ordinal("db", "db-0"), Some(0));
        assert_eq!(ordinal("db", "db-12"), Some(12));
        for other_name in ["db", "db-", "db-x", "db-+1", "other-0", "db-0-1"] {
            assert_eq!(ordinal("db", other_name), None, "{other_name}");
        }
    }
}
