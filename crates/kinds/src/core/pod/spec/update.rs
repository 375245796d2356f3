//! What may change in the spec of a pod that exists: next to nothing.

use k8s_openapi::api::core::v1::{Container, PodSpec, Toleration};

use setpoint_api::field::Errors;

const UNCHANGEABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Reports every change but those that a running pod can follow.
pub(crate) fn validate(spec: &PodSpec, old: &PodSpec, errors: &Errors<'_>) {
    if spec.containers.len() != old.containers.len() {
        errors
            .at("containers")
            .forbidden("pod updates may not add or remove containers");
        return;
    }
    let init = |spec: &PodSpec| spec.init_containers.as_ref().map_or(0, Vec::len);
    if init(spec) != init(old) {
        errors
            .at("initContainers")
            .forbidden("pod updates may not add or remove containers");
        return;
    }
    validate_deadline(spec, old, errors);
    validate_tolerations(spec, old, &errors.at("tolerations"));
    if unchangeable(spec, old) != *old {
        errors.forbidden(UNCHANGEABLE);
    }
}

/// The new spec with everything that may change put back to what it was.
fn unchangeable(spec: &PodSpec, old: &PodSpec) -> PodSpec {
    let mut same = spec.clone();
    put_back(&mut same.containers, &old.containers);
    if let (Some(new), Some(old)) = (&mut same.init_containers, &old.init_containers) {
        put_back(new, old);
    }
    same.active_deadline_seconds = old.active_deadline_seconds;
    same.tolerations.clone_from(&old.tolerations);
    let negative = old
        .termination_grace_period_seconds
        .is_some_and(|seconds| seconds < 0);
    if negative && spec.termination_grace_period_seconds == Some(1) {
        same.termination_grace_period_seconds = old.termination_grace_period_seconds;
    }
    // Gates may be taken away, and while there are any, the node is not yet decided.
    if is_fewer_gates(spec, old) {
        same.scheduling_gates.clone_from(&old.scheduling_gates);
    }
    same
}

fn put_back(new: &mut [Container], old: &[Container]) {
    for (new, old) in new.iter_mut().zip(old) {
        new.image.clone_from(&old.image);
    }
}

fn is_fewer_gates(spec: &PodSpec, old: &PodSpec) -> bool {
    let old = old.scheduling_gates.as_deref().unwrap_or_default();
    spec.scheduling_gates
        .iter()
        .flatten()
        .all(|gate| old.contains(gate))
}

/// A deadline may be set or come nearer, never go away or further.
fn validate_deadline(spec: &PodSpec, old: &PodSpec, errors: &Errors<'_>) {
    let errors = errors.at("activeDeadlineSeconds");
    match (spec.active_deadline_seconds, old.active_deadline_seconds) {
        (Some(new), Some(old)) if new > old => {
            errors.invalid(new, "must be less than or equal to previous value")
        }
        (None, Some(_)) => errors.invalid(
            None::<i64>,
            "must not update from a positive integer to nil value",
        ),
        _ => {}
    }
}

fn validate_tolerations(spec: &PodSpec, old: &PodSpec, errors: &Errors<'_>) {
    let empty: Vec<Toleration> = Vec::new();
    let new = spec.tolerations.as_ref().unwrap_or(&empty);
    let old = old.tolerations.as_ref().unwrap_or(&empty);
    // A toleration may be given for another time, which is the only part that may change.
    let kept = |old: &Toleration| {
        new.iter().any(|new| {
            let mut same = new.clone();
            same.toleration_seconds = old.toleration_seconds;
            same == *old
        })
    };
    if !old.iter().all(kept) {
        errors.forbidden("existing toleration can not be modified except its tolerationSeconds");
    }
}
