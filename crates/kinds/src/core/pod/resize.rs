//! The `resize` subresource: new resources for a running pod.

use setpoint_schema::{Map, Tree, fields};
use setpoint_strategy::{FieldRef, PartialRules, RequestFacts, Strategy, top_level};

use super::ephemeral_containers::keep_all;
use super::{ALWAYS, MIRROR, Pod, qos, spec};

const CONTAINERS: [&str; 2] = [fields::CONTAINERS, fields::INIT_CONTAINERS];
const MUTABLE: &str = "only cpu and memory resources are mutable";

pub(super) const RULES: PartialRules = PartialRules {
    prepare: |pod, old, _| prepare(pod, old),
    validate,
};

/// Keeps everything but the resources and the resize policies of containers and of the pod.
fn prepare(pod: &mut Tree, old: &Tree) {
    let counts = |pod: &Tree| CONTAINERS.map(|list| containers(pod, list).len());
    if counts(pod) == counts(old) {
        let new = pod.get(fields::SPEC).cloned().unwrap_or_default();
        keep_all(pod, old);
        keep_field(pod.child(fields::SPEC), &new, fields::RESOURCES);
        for list in CONTAINERS {
            merge(pod.child(fields::SPEC), &new, list);
        }
    }
    if let Some(before) = old.at(&[fields::SPEC, fields::RESOURCES]) {
        pod.child(fields::SPEC)
            .set_default(fields::RESOURCES, before.clone());
    }
    spec::pod_resources::set_defaults(pod.child(fields::SPEC));
}

fn containers<'a>(pod: &'a Tree, list: &str) -> &'a [Tree] {
    pod.at(&[fields::SPEC, list])
        .and_then(Tree::as_list)
        .unwrap_or_default()
}

fn keep_field(object: &mut Tree, from: &Tree, part: &str) {
    top_level::keep(object, from, part);
}

/// The old containers with the new resources. A changed list of names is left for validation to report.
fn merge(spec: &mut Tree, new: &Tree, list: &str) {
    let same_names = spec
        .items(list)
        .iter()
        .zip(new.items(list))
        .all(|(old, new)| old.get(fields::NAME) == new.get(fields::NAME));
    if !same_names {
        return top_level::keep(spec, new, list);
    }
    for (container, new) in spec.items_mut(list).zip(new.items(list)) {
        keep_field(container, new, fields::RESOURCES);
        keep_field(container, new, fields::RESIZE_POLICY);
    }
}

/// Reports changes that a resize may not make.
fn validate(pod: &FieldRef<'_>, old: &FieldRef<'_>, facts: &RequestFacts) {
    let before = pod.errors().len();
    if let Some(why) = unsupported(old) {
        return pod.errors().root().forbidden(why);
    }
    Pod::validate_for_update(pod, old, facts);
    let (spec, old_spec) = (pod.at(fields::SPEC), old.at(fields::SPEC));
    validate_class(pod, old);
    let mut same = spec.value().clone();
    if spec::pod_resources::has_resources(spec.value())
        || spec::pod_resources::has_resources(old_spec.value())
    {
        validate_level(&spec, &old_spec, &mut same);
    }
    if !validate_order(&spec, &old_spec) {
        return;
    }
    for list in [fields::INIT_CONTAINERS, fields::CONTAINERS] {
        for (new, old) in spec.at(list).items().zip(old_spec.at(list).items()) {
            let amounts = (new.at(fields::RESOURCES), old.at(fields::RESOURCES));
            forbid_removal(&amounts.0, &amounts.1, "resource");
        }
    }
    validate_containers(&spec, &old_spec, &mut same);
    validate_init_containers(&spec, &old_spec, &mut same);
    if !spec.at(fields::VOLUMES).is_same(&old_spec.at(fields::VOLUMES)) {
        spec.at(fields::VOLUMES).forbidden(
            "volumes are immutable on resize when InPlacePodVerticalScalingMemoryBackedVolumes feature gate is disabled",
        );
    }
    if pod.errors().len() == before && !same.semantic_eq(old_spec.value()) {
        spec.forbidden(MUTABLE);
    }
}

fn unsupported(old: &FieldRef<'_>) -> Option<&'static str> {
    if old
        .at(fields::METADATA)
        .at(fields::ANNOTATIONS)
        .key(MIRROR)
        .is_set()
    {
        return Some("static pods cannot be resized");
    }
    let windows = old.at(fields::SPEC).at(fields::OS).at(fields::NAME).str() == "windows";
    windows.then_some("windows pods cannot be resized")
}

fn validate_class(pod: &FieldRef<'_>, old: &FieldRef<'_>) {
    let (spec, status) = (pod.at(fields::SPEC), old.at(fields::STATUS));
    let before = match status.at(fields::QOS_CLASS).str() {
        "" => qos::class(old.at(fields::SPEC).value()),
        class => class,
    };
    if before != qos::class(spec.value()) {
        let shown = pod.at(fields::STATUS).at(fields::QOS_CLASS).str();
        spec.invalid_as(shown, "Pod QOS Class may not change as a result of resizing");
    }
    let running = status
        .at(fields::CONTAINER_STATUSES)
        .items()
        .find(|container_status| container_status.at(fields::STATE).at(fields::RUNNING).is_set());
    if running.is_some_and(|container_status| !container_status.at(fields::RESOURCES).is_set()) {
        spec.forbidden("Pod running on node without support for resize");
    }
}

fn validate_level(spec: &FieldRef<'_>, old: &FieldRef<'_>, same: &mut Tree) {
    let (new, before) = (spec.at(fields::RESOURCES), old.at(fields::RESOURCES));
    if before.is_set() && !new.is_set() {
        return new.forbidden("pod-level resources cannot be removed");
    }
    if before.is_set() {
        forbid_removal(&new, &before, "pod-level resource");
    }
    if let Some(resources) = same.get_mut(fields::RESOURCES) {
        restore_cpu_and_memory(resources, before.value());
        if !before.is_set() && resources.as_map().is_some_and(Map::is_empty) {
            same.take(&[fields::RESOURCES]);
        }
    }
    if !same
        .get(fields::RESOURCES)
        .unwrap_or(&Tree::Null)
        .semantic_eq(before.value())
    {
        spec.forbidden("only cpu and memory resources are mutable at pod-level");
    }
}

fn forbid_removal(new: &FieldRef<'_>, before: &FieldRef<'_>, what: &str) {
    for list in [fields::REQUESTS, fields::LIMITS] {
        let (now, old) = (new.at(list), before.at(list));
        if old.entries().any(|(name, _)| !now.key(name).is_set()) {
            now.forbidden(&format!("{what} {list} cannot be removed"));
        }
    }
}

/// Reports containers that were added, removed or reordered. Returns whether there are none.
fn validate_order(spec: &FieldRef<'_>, old: &FieldRef<'_>) -> bool {
    let before = spec.errors().len();
    for list in CONTAINERS {
        let (now, old) = (spec.at(list), old.at(list));
        if now.len() != old.len() {
            now.forbidden(&format!("{list} may not be added or removed on resize"));
            continue;
        }
        for (now, old) in now.items().zip(old.items()) {
            if now.at(fields::NAME).str() != old.at(fields::NAME).str() {
                now.at(fields::NAME)
                    .forbidden(&format!("{list} may not be renamed or reordered on resize"));
            }
        }
    }
    spec.errors().len() == before
}

fn validate_containers(spec: &FieldRef<'_>, old: &FieldRef<'_>, same: &mut Tree) {
    for (container, old) in same
        .items_mut(fields::CONTAINERS)
        .zip(old.at(fields::CONTAINERS).list())
    {
        restore_resources(container, old);
        if !container.semantic_eq(old) {
            spec.forbidden(MUTABLE);
        }
    }
}

fn validate_init_containers(spec: &FieldRef<'_>, old: &FieldRef<'_>, same: &mut Tree) {
    let list = spec.at(fields::INIT_CONTAINERS);
    let pairs = same
        .items_mut(fields::INIT_CONTAINERS)
        .zip(old.at(fields::INIT_CONTAINERS).list());
    for ((container, old), field) in pairs.zip(list.items()) {
        let changed = !container.semantic_eq(old);
        restore_resources(container, old);
        if !container.semantic_eq(old) {
            field.forbidden("only cpu and memory resources for init or sidecar containers are mutable");
        }
        if !changed || field.at(fields::RESTART_POLICY).str() == ALWAYS {
            continue;
        }
        for policy in field.at(fields::RESIZE_POLICY).items() {
            if policy.at(fields::RESTART_POLICY).str() == "RestartContainer" {
                field.forbidden(
                    "non-sidecar init containers with a resize policy of RestartContainer cannot be resized",
                );
            }
        }
    }
}

fn restore_resources(container: &mut Tree, old: &Tree) {
    let before = old.get(fields::RESOURCES).cloned().unwrap_or_default();
    if container.get(fields::RESOURCES).is_none() && before.is_null() {
        return;
    }
    restore_cpu_and_memory(container.child(fields::RESOURCES), &before);
    if container
        .get(fields::RESOURCES)
        .and_then(Tree::as_map)
        .is_some_and(Map::is_empty)
    {
        container.take(&[fields::RESOURCES]);
    }
}

/// Restores cpu and memory, and keeps the other resources.
fn restore_cpu_and_memory(resources: &mut Tree, old: &Tree) {
    for list in [fields::LIMITS, fields::REQUESTS] {
        for name in ["cpu", "memory"] {
            match old.at(&[list, name]) {
                Some(amount) => resources.set(&[list, name], amount.clone()),
                None => _ = resources.take(&[list, name]),
            }
        }
        let empty = resources
            .get(list)
            .and_then(Tree::as_map)
            .is_some_and(Map::is_empty);
        if empty {
            resources.take(&[list]);
        }
    }
}
