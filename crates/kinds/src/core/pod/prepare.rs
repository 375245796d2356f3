//! What the server sets on a new pod.

use setpoint_api::field::Errors;
use setpoint_schema::{Map, Tree, fields};
use setpoint_strategy::{FieldRef, Strategy, meta, shape_of};

use super::{annotations, spec};

const REQUIRED: &str = fields::REQUIRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION;
const PREFERRED: &str = fields::PREFERRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION;

/// A pod starts as Pending; a status in the request body is dropped.
pub(super) fn set_first_status(pod: &mut Tree) {
    let mut status = Map::default();
    status.insert(fields::PHASE, "Pending");
    if !pod.child(fields::SPEC).items(fields::SCHEDULING_GATES).is_empty() {
        status.insert(fields::CONDITIONS, vec![gated_condition()]);
    }
    pod.set(&[fields::STATUS], status);
}

/// The `PodScheduled` condition of a pod with scheduling gates.
fn gated_condition() -> Tree {
    let condition: Map = [
        (fields::TYPE, "PodScheduled"),
        (fields::STATUS, "False"),
        (fields::REASON, "SchedulingGated"),
        (
            fields::MESSAGE,
            "Scheduling is blocked due to non-empty scheduling gates",
        ),
    ]
    .into_iter()
    .collect();
    condition.into()
}

/// Resolves `matchLabelKeys` and `mismatchLabelKeys` to the pod's own label values, so that the scheduler needs only
/// the selectors.
pub(super) fn merge_label_keys(pod: &mut Tree) {
    let has = |field: &str| pod.at(&[fields::SPEC, field]).is_some();
    if !has(fields::AFFINITY) && !has(fields::TOPOLOGY_SPREAD_CONSTRAINTS) {
        return;
    }
    let Some(labels) = meta::find(pod, fields::LABELS).cloned() else {
        return;
    };
    let spec = pod.child(fields::SPEC);
    for kind in [fields::POD_AFFINITY, fields::POD_ANTI_AFFINITY] {
        let Some(affinity) = spec.at_mut(&[fields::AFFINITY, kind]) else {
            continue;
        };
        for weighted in affinity.items_mut(PREFERRED) {
            if let Some(term) = weighted.find_mut(fields::POD_AFFINITY_TERM) {
                merge_keys(term, &labels);
            }
        }
        affinity
            .items_mut(REQUIRED)
            .for_each(|term| merge_keys(term, &labels));
    }
    spec.items_mut(fields::TOPOLOGY_SPREAD_CONSTRAINTS)
        .for_each(|constraint| merge_keys(constraint, &labels));
}

fn merge_keys(term: &mut Tree, labels: &Tree) {
    let mut expressions = Vec::new();
    for (list, operator) in [
        (fields::MATCH_LABEL_KEYS, "In"),
        (fields::MISMATCH_LABEL_KEYS, "NotIn"),
    ] {
        for key in term.items(list).iter().filter_map(Tree::as_str) {
            if let Some(value) = labels.get(key) {
                let mut expression = Map::default();
                expression.insert(fields::KEY, key);
                expression.insert(fields::OPERATOR, operator);
                expression.insert(fields::VALUES, vec![value.clone()]);
                expressions.push(Tree::from(expression));
            }
        }
    }
    if expressions.is_empty() {
        return;
    }
    if let Some(selector) = term.find_mut(fields::LABEL_SELECTOR) {
        let mut all = selector.items(fields::MATCH_EXPRESSIONS).to_vec();
        all.extend(expressions);
        selector.set(&[fields::MATCH_EXPRESSIONS], all);
    }
}

/// Copies the AppArmor annotation to the field.
pub(super) fn copy_app_armor_annotations(pod: &mut Tree) {
    if pod.str_at(&[fields::SPEC, fields::OS, fields::NAME]) == Some("windows") {
        return;
    }
    let Some(pod_annotations) = meta::find(pod, fields::ANNOTATIONS)
        .filter(|annotations| annotations.as_map().is_some_and(annotations::have_profiles))
        .cloned()
    else {
        return;
    };
    let of_pod = pod
        .at(&[fields::SPEC, fields::SECURITY_CONTEXT, fields::APP_ARMOR_PROFILE])
        .cloned();
    for list in spec::LISTS {
        for container in pod.child(fields::SPEC).items_mut(list) {
            let set = container
                .at(&[fields::SECURITY_CONTEXT, fields::APP_ARMOR_PROFILE])
                .is_some();
            let profile = annotated_profile(&pod_annotations, container)
                .filter(|profile| of_pod.as_ref() != Some(profile));
            if let (Some(profile), false) = (profile, set) {
                container.set(&[fields::SECURITY_CONTEXT, fields::APP_ARMOR_PROFILE], profile);
            }
        }
    }
}

/// The AppArmor profile that the annotations set for a container, if it is valid.
pub(super) fn annotated_profile(pod_annotations: &Tree, container: &Tree) -> Option<Tree> {
    let name = container.str_at(&[fields::NAME]).unwrap_or_default();
    let annotation = pod_annotations.get(&format!("{}{name}", annotations::APP_ARMOR))?;
    let profile = annotations::app_armor(annotation.as_str()?)?;
    let shape = shape_of(super::Pod::KIND).at(&[
        fields::SPEC,
        fields::SECURITY_CONTEXT,
        fields::APP_ARMOR_PROFILE,
    ])?;
    let errors = Errors::default();
    spec::validate_app_armor(&FieldRef::new(&profile, shape, &errors));
    errors.is_empty().then_some(profile)
}
