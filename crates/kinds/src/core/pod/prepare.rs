//! What the server makes of a pod that is new.

use setpoint_api::field::Errors;
use setpoint_schema::{Map, Tree};

use super::{annotations, spec};
use crate::at::At;
use crate::builtin::shape_of;
use crate::meta;
use crate::strategy::Strategy;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// A pod begins as one that waits; whatever status came with it is not its own.
pub(super) fn set_first_status(pod: &mut Tree) {
    let mut status = Map::default();
    status.insert("phase", "Pending");
    if !pod.child("spec").items("schedulingGates").is_empty() {
        status.insert("conditions", vec![gated()]);
    }
    pod.set(&["status"], status);
}

/// A pod with gates is not to be scheduled, and says so.
fn gated() -> Tree {
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

/// Selectors that ask for the pod's own labels get their values, so that nobody needs to know the pod to read them.
pub(super) fn fold_label_keys(pod: &mut Tree) {
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
                fold(term, &labels);
            }
        }
        affinity.items_mut(REQUIRED).for_each(|term| fold(term, &labels));
    }
    spec.items_mut("topologySpreadConstraints")
        .for_each(|constraint| fold(constraint, &labels));
}

fn fold(term: &mut Tree, labels: &Tree) {
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

/// An AppArmor profile in an annotation becomes one in the field.
pub(super) fn take_over_app_armor(pod: &mut Tree) {
    if pod.str_at(&["spec", "os", "name"]) == Some("windows") {
        return;
    }
    let Some(own) = meta::find(pod, "annotations").cloned() else {
        return;
    };
    let of_pod = pod.at(&["spec", "securityContext", "appArmorProfile"]).cloned();
    for list in spec::LISTS {
        for container in pod.child("spec").items_mut(list) {
            let set = container.at(&["securityContext", "appArmorProfile"]).is_some();
            let profile = meant(&own, container).filter(|profile| of_pod.as_ref() != Some(profile));
            if let (Some(profile), false) = (profile, set) {
                container.set(&["securityContext", "appArmorProfile"], profile);
            }
        }
    }
}

/// The profile that the annotations mean for a container, if it is a good one.
pub(super) fn meant(own: &Tree, container: &Tree) -> Option<Tree> {
    let name = container.str_at(&["name"]).unwrap_or_default();
    let annotation = own.get(&format!("{}{name}", annotations::APP_ARMOR))?;
    let profile = annotations::app_armor(annotation.as_str()?)?;
    let shape = shape_of(super::Pod::KIND).at(&["spec", "securityContext", "appArmorProfile"])?;
    let errors = Errors::default();
    spec::validate_app_armor(&At::new(&profile, shape, &errors));
    errors.is_empty().then_some(profile)
}
