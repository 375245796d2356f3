//! Validation of updates of a Job's spec.

use setpoint_schema::Tree;

use super::spec;
use crate::field::FieldRef;
use crate::shared::condition;
use crate::top_level;

/// Reports every change of an immutable field.
pub(super) fn validate(job: &FieldRef<'_>, old: &FieldRef<'_>) {
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

/// An indexed Job may change `completions` and `parallelism` together.
fn validate_completions(spec: &FieldRef<'_>, old: &FieldRef<'_>) {
    let completions = spec.at("completions");
    if spec.at("completionMode").str() != spec::INDEXED {
        return completions.immutable(&old.at("completions"));
    }
    let same = completions.is_same(&old.at("completions"));
    if !same && completions.is_set() && completions.int() != spec.at("parallelism").int() {
        completions.invalid("can only be modified in tandem with spec.parallelism");
    }
}

/// While a Job is suspended and has no pods, the scheduling directives and the resources of its template may change.
fn validate_template(spec: &FieldRef<'_>, old: &FieldRef<'_>) {
    let template = spec.at("template");
    let before = old.at("spec").at("template");
    if !is_idle(old) {
        return template.immutable(&before);
    }
    let mut allowed = before.value().clone();
    allow_scheduling_directives(&mut allowed, template.value());
    allow_resources(&mut allowed, template.value());
    let pod = template.at("spec");
    if !pod
        .value()
        .semantic_eq(allowed.get("spec").unwrap_or(&Tree::Null))
    {
        pod.invalid("field is immutable");
    }
}

fn is_idle(job: &FieldRef<'_>) -> bool {
    let status = job.at("status");
    let suspended = condition::is_true(&status.at("conditions"), "Suspended");
    job.at("spec").at("suspend").bool()
        && (suspended || !status.at("startTime").is_set())
        && status.at("active").int() == 0
}

/// Accepts changes of scheduling directives.
fn allow_scheduling_directives(template: &mut Tree, new: &Tree) {
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
        top_level::keep(pod, new, field);
    }
}

/// Accepts changes of container resources.
fn allow_resources(template: &mut Tree, new: &Tree) {
    let null = Tree::Null;
    let (pod, new) = (template.child("spec"), new.get("spec").unwrap_or(&null));
    for list in ["containers", "initContainers"] {
        if pod.items(list).len() != new.items(list).len() {
            continue;
        }
        for (old, new) in pod.items_mut(list).zip(new.items(list)) {
            if old.get("name") == new.get("name") {
                top_level::keep(old, new, "resources");
            }
        }
    }
}
