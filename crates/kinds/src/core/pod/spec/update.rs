//! What may change in the spec of a pod that exists: next to nothing.

use setpoint_schema::Tree;

use crate::at::At;

const UNCHANGEABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Reports every change but those that a running pod can follow.
pub(crate) fn validate(spec: &At<'_>, old: &At<'_>) {
    for list in ["containers", "initContainers"] {
        if spec.at(list).len() != old.at(list).len() {
            spec.at(list)
                .forbidden("pod updates may not add or remove containers");
            return;
        }
    }
    validate_deadline(spec, old);
    validate_tolerations(&spec.at("tolerations"), &old.at("tolerations"));
    if !unchangeable(spec.value(), old.value()).means_same(old.value()) {
        spec.forbidden(UNCHANGEABLE);
    }
}

/// The new spec with everything that may change put back to what it was.
fn unchangeable(spec: &Tree, old: &Tree) -> Tree {
    let mut same = spec.clone();
    for list in ["containers", "initContainers"] {
        for (new, old) in same.items_mut(list).zip(old.items(list)) {
            put_back(new, old, "image");
        }
    }
    put_back(&mut same, old, "activeDeadlineSeconds");
    put_back(&mut same, old, "tolerations");
    let grace = |spec: &Tree| {
        let seconds = spec.get("terminationGracePeriodSeconds");
        seconds.and_then(Tree::as_i64)
    };
    if grace(old).is_some_and(|seconds| seconds < 0) && grace(spec) == Some(1) {
        put_back(&mut same, old, "terminationGracePeriodSeconds");
    }
    // Gates may be taken away, and while there are any, the node is not yet decided.
    let gates = old.items("schedulingGates");
    if spec
        .items("schedulingGates")
        .iter()
        .all(|gate| gates.contains(gate))
    {
        put_back(&mut same, old, "schedulingGates");
    }
    same
}

fn put_back(new: &mut Tree, old: &Tree, field: &str) {
    crate::parts::keep(new, old, field);
}

/// A deadline may be set or come nearer, never go away or further.
fn validate_deadline(spec: &At<'_>, old: &At<'_>) {
    let new = spec.at("activeDeadlineSeconds");
    match (new.find_int(), old.at("activeDeadlineSeconds").find_int()) {
        (Some(seconds), Some(old)) if seconds > old => {
            new.invalid("must be less than or equal to previous value")
        }
        (None, Some(_)) => new.invalid("must not update from a positive integer to nil value"),
        _ => {}
    }
}

fn validate_tolerations(new: &At<'_>, old: &At<'_>) {
    // A toleration may be given for another time, which is the only part that may change.
    let kept = |old: &Tree| {
        new.list().iter().any(|new| {
            let mut same = new.clone();
            put_back(&mut same, old, "tolerationSeconds");
            same.means_same(old)
        })
    };
    if !old.list().iter().all(kept) {
        new.forbidden("existing toleration can not be modified except its tolerationSeconds");
    }
}
