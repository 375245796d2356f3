//! Pod-level resources: requests and limits of the pod as a whole.

use std::collections::BTreeSet;

use setpoint_api::Quantity;
use setpoint_schema::{Map, Tree, fields};
use setpoint_strategy::FieldRef;

use crate::shared::resources::{self, HUGE_PAGES, ResourceOwner};

use super::{ContainerContext, LISTS, os, resource_totals};

/// Validates pod-level resources.
pub(super) fn validate(container_context: &ContainerContext<'_>) {
    let pod_resources = container_context.spec.at(fields::RESOURCES);
    if !pod_resources.is_set() {
        return;
    }
    if os::is_windows(container_context.spec) {
        return pod_resources.forbidden("may not be set for a windows pod");
    }
    if pod_resources.at(fields::CLAIMS).is_set() {
        pod_resources
            .at(fields::CLAIMS)
            .forbidden("claims may not be set for Resources at pod-level");
    }
    resources::validate(&pod_resources, &container_context.resources(ResourceOwner::Pod));
    validate_sums(container_context.spec, &pod_resources);
}

/// The sum of the containers' requests must not exceed those of the pod.
fn validate_sums(spec: &FieldRef<'_>, pod_resources: &FieldRef<'_>) {
    for (list, pages_only) in [(fields::REQUESTS, false), (fields::LIMITS, true)] {
        let sums = resource_totals::of_containers(spec.value(), list);
        for (name, amount) in pod_resources.at(list).entries() {
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
    let limits = pod_resources.at(fields::LIMITS);
    for (at, container) in spec.at(fields::CONTAINERS).items().enumerate() {
        for (name, limit) in container.at(fields::RESOURCES).at(fields::LIMITS).entries() {
            let max = limits.key(name);
            if max.is_set() && limit.quantity() > max.quantity() {
                let field = pod_resources
                    .errors()
                    .at(fields::CONTAINERS)
                    .index(at)
                    .key(name)
                    .at(fields::LIMITS);
                let detail = format!("must be less than or equal to pod limits of {}", max.str());
                field.invalid(limit.str(), &detail);
            }
        }
    }
}

/// Whether the pod has pod-level resources of a supported type.
pub(crate) fn is_set(spec: &Tree) -> bool {
    let lists = [fields::REQUESTS, fields::LIMITS]
        .map(|list| spec.at(&[fields::RESOURCES, list]).and_then(Tree::as_map));
    let mut names = lists.into_iter().flatten().flat_map(Map::keys);
    names.any(resources::is_pod_level)
}

/// Sets the defaults of pod-level resources from those of the containers.
pub(crate) fn set_defaults(spec: &mut Tree) {
    let is_nonempty = |list: &str| {
        spec.at(&[fields::RESOURCES, list])
            .is_some_and(|list| !is_empty(list))
    };
    if !is_nonempty(fields::REQUESTS) && !is_nonempty(fields::LIMITS) {
        return;
    }
    default_huge_page_limits(spec);
    default_requests(spec);
    default_limits(spec);
    for list in [fields::LIMITS, fields::REQUESTS] {
        if let Some(Tree::Map(map)) = spec.at_mut(&[fields::RESOURCES, list]) {
            resources::sort(map);
        }
    }
}

fn default_huge_page_limits(spec: &mut Tree) {
    for (name, amount) in resource_totals::of_containers(spec, fields::LIMITS) {
        if name.starts_with(HUGE_PAGES) && spec.at(&[fields::RESOURCES, fields::REQUESTS, &name]).is_none() {
            default_quantity(spec, fields::LIMITS, &name, amount);
        }
    }
}

fn default_requests(spec: &mut Tree) {
    for (name, amount) in resource_totals::of_containers(spec, fields::REQUESTS) {
        if resources::is_pod_level(&name) && resources::overcommits(&name) {
            default_quantity(spec, fields::REQUESTS, &name, amount);
        }
    }
    let limits = spec
        .at(&[fields::RESOURCES, fields::LIMITS])
        .and_then(Tree::as_map)
        .cloned();
    for (name, limit) in limits.iter().flat_map(Map::iter) {
        if resources::is_pod_level(name) {
            spec.child(fields::RESOURCES)
                .child(fields::REQUESTS)
                .set_default(name, limit.clone());
        }
    }
}

/// A missing limit defaults to the sum of the limits if all containers have one, but not below the request.
fn default_limits(spec: &mut Tree) {
    let requests = spec
        .at(&[fields::RESOURCES, fields::REQUESTS])
        .and_then(Tree::as_map);
    let mut open: BTreeSet<String> = requests
        .into_iter()
        .flat_map(Map::keys)
        .map(str::to_owned)
        .collect();
    open.retain(|name| {
        resources::is_pod_level(name) && spec.at(&[fields::RESOURCES, fields::LIMITS, name]).is_none()
    });
    for container in LISTS.iter().flat_map(|list| spec.items(list)) {
        open.retain(|name| container.at(&[fields::RESOURCES, fields::LIMITS, name]).is_some());
    }
    let sums = resource_totals::of_containers(spec, fields::LIMITS);
    for name in open {
        let Some(sum) = sums.get(&name) else { continue };
        let request = spec.str_at(&[fields::RESOURCES, fields::REQUESTS, &name]);
        let request: Option<Quantity> = request.and_then(|text| text.parse().ok());
        let amount = request.filter(|request| request > sum).unwrap_or(*sum);
        default_quantity(spec, fields::LIMITS, &name, amount);
    }
}

fn default_quantity(spec: &mut Tree, list: &str, name: &str, amount: Quantity) {
    let list = spec.child(fields::RESOURCES).child(list);
    list.set_default(name, amount.to_string());
}

fn is_empty(list: &Tree) -> bool {
    list.as_map().is_none_or(Map::is_empty)
}

/// Whether the pod has any pod-level requests or limits.
pub(crate) fn has_resources(spec: &Tree) -> bool {
    let lists = [fields::REQUESTS, fields::LIMITS].map(|list| spec.at(&[fields::RESOURCES, list]));
    lists.into_iter().flatten().any(|list| !is_empty(list))
}
