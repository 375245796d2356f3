//! Validation of updates of a Job's spec.

use setpoint_schema::{Tree, fields};
use setpoint_strategy::{FieldRef, top_level};

use super::spec;
use crate::shared::condition;

/// Reports every change of an immutable field.
pub(super) fn validate(job: &FieldRef<'_>, old: &FieldRef<'_>) {
    let (new, before) = (job.at(fields::SPEC), old.at(fields::SPEC));
    validate_completions(&new, &before);
    new.at(fields::SELECTOR).immutable(&before.at(fields::SELECTOR));
    validate_template(&new, old);
    for field in [
        fields::COMPLETION_MODE,
        fields::POD_FAILURE_POLICY,
        fields::BACKOFF_LIMIT_PER_INDEX,
        fields::MANAGED_BY,
        fields::SUCCESS_POLICY,
    ] {
        new.at(field).immutable(&before.at(field));
    }
}

/// An indexed Job may change `completions` and `parallelism` together.
fn validate_completions(spec: &FieldRef<'_>, old: &FieldRef<'_>) {
    let completions = spec.at(fields::COMPLETIONS);
    if spec.at(fields::COMPLETION_MODE).str() != spec::INDEXED {
        return completions.immutable(&old.at(fields::COMPLETIONS));
    }
    let same = completions.is_same(&old.at(fields::COMPLETIONS));
    if !same && completions.is_set() && completions.int() != spec.at(fields::PARALLELISM).int() {
        completions.invalid("can only be modified in tandem with spec.parallelism");
    }
}

/// While a Job is suspended and has no pods, the scheduling directives and the resources of its template may change.
fn validate_template(spec: &FieldRef<'_>, old: &FieldRef<'_>) {
    let template = spec.at(fields::TEMPLATE);
    let before = old.at(fields::SPEC).at(fields::TEMPLATE);
    if !is_idle(old) {
        return template.immutable(&before);
    }
    let mut allowed = before.value().clone();
    allow_scheduling_directives(&mut allowed, template.value());
    allow_resources(&mut allowed, template.value());
    let pod = template.at(fields::SPEC);
    if !pod
        .value()
        .semantic_eq(allowed.get(fields::SPEC).unwrap_or(&Tree::Null))
    {
        pod.invalid("field is immutable");
    }
}

fn is_idle(job: &FieldRef<'_>) -> bool {
    let status = job.at(fields::STATUS);
    let suspended = condition::is_true(&status.at(fields::CONDITIONS), "Suspended");
    job.at(fields::SPEC).at(fields::SUSPEND).bool()
        && (suspended || !status.at(fields::START_TIME).is_set())
        && status.at(fields::ACTIVE).int() == 0
}

/// Accepts changes of scheduling directives.
fn allow_scheduling_directives(template: &mut Tree, new: &Tree) {
    let null = Tree::Null;
    let (pod, new) = (
        template.child(fields::SPEC),
        new.get(fields::SPEC).unwrap_or(&null),
    );
    let direction = new.at(&[fields::AFFINITY, fields::NODE_AFFINITY]).cloned();
    match (new.get(fields::AFFINITY), pod.find_mut(fields::AFFINITY)) {
        (None, Some(affinity)) => {
            affinity.take(&[fields::NODE_AFFINITY]);
            if affinity.as_map().is_none_or(|map| map.is_empty()) {
                pod.take(&[fields::AFFINITY]);
            }
        }
        (None, None) => {}
        (Some(_), _) => {
            pod.child(fields::AFFINITY);
            match direction {
                Some(direction) => pod.set(&[fields::AFFINITY, fields::NODE_AFFINITY], direction),
                None => drop(pod.take(&[fields::AFFINITY, fields::NODE_AFFINITY])),
            }
        }
    }
    for field in [
        fields::NODE_SELECTOR,
        fields::TOLERATIONS,
        fields::SCHEDULING_GATES,
    ] {
        top_level::keep(pod, new, field);
    }
}

/// Accepts changes of container resources.
fn allow_resources(template: &mut Tree, new: &Tree) {
    let null = Tree::Null;
    let (pod, new) = (
        template.child(fields::SPEC),
        new.get(fields::SPEC).unwrap_or(&null),
    );
    for list in [fields::CONTAINERS, fields::INIT_CONTAINERS] {
        if pod.items(list).len() != new.items(list).len() {
            continue;
        }
        for (old, new) in pod.items_mut(list).zip(new.items(list)) {
            if old.get(fields::NAME) == new.get(fields::NAME) {
                top_level::keep(old, new, fields::RESOURCES);
            }
        }
    }
}
