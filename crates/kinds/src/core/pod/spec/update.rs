//! Validation of updates of a pod's spec, which is mostly immutable.

use std::collections::HashSet;

use setpoint_schema::{Tree, fields};
use setpoint_strategy::{FieldRef, go_dump, top_level};

use crate::shared::diff;

use super::{affinity, container, tolerations};

const UNCHANGEABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Reports every change of an immutable field.
pub(crate) fn validate(spec: &FieldRef<'_>, old: &FieldRef<'_>) {
    for list in [fields::CONTAINERS, fields::INIT_CONTAINERS] {
        if spec.at(list).len() != old.at(list).len() {
            return spec
                .at(list)
                .forbidden("pod updates may not add or remove containers");
        }
        for container in spec.at(list).items() {
            container.at(fields::IMAGE).require();
            container::validate_image(&container);
        }
    }
    validate_deadline(spec, old);
    validate_tolerations(&spec.at(fields::TOLERATIONS), &old.at(fields::TOLERATIONS));
    validate_gates(
        &spec.at(fields::SCHEDULING_GATES),
        &old.at(fields::SCHEDULING_GATES),
    );
    if spec.is_same(old) {
        return;
    }
    let mut same = restore_mutable_fields(spec.value(), old.value());
    if !old.at(fields::SCHEDULING_GATES).is_empty() {
        restore_gated_fields(&mut same, spec, old);
    }
    if !same.semantic_eq(old.value()) {
        spec.forbidden(&format!("{UNCHANGEABLE}\n{}", difference(old, &same)));
    }
}

/// The unified diff of two objects of one shape.
pub(crate) fn difference(old: &FieldRef<'_>, new: &Tree) -> String {
    let Some(shape) = old.shape() else {
        return String::new();
    };
    diff::unified(
        &go_dump::dump_pretty(shape, old.value()),
        &go_dump::dump_pretty(shape, new),
    )
}

/// The new spec with all mutable fields restored to their old values.
fn restore_mutable_fields(spec: &Tree, old: &Tree) -> Tree {
    let mut same = spec.clone();
    for list in [fields::CONTAINERS, fields::INIT_CONTAINERS] {
        for (new, old) in same.items_mut(list).zip(old.items(list)) {
            top_level::keep(new, old, fields::IMAGE);
        }
    }
    for field in [
        fields::ACTIVE_DEADLINE_SECONDS,
        fields::SCHEDULING_GATES,
        fields::TOLERATIONS,
    ] {
        top_level::keep(&mut same, old, field);
    }
    let grace = |spec: &Tree| {
        let seconds = spec.get(fields::TERMINATION_GRACE_PERIOD_SECONDS);
        seconds.and_then(Tree::as_i64)
    };
    if grace(old).is_some_and(|seconds| seconds < 0) && grace(spec) == Some(1) {
        top_level::keep(&mut same, old, fields::TERMINATION_GRACE_PERIOD_SECONDS);
    }
    same
}

/// While a pod has scheduling gates, its node selection may become narrower.
fn restore_gated_fields(same: &mut Tree, spec: &FieldRef<'_>, old: &FieldRef<'_>) {
    let (selector, before) = (spec.at(fields::NODE_SELECTOR), old.at(fields::NODE_SELECTOR));
    for (key, value) in before.entries() {
        if !selector.key(key).is_same(&value) {
            selector.invalid("only additions to spec.nodeSelector are allowed (no mutations or deletions)");
        }
    }
    top_level::keep(same, old.value(), fields::NODE_SELECTOR);
    let nodes = spec.at(fields::AFFINITY).at(fields::NODE_AFFINITY);
    let nodes_before = old.at(fields::AFFINITY).at(fields::NODE_AFFINITY);
    if nodes.is_same(&nodes_before) {
        return;
    }
    affinity::validate_narrowing(&nodes, &nodes_before);
    match same.get_mut(fields::AFFINITY) {
        Some(affinity) => match nodes_before.is_set() {
            true => affinity.set(&[fields::NODE_AFFINITY], nodes_before.value().clone()),
            false => _ = affinity.take(&[fields::NODE_AFFINITY]),
        },
        None => same.set(
            &[fields::AFFINITY, fields::NODE_AFFINITY],
            nodes_before.value().clone(),
        ),
    }
    let emptied = same
        .get(fields::AFFINITY)
        .and_then(Tree::as_map)
        .is_some_and(|affinity| affinity.is_empty());
    if emptied && !old.at(fields::AFFINITY).is_set() {
        same.take(&[fields::AFFINITY]);
    }
}

/// `activeDeadlineSeconds` may be set or decreased, never removed or increased.
fn validate_deadline(spec: &FieldRef<'_>, old: &FieldRef<'_>) {
    let new = spec.at(fields::ACTIVE_DEADLINE_SECONDS);
    let before = old.at(fields::ACTIVE_DEADLINE_SECONDS).find_int();
    match new.find_int() {
        Some(seconds) => {
            new.in_range(0, i32::MAX.into());
            if before.is_some_and(|before| before < seconds) {
                new.invalid("must be less than or equal to previous value");
            }
        }
        None if before.is_some() => new.invalid("must not update from a positive integer to nil value"),
        None => {}
    }
}

fn validate_tolerations(new: &FieldRef<'_>, old: &FieldRef<'_>) {
    // Only `tolerationSeconds` of an existing toleration may change.
    let identity = |toleration: &Tree| {
        let mut identity = toleration.sorted();
        top_level::drop(&mut identity, fields::TOLERATION_SECONDS);
        identity
    };
    let kept: HashSet<Tree> = new.list().iter().map(identity).collect();
    for _ in old.list().iter().filter(|old| !kept.contains(&identity(old))) {
        new.forbidden("existing toleration can not be modified except its tolerationSeconds");
    }
    tolerations::validate(new);
}

/// Scheduling gates may only be removed.
fn validate_gates(gates: &FieldRef<'_>, old: &FieldRef<'_>) {
    let before: HashSet<&str> = old.items().map(|gate| gate.at(fields::NAME).str()).collect();
    for gate in gates.items() {
        let name = gate.at(fields::NAME);
        if !before.contains(name.str()) {
            let detail = format!(
                "only deletion is allowed, but found new scheduling gate '{}'",
                name.str()
            );
            name.forbidden(&detail);
        }
    }
}
