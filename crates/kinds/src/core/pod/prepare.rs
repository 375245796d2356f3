//! What the server sets on a new pod.

use setpoint_api::field::Errors;
use setpoint_schema::{Map, Tree};

use super::{annotations, spec};
use crate::builtin::shape_of;
use crate::field::FieldRef;
use crate::meta;
use crate::strategy::Strategy;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// A pod starts as Pending; a status in the request body is dropped.
pub(super) fn set_first_status(pod: &mut Tree) {
    let mut status = Map::default();
    status.insert("phase", "Pending");
    if !pod.child("spec").items("schedulingGates").is_empty() {
        status.insert("conditions", vec![gated_condition()]);
    }
    pod.set(&["status"], status);
}

/// The `PodScheduled` condition of a pod with scheduling gates.
fn gated_condition() -> Tree {
    let condition: Map = [
        ("type", "PodScheduled"),
        ("status", "False"),
        ("reason", "SchedulingGated"),
        (
            "message",
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
    let Some(labels) = meta::find(pod, "labels").cloned() else {
        return;
    };
    let spec = pod.child("spec");
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.at_mut(&["affinity", kind]) else {
            continue;
        };
        for weighted in affinity.items_mut(PREFERRED) {
            if let Some(term) = weighted.find_mut("podAffinityTerm") {
                merge_keys(term, &labels);
            }
        }
        affinity
            .items_mut(REQUIRED)
            .for_each(|term| merge_keys(term, &labels));
    }
    spec.items_mut("topologySpreadConstraints")
        .for_each(|constraint| merge_keys(constraint, &labels));
}

fn merge_keys(term: &mut Tree, labels: &Tree) {
    let mut expressions = Vec::new();
    for (list, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term.items(list).iter().filter_map(Tree::as_str) {
            if let Some(value) = labels.get(key) {
                let mut expression = Map::default();
                expression.insert("key", key);
                expression.insert("operator", operator);
                expression.insert("values", vec![value.clone()]);
                expressions.push(Tree::from(expression));
            }
        }
    }
    if expressions.is_empty() {
        return;
    }
    if let Some(selector) = term.find_mut("labelSelector") {
        let mut all = selector.items("matchExpressions").to_vec();
        all.extend(expressions);
        selector.set(&["matchExpressions"], all);
    }
}

/// Copies the AppArmor annotation to the field.
pub(super) fn copy_app_armor_annotations(pod: &mut Tree) {
    if pod.str_at(&["spec", "os", "name"]) == Some("windows") {
        return;
    }
    let Some(pod_annotations) = meta::find(pod, "annotations").cloned() else {
        return;
    };
    let of_pod = pod.at(&["spec", "securityContext", "appArmorProfile"]).cloned();
    for list in spec::LISTS {
        for container in pod.child("spec").items_mut(list) {
            let set = container.at(&["securityContext", "appArmorProfile"]).is_some();
            let profile = annotated_profile(&pod_annotations, container)
                .filter(|profile| of_pod.as_ref() != Some(profile));
            if let (Some(profile), false) = (profile, set) {
                container.set(&["securityContext", "appArmorProfile"], profile);
            }
        }
    }
}

/// The AppArmor profile that the annotations set for a container, if it is valid.
pub(super) fn annotated_profile(pod_annotations: &Tree, container: &Tree) -> Option<Tree> {
    let name = container.str_at(&["name"]).unwrap_or_default();
    let annotation = pod_annotations.get(&format!("{}{name}", annotations::APP_ARMOR))?;
    let profile = annotations::app_armor(annotation.as_str()?)?;
    let shape = shape_of(super::Pod::KIND).at(&["spec", "securityContext", "appArmorProfile"])?;
    let errors = Errors::default();
    spec::validate_app_armor(&FieldRef::new(&profile, shape, &errors));
    errors.is_empty().then_some(profile)
}
