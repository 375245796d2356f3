//! What a pod as a whole asks for.

use std::collections::BTreeSet;

use setpoint_api::Quantity;
use setpoint_schema::{Map, Tree};

use crate::at::At;
use crate::shared::resources::{self, HUGE_PAGES, Whose};

use super::{Inside, LISTS, os, sums};

/// Reports what is wrong with the resources of the pod as a whole.
pub(super) fn validate(inside: &Inside<'_>) {
    let own = inside.spec.at("resources");
    if !own.is_set() {
        return;
    }
    if os::is_windows(inside.spec) {
        return own.forbidden("may not be set for a windows pod");
    }
    if own.at("claims").is_set() {
        own.at("claims")
            .forbidden("claims may not be set for Resources at pod-level");
    }
    resources::validate(&own, &inside.resources(Whose::Pod));
    validate_sums(inside.spec, &own);
}

/// The containers together must not ask for more than the pod.
fn validate_sums(spec: &At<'_>, own: &At<'_>) {
    for (list, pages_only) in [("requests", false), ("limits", true)] {
        let sums = sums::of_containers(spec.value(), list);
        for (name, amount) in own.at(list).entries() {
            let Some(sum) = sums
                .get(name)
                .filter(|_| !pages_only || name.starts_with(HUGE_PAGES))
            else {
                continue;
            };
            if amount.quantity().is_some_and(|amount| *sum > amount) {
                amount.invalid(&format!(
                    "must be greater than or equal to aggregate container {list} of {sum}"
                ));
            }
        }
    }
    let limits = own.at("limits");
    for (at, container) in spec.at("containers").items().enumerate() {
        for (name, limit) in container.at("resources").at("limits").entries() {
            let most = limits.key(name);
            if most.is_set() && limit.quantity() > most.quantity() {
                let place = own.errors().at("containers").index(at).key(name).at("limits");
                let detail = format!("must be less than or equal to pod limits of {}", most.str());
                place.invalid(limit.str(), &detail);
            }
        }
    }
}

/// Whether the pod as a whole asks for anything that counts.
pub(crate) fn is_set(spec: &Tree) -> bool {
    let asked = ["requests", "limits"].map(|list| spec.at(&["resources", list]).and_then(Tree::as_map));
    let mut names = asked.into_iter().flatten().flat_map(Map::keys);
    names.any(resources::is_of_pods)
}

/// Fills in what the pod as a whole leaves out, from what its containers ask for.
pub(crate) fn fill(spec: &mut Tree) {
    let asks = |list: &str| spec.at(&["resources", list]).is_some_and(|list| !is_empty(list));
    if !asks("requests") && !asks("limits") {
        return;
    }
    fill_page_limits(spec);
    fill_requests(spec);
    fill_limits(spec);
    for list in ["limits", "requests"] {
        if let Some(Tree::Map(map)) = spec.at_mut(&["resources", list]) {
            resources::sort(map);
        }
    }
}

fn fill_page_limits(spec: &mut Tree) {
    for (name, amount) in sums::of_containers(spec, "limits") {
        if name.starts_with(HUGE_PAGES) && spec.at(&["resources", "requests", &name]).is_none() {
            fill_one(spec, "limits", &name, amount);
        }
    }
}

fn fill_requests(spec: &mut Tree) {
    for (name, amount) in sums::of_containers(spec, "requests") {
        if resources::is_of_pods(&name) && resources::overcommits(&name) {
            fill_one(spec, "requests", &name, amount);
        }
    }
    let limits = spec.at(&["resources", "limits"]).and_then(Tree::as_map).cloned();
    for (name, limit) in limits.iter().flat_map(Map::iter) {
        if resources::is_of_pods(name) {
            spec.child("resources")
                .child("requests")
                .fill(name, limit.clone());
        }
    }
}

/// A pod has the limits that all its containers have, and no less than it requests.
fn fill_limits(spec: &mut Tree) {
    let requests = spec.at(&["resources", "requests"]).and_then(Tree::as_map);
    let mut open: BTreeSet<String> = requests
        .into_iter()
        .flat_map(Map::keys)
        .map(str::to_owned)
        .collect();
    open.retain(|name| resources::is_of_pods(name) && spec.at(&["resources", "limits", name]).is_none());
    for container in LISTS.iter().flat_map(|list| spec.items(list)) {
        open.retain(|name| container.at(&["resources", "limits", name]).is_some());
    }
    let sums = sums::of_containers(spec, "limits");
    for name in open {
        let Some(sum) = sums.get(&name) else { continue };
        let request = spec.str_at(&["resources", "requests", &name]);
        let request: Option<Quantity> = request.and_then(|text| text.parse().ok());
        let amount = request.filter(|request| request > sum).unwrap_or(*sum);
        fill_one(spec, "limits", &name, amount);
    }
}

fn fill_one(spec: &mut Tree, list: &str, name: &str, amount: Quantity) {
    let list = spec.child("resources").child(list);
    list.fill(name, amount.to_string());
}

fn is_empty(list: &Tree) -> bool {
    list.as_map().is_none_or(Map::is_empty)
}

/// Whether the pod as a whole asks for anything.
pub(crate) fn asks(spec: &Tree) -> bool {
    let lists = ["requests", "limits"].map(|list| spec.at(&["resources", list]));
    lists.into_iter().flatten().any(|list| !is_empty(list))
}
