//! What may change in the spec of a pod that exists: next to nothing.

use setpoint_schema::Tree;

use crate::at::At;
use crate::parts;
use crate::shared::{diff, internal};

use super::{affinity, container, tolerations};

const UNCHANGEABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Reports every change but those that a running pod can follow.
pub(crate) fn validate(spec: &At<'_>, old: &At<'_>) {
    for list in ["containers", "initContainers"] {
        if spec.at(list).len() != old.at(list).len() {
            return spec
                .at(list)
                .forbidden("pod updates may not add or remove containers");
        }
        for container in spec.at(list).items() {
            container.at("image").require();
            container::validate_image(&container);
        }
    }
    validate_deadline(spec, old);
    validate_tolerations(&spec.at("tolerations"), &old.at("tolerations"));
    validate_gates(&spec.at("schedulingGates"), &old.at("schedulingGates"));
    if spec.is_same(old) {
        return;
    }
    let mut same = put_back_changeable(spec.value(), old.value());
    if !old.at("schedulingGates").is_empty() {
        put_back_gated(&mut same, spec, old);
    }
    if !same.means_same(old.value()) {
        spec.forbidden(&format!("{UNCHANGEABLE}\n{}", difference(old, &same)));
    }
}

/// How two objects of one shape differ, in lines.
pub(crate) fn difference(old: &At<'_>, new: &Tree) -> String {
    let Some(shape) = old.shape() else {
        return String::new();
    };
    diff::unified(
        &internal::pretty(shape, old.value()),
        &internal::pretty(shape, new),
    )
}

/// The new spec with everything that may change put back to what it was.
fn put_back_changeable(spec: &Tree, old: &Tree) -> Tree {
    let mut same = spec.clone();
    for list in ["containers", "initContainers"] {
        for (new, old) in same.items_mut(list).zip(old.items(list)) {
            parts::keep(new, old, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        parts::keep(&mut same, old, field);
    }
    let grace = |spec: &Tree| {
        let seconds = spec.get("terminationGracePeriodSeconds");
        seconds.and_then(Tree::as_i64)
    };
    if grace(old).is_some_and(|seconds| seconds < 0) && grace(spec) == Some(1) {
        parts::keep(&mut same, old, "terminationGracePeriodSeconds");
    }
    same
}

/// While a pod has gates, the nodes it may go to can become fewer.
fn put_back_gated(same: &mut Tree, spec: &At<'_>, old: &At<'_>) {
    let (selector, before) = (spec.at("nodeSelector"), old.at("nodeSelector"));
    for (key, value) in before.entries() {
        if !selector.key(key).is_same(&value) {
            selector.invalid("only additions to spec.nodeSelector are allowed (no mutations or deletions)");
        }
    }
    parts::keep(same, old.value(), "nodeSelector");
    let nodes = spec.at("affinity").at("nodeAffinity");
    let nodes_before = old.at("affinity").at("nodeAffinity");
    if nodes.is_same(&nodes_before) {
        return;
    }
    affinity::validate_narrowing(&nodes, &nodes_before);
    match same.get_mut("affinity") {
        Some(affinity) => match nodes_before.is_set() {
            true => affinity.set(&["nodeAffinity"], nodes_before.value().clone()),
            false => _ = affinity.take(&["nodeAffinity"]),
        },
        None => same.set(&["affinity", "nodeAffinity"], nodes_before.value().clone()),
    }
    let emptied = same
        .get("affinity")
        .and_then(Tree::as_map)
        .is_some_and(|affinity| affinity.is_empty());
    if emptied && !old.at("affinity").is_set() {
        same.take(&["affinity"]);
    }
}

/// A deadline may be set or come nearer, never go away or further.
fn validate_deadline(spec: &At<'_>, old: &At<'_>) {
    let new = spec.at("activeDeadlineSeconds");
    let before = old.at("activeDeadlineSeconds").find_int();
    match new.find_int() {
        Some(seconds) => {
            new.within(0, i32::MAX.into());
            if before.is_some_and(|before| before < seconds) {
                new.invalid("must be less than or equal to previous value");
            }
        }
        None if before.is_some() => new.invalid("must not update from a positive integer to nil value"),
        None => {}
    }
}

fn validate_tolerations(new: &At<'_>, old: &At<'_>) {
    // A toleration may be given for another time, which is the only part that may change.
    let kept = |old: &Tree| {
        new.list().iter().any(|new| {
            let mut same = new.clone();
            parts::keep(&mut same, old, "tolerationSeconds");
            same.means_same(old)
        })
    };
    for _ in old.list().iter().filter(|old| !kept(old)) {
        new.forbidden("existing toleration can not be modified except its tolerationSeconds");
    }
    tolerations::validate(new);
}

/// Gates may only be taken away.
fn validate_gates(gates: &At<'_>, old: &At<'_>) {
    for gate in gates.items() {
        let own = gate.at("name");
        let mut before = old.items().map(|gate| gate.at("name").str());
        if !before.any(|before| before == own.str()) {
            let detail = format!(
                "only deletion is allowed, but found new scheduling gate '{}'",
                own.str()
            );
            own.forbidden(&detail);
        }
    }
}
