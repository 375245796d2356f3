//! The `resize` subresource: new resources for a running pod.

use setpoint_schema::{Map, Tree};

use super::ephemeral_containers::keep_all;
use super::{ALWAYS, MIRROR, Pod, qos, spec};
use crate::field::FieldRef;
use crate::strategy::Strategy;
use crate::top_level;

const CONTAINERS: [&str; 2] = ["containers", "initContainers"];
const MUTABLE: &str = "only cpu and memory resources are mutable";

/// Keeps everything but the resources and the resize policies of containers and of the pod.
pub(super) fn prepare(pod: &mut Tree, old: &Tree) {
    let counts = |pod: &Tree| CONTAINERS.map(|list| containers(pod, list).len());
    if counts(pod) == counts(old) {
        let new = pod.get("spec").cloned().unwrap_or_default();
        keep_all(pod, old);
        keep_field(pod.child("spec"), &new, "resources");
        for list in CONTAINERS {
            merge(pod.child("spec"), &new, list);
        }
    }
    if let Some(before) = old.at(&["spec", "resources"]) {
        pod.child("spec").set_default("resources", before.clone());
    }
    spec::pod_resources::set_defaults(pod.child("spec"));
}

fn containers<'a>(pod: &'a Tree, list: &str) -> &'a [Tree] {
    pod.at(&["spec", list])
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
        .all(|(old, new)| old.get("name") == new.get("name"));
    if !same_names {
        return top_level::keep(spec, new, list);
    }
    for (container, new) in spec.items_mut(list).zip(new.items(list)) {
        keep_field(container, new, "resources");
        keep_field(container, new, "resizePolicy");
    }
}

/// Reports changes that a resize may not make.
pub(super) fn validate(pod: &FieldRef<'_>, old: &FieldRef<'_>) {
    let before = pod.errors().len();
    if let Some(why) = unsupported(old) {
        return pod.errors().root().forbidden(why);
    }
    Pod::validate_for_update(pod, old);
    let (spec, old_spec) = (pod.at("spec"), old.at("spec"));
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
    for list in ["initContainers", "containers"] {
        for (new, old) in spec.at(list).items().zip(old_spec.at(list).items()) {
            let amounts = (new.at("resources"), old.at("resources"));
            forbid_removal(&amounts.0, &amounts.1, "resource");
        }
    }
    validate_containers(&spec, &old_spec, &mut same);
    validate_init_containers(&spec, &old_spec, &mut same);
    if !spec.at("volumes").is_same(&old_spec.at("volumes")) {
        spec.at("volumes").forbidden(
            "volumes are immutable on resize when InPlacePodVerticalScalingMemoryBackedVolumes feature gate is disabled",
        );
    }
    if pod.errors().len() == before && !same.semantic_eq(old_spec.value()) {
        spec.forbidden(MUTABLE);
    }
}

fn unsupported(old: &FieldRef<'_>) -> Option<&'static str> {
    if old.at("metadata").at("annotations").key(MIRROR).is_set() {
        return Some("static pods cannot be resized");
    }
    let windows = old.at("spec").at("os").at("name").str() == "windows";
    windows.then_some("windows pods cannot be resized")
}

fn validate_class(pod: &FieldRef<'_>, old: &FieldRef<'_>) {
    let (spec, status) = (pod.at("spec"), old.at("status"));
    let before = match status.at("qosClass").str() {
        "" => qos::class(old.at("spec").value()),
        class => class,
    };
    if before != qos::class(spec.value()) {
        let shown = pod.at("status").at("qosClass").str();
        spec.invalid_as(shown, "Pod QOS Class may not change as a result of resizing");
    }
    let running = status
        .at("containerStatuses")
        .items()
        .find(|container_status| container_status.at("state").at("running").is_set());
    if running.is_some_and(|container_status| !container_status.at("resources").is_set()) {
        spec.forbidden("Pod running on node without support for resize");
    }
}

fn validate_level(spec: &FieldRef<'_>, old: &FieldRef<'_>, same: &mut Tree) {
    let (new, before) = (spec.at("resources"), old.at("resources"));
    if before.is_set() && !new.is_set() {
        return new.forbidden("pod-level resources cannot be removed");
    }
    if before.is_set() {
        forbid_removal(&new, &before, "pod-level resource");
    }
    if let Some(resources) = same.get_mut("resources") {
        restore_cpu_and_memory(resources, before.value());
        if !before.is_set() && resources.as_map().is_some_and(Map::is_empty) {
            same.take(&["resources"]);
        }
    }
    if !same
        .get("resources")
        .unwrap_or(&Tree::Null)
        .semantic_eq(before.value())
    {
        spec.forbidden("only cpu and memory resources are mutable at pod-level");
    }
}

fn forbid_removal(new: &FieldRef<'_>, before: &FieldRef<'_>, what: &str) {
    for list in ["requests", "limits"] {
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
            if now.at("name").str() != old.at("name").str() {
                now.at("name")
                    .forbidden(&format!("{list} may not be renamed or reordered on resize"));
            }
        }
    }
    spec.errors().len() == before
}

fn validate_containers(spec: &FieldRef<'_>, old: &FieldRef<'_>, same: &mut Tree) {
    for (container, old) in same.items_mut("containers").zip(old.at("containers").list()) {
        restore_resources(container, old);
        if !container.semantic_eq(old) {
            spec.forbidden(MUTABLE);
        }
    }
}

fn validate_init_containers(spec: &FieldRef<'_>, old: &FieldRef<'_>, same: &mut Tree) {
    let list = spec.at("initContainers");
    let pairs = same
        .items_mut("initContainers")
        .zip(old.at("initContainers").list());
    for ((container, old), field) in pairs.zip(list.items()) {
        let changed = !container.semantic_eq(old);
        restore_resources(container, old);
        if !container.semantic_eq(old) {
            field.forbidden("only cpu and memory resources for init or sidecar containers are mutable");
        }
        if !changed || field.at("restartPolicy").str() == ALWAYS {
            continue;
        }
        for policy in field.at("resizePolicy").items() {
            if policy.at("restartPolicy").str() == "RestartContainer" {
                field.forbidden(
                    "non-sidecar init containers with a resize policy of RestartContainer cannot be resized",
                );
            }
        }
    }
}

fn restore_resources(container: &mut Tree, old: &Tree) {
    let before = old.get("resources").cloned().unwrap_or_default();
    if container.get("resources").is_none() && before.is_null() {
        return;
    }
    restore_cpu_and_memory(container.child("resources"), &before);
    if container
        .get("resources")
        .and_then(Tree::as_map)
        .is_some_and(Map::is_empty)
    {
        container.take(&["resources"]);
    }
}

/// Restores cpu and memory, and keeps the other resources.
fn restore_cpu_and_memory(resources: &mut Tree, old: &Tree) {
    for list in ["limits", "requests"] {
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
