//! Amounts of resources: requests, limits, capacity.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

use setpoint_api::Quantity;
use setpoint_api::field::Errors;

use super::name;

/// Amounts by resource name, as objects have them.
pub type Amounts = BTreeMap<String, Text>;

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

/// The amount a text stands for. What was stored is canonical, so a text that is none counts as nothing.
pub fn amount(text: &Text) -> Quantity {
    text.0.parse().unwrap_or_default()
}

/// Every request that is missing becomes what the limit is.
pub fn default_requests(resources: &mut ResourceRequirements) {
    let Some(limits) = &resources.limits else {
        return;
    };
    let requests = resources.requests.get_or_insert_default();
    for (name, limit) in limits {
        requests.entry(name.clone()).or_insert_with(|| limit.clone());
    }
}

/// Reports amounts below zero.
pub fn validate_amounts(amounts: Option<&Amounts>, errors: &Errors<'_>) {
    for (name, text) in amounts.into_iter().flatten() {
        if amount(text).is_negative() {
            let errors = errors.at(name);
            errors.invalid(&text.0, "must be greater than or equal to 0");
        }
    }
}

/// Reports what is wrong with the resources of a container.
pub fn validate(resources: &ResourceRequirements, errors: &Errors<'_>) {
    let empty = Amounts::new();
    let limits = resources.limits.as_ref().unwrap_or(&empty);
    let requests = resources.requests.as_ref().unwrap_or(&empty);
    for (name, text) in limits {
        validate_one(name, text, &errors.at("limits").key(name));
    }
    for (name, text) in requests {
        validate_one(name, text, &errors.at("requests").key(name));
        validate_pair(name, text, limits.get(name), errors);
    }
}

fn validate_pair(name: &str, request: &Text, limit: Option<&Text>, errors: &Errors<'_>) {
    let wanted = amount(request);
    match limit {
        Some(limit) if !overcommits(name) && wanted != amount(limit) => errors.at("requests").invalid(
            &request.0,
            &format!("must be equal to {name} limit of {}", limit.0),
        ),
        Some(limit) if overcommits(name) && wanted > amount(limit) => errors.at("requests").invalid(
            &request.0,
            &format!("must be less than or equal to {name} limit of {}", limit.0),
        ),
        None if !overcommits(name) => errors
            .at("limits")
            .required("Limit must be set for non overcommitable resources"),
        _ => {}
    }
}

fn validate_one(name: &str, text: &Text, errors: &Errors<'_>) {
    validate_name(name, errors);
    let amount = amount(text);
    if amount.is_negative() {
        errors.invalid(&text.0, "must be greater than or equal to 0");
    }
    if !overcommits(name) && name.contains('/') && amount.milli_value() % 1000 != 0 {
        errors.invalid(&text.0, "must be an integer");
    }
}

fn validate_name(text: &str, errors: &Errors<'_>) {
    name::report(text, name::qualified(text), errors);
    let huge = text.starts_with("hugepages-");
    if text.contains('/') || huge {
        return;
    }
    if !STANDARD.contains(&text) {
        errors.invalid(text, "must be a standard resource type or fully qualified");
    }
    if !OF_CONTAINERS.contains(&text) {
        errors.invalid(text, "must be a standard resource for containers");
    }
}

/// Whether more of it may be promised than there is.
fn overcommits(name: &str) -> bool {
    OF_CONTAINERS.contains(&name) || (!name.contains('/') && !name.starts_with("hugepages-"))
}
