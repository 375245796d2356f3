//! What may change in a Job.

use setpoint_schema::Tree;

use super::spec;
use crate::at::At;
use crate::parts;
use crate::shared::condition;

/// Reports every change but those that a controller can follow.
pub(super) fn validate(job: &At<'_>, old: &At<'_>) {
    let (new, before) = (job.at("spec"), old.at("spec"));
    validate_completions(&new, &before);
    new.at("selector").immutable(&before.at("selector"));
    validate_template(&new, old);
    for field in [
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        new.at(field).immutable(&before.at(field));
    }
}

/// A Job with indexes may grow and shrink as a whole.
fn validate_completions(spec: &At<'_>, old: &At<'_>) {
    let completions = spec.at("completions");
    if spec.at("completionMode").str() != spec::INDEXED {
        return completions.immutable(&old.at("completions"));
    }
    let same = completions.is_same(&old.at("completions"));
    if !same && completions.is_set() && completions.int() != spec.at("parallelism").int() {
        completions.invalid("can only be modified in tandem with spec.parallelism");
    }
}

/// While a Job is suspended and has no pods, its pods may still be directed elsewhere and given other resources.
fn validate_template(spec: &At<'_>, old: &At<'_>) {
    let template = spec.at("template");
    let before = old.at("spec").at("template");
    if !is_idle(old) {
        return template.immutable(&before);
    }
    let mut allowed = before.value().clone();
    allow_directions(&mut allowed, template.value());
    allow_resources(&mut allowed, template.value());
    let pod = template.at("spec");
    if !pod.value().means_same(allowed.get("spec").unwrap_or(&Tree::Null)) {
        pod.invalid("field is immutable");
    }
}

fn is_idle(job: &At<'_>) -> bool {
    let status = job.at("status");
    let suspended = condition::is_true(&status.at("conditions"), "Suspended");
    job.at("spec").at("suspend").bool()
        && (suspended || !status.at("startTime").is_set())
        && status.at("active").int() == 0
}

/// Where the pods may run.
fn allow_directions(template: &mut Tree, new: &Tree) {
    let null = Tree::Null;
    let (pod, new) = (template.child("spec"), new.get("spec").unwrap_or(&null));
    let direction = new.at(&["affinity", "nodeAffinity"]).cloned();
    match (new.get("affinity"), pod.find_mut("affinity")) {
        (None, Some(affinity)) => {
            affinity.take(&["nodeAffinity"]);
            if affinity.as_map().is_none_or(|map| map.is_empty()) {
                pod.take(&["affinity"]);
            }
        }
        (None, None) => {}
        (Some(_), _) => {
            pod.child("affinity");
            match direction {
                Some(direction) => pod.set(&["affinity", "nodeAffinity"], direction),
                None => drop(pod.take(&["affinity", "nodeAffinity"])),
            }
        }
    }
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        parts::keep(pod, new, field);
    }
}

/// What each container asks for.
fn allow_resources(template: &mut Tree, new: &Tree) {
    let null = Tree::Null;
    let (pod, new) = (template.child("spec"), new.get("spec").unwrap_or(&null));
    for list in ["containers", "initContainers"] {
        if pod.items(list).len() != new.items(list).len() {
            continue;
        }
        for (old, new) in pod.items_mut(list).zip(new.items(list)) {
            if old.get("name") == new.get("name") {
                parts::keep(old, new, "resources");
            }
        }
    }
}
