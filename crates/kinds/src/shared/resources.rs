//! Amounts of resources: requests, limits, capacity.

use setpoint_schema::{Map, Tree};

use super::name;
use crate::at::At;

/// The resources a container may ask for without a domain in their name.
const OF_CONTAINERS: &[&str] = &["cpu", "memory", "ephemeral-storage"];
/// The names without a domain that are known at all.
const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Every request that is missing becomes what the limit is.
pub fn default_requests(resources: &mut Tree) {
    let Some(Tree::Map(limits)) = resources.get("limits").cloned() else {
        return;
    };
    let requests = resources.child("requests");
    for (name, limit) in limits.iter() {
        requests.fill(name, limit.clone());
    }
    sort(requests.map_or_default());
}

/// Puts the keys back into their order after one was added.
pub fn sort(map: &mut Map) {
    map.pairs_mut().sort_by(|(left, _), (right, _)| left.cmp(right));
}

/// Reports amounts below zero.
pub fn validate_amounts(amounts: &At<'_>) {
    for (name, amount) in amounts.entries() {
        if amount.quantity().is_some_and(|amount| amount.is_negative()) {
            let errors = amounts.errors().at(name);
            errors.invalid(amount.str(), "must be greater than or equal to 0");
        }
    }
}

/// Reports what is wrong with the resources of a container.
pub fn validate(resources: &At<'_>) {
    let (limits, requests) = (resources.at("limits"), resources.at("requests"));
    for (name, amount) in limits.entries() {
        validate_one(name, &amount);
    }
    for (name, amount) in requests.entries() {
        validate_one(name, &amount);
        validate_pair(name, &amount, &limits.key(name), resources);
    }
}

fn validate_pair(name: &str, request: &At<'_>, limit: &At<'_>, resources: &At<'_>) {
    let requests = resources.at("requests");
    let (wanted, most) = (request.quantity(), limit.quantity());
    match (overcommits(name), limit.is_set()) {
        (false, true) if wanted != most => requests.invalid_as(
            request.str(),
            &format!("must be equal to {name} limit of {}", limit.str()),
        ),
        (true, true) if wanted > most => requests.invalid_as(
            request.str(),
            &format!("must be less than or equal to {name} limit of {}", limit.str()),
        ),
        (false, false) => resources
            .at("limits")
            .required("Limit must be set for non overcommitable resources"),
        _ => {}
    }
}

fn validate_one(name: &str, amount: &At<'_>) {
    validate_name(name, amount);
    let quantity = amount.quantity().unwrap_or_default();
    if quantity.is_negative() {
        amount.invalid("must be greater than or equal to 0");
    }
    if !overcommits(name) && name.contains('/') && quantity.milli_value() % 1000 != 0 {
        amount.invalid("must be an integer");
    }
}

fn validate_name(text: &str, amount: &At<'_>) {
    name::report(text, name::qualified(text), amount.errors());
    let huge = text.starts_with("hugepages-");
    if text.contains('/') || huge {
        return;
    }
    if !STANDARD.contains(&text) {
        amount.invalid_as(text, "must be a standard resource type or fully qualified");
    }
    if !OF_CONTAINERS.contains(&text) {
        amount.invalid_as(text, "must be a standard resource for containers");
    }
}

/// Whether more of it may be promised than there is.
fn overcommits(name: &str) -> bool {
    OF_CONTAINERS.contains(&name) || (!name.contains('/') && !name.starts_with("hugepages-"))
}

/// Reports what is wrong with amounts that are limits in all but name, at the place of the limits.
pub fn validate_overhead(amounts: &At<'_>, place: &setpoint_api::field::Errors) {
    for (name, amount) in amounts.entries() {
        validate_one(name, &amount.reported_at(place.at("limits").key(name)));
    }
}
