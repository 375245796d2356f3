//! The usage of a quota by one object.

use setpoint_api::quantity::Format;
use setpoint_api::{GroupResource, Quantity};

use super::{Container, QuotaKind, QuotaObject, ResourceRequirements, Spec};
use crate::resource_list::{Amounts, InitContainer, ResourceList, sum_of_containers};

/// The quota resources of pods, besides extended resources and huge pages.
const POD_RESOURCES: &[&str] = &[
    "pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];
/// The resources that every container must specify if a quota limits them.
const REQUIRED_RESOURCES: &[&str] = &[
    "cpu",
    "memory",
    "requests.cpu",
    "requests.memory",
    "limits.cpu",
    "limits.memory",
];
/// The resources that are also counted by their name alone.
const COUNTED_BY_NAME: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];
const STORAGE_CLASS_SUFFIX: &str = ".storageclass.storage.k8s.io/";

/// The resource (`pods`, `deployments.apps`) whose objects a quota resource of this name counts.
pub fn counted_resource(name: &str) -> &str {
    if let Some(resource) = name.strip_prefix("count/") {
        return resource;
    }
    match name {
        "services.loadbalancers" | "services.nodeports" => "services",
        "requests.storage" => "persistentvolumeclaims",
        _ if COUNTED_BY_NAME.contains(&name) => name,
        _ if name.contains(STORAGE_CLASS_SUFFIX) => "persistentvolumeclaims",
        _ => "pods",
    }
}

/// Whether a quota resource of this name counts objects of the resource.
pub fn counts(resource: &GroupResource, name: &str) -> bool {
    if name == count_name(resource) || (is_counted_by_name(resource) && name == resource.resource) {
        return true;
    }
    match QuotaKind::of(resource) {
        QuotaKind::Pod => {
            let requested = name.strip_prefix("requests.");
            let is_extended = requested.is_some_and(|own| own.contains('/'));
            let is_huge = requested.unwrap_or(name).starts_with("hugepages-");
            POD_RESOURCES.contains(&name) || is_huge || (is_extended && !name.contains(STORAGE_CLASS_SUFFIX))
        }
        QuotaKind::Service => matches!(name, "services.loadbalancers" | "services.nodeports"),
        QuotaKind::Claim => name == "requests.storage" || name.contains(STORAGE_CLASS_SUFFIX),
        QuotaKind::Other => false,
    }
}

/// The usage of an object of the resource, by quota resource. A finished pod uses nothing but its object count.
pub fn usage(resource: &GroupResource, object: &QuotaObject) -> ResourceList {
    let mut used = ResourceList::from([(count_name(resource), one())]);
    if is_counted_by_name(resource) {
        used.insert(resource.resource.to_string(), one());
    }
    let is_finished = matches!(object.status.phase.as_str(), "Succeeded" | "Failed");
    match QuotaKind::of(resource) {
        QuotaKind::Pod if is_finished => {}
        QuotaKind::Pod => used.extend(of_pod(&object.spec)),
        QuotaKind::Service => used.extend(of_service(&object.spec)),
        QuotaKind::Claim => used.extend(of_claim(&object.spec)),
        QuotaKind::Other => {}
    }
    used
}

/// Checks that every container, or the pod as a whole, specifies the resources that the quota limits.
pub fn check_specified(pod: &QuotaObject, limited: &[&str]) -> Result<(), String> {
    if pod.spec.resources.is_some() {
        return Ok(());
    }
    let mut limited: Vec<&str> = limited.to_vec();
    limited.retain(|name| REQUIRED_RESOURCES.contains(name));
    limited.sort_unstable();
    let mut missing = Vec::new();
    for name in limited {
        let lacks = |container: &&Container| {
            let resources = &container.resources;
            !pod_usage(&resources.requests, &resources.limits).contains_key(name)
        };
        let containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
        let mut lacking: Vec<&str> = containers
            .filter(lacks)
            .map(|container| container.name.as_str())
            .collect();
        lacking.sort_unstable();
        if !lacking.is_empty() {
            missing.push(format!("{name} for: {}", lacking.join(",")));
        }
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!("must specify {}", missing.join("; "))),
    }
}

/// The quota resource that counts the objects of a resource: `count/deployments.apps`.
fn count_name(resource: &GroupResource) -> String {
    format!("count/{resource}")
}

fn is_counted_by_name(resource: &GroupResource) -> bool {
    resource.group.is_empty() && COUNTED_BY_NAME.contains(&resource.resource.as_str())
}

fn one() -> Quantity {
    number(1)
}

fn number(count: usize) -> Quantity {
    Quantity::new(i64::try_from(count).unwrap_or(i64::MAX), Format::DecimalSi)
}

fn of_pod(spec: &Spec) -> ResourceList {
    let mut requests = total(spec, |resources| &resources.requests);
    requests.add(&spec.overhead);
    let mut limits = total(spec, |resources| &resources.limits);
    let mut overhead = spec.overhead.clone();
    // A limit that is not set stays unset.
    overhead.retain(|name, _| limits.contains_key(name));
    limits.add(&overhead);
    pod_usage(&requests, &limits)
}

/// The requests or limits of a pod: those of the pod as a whole, else those of its containers.
fn total(spec: &Spec, of: impl Fn(&ResourceRequirements) -> &ResourceList) -> ResourceList {
    let containers = spec.containers.iter().map(|one| of(&one.resources).clone());
    let init_containers = spec
        .init_containers
        .iter()
        .map(|one| InitContainer::new(&one.restart_policy, of(&one.resources).clone()));
    let mut sum = sum_of_containers(containers, init_containers);
    sum.extend(spec.resources.iter().flat_map(|resources| of(resources).clone()));
    sum
}

/// The usage of a pod with these requests and limits.
fn pod_usage(requests: &ResourceList, limits: &ResourceList) -> ResourceList {
    let is_compute = |name: &str| matches!(name, "cpu" | "memory" | "ephemeral-storage");
    let mut used = ResourceList::from([("pods".to_owned(), one())]);
    for (name, amount) in requests {
        if is_compute(name) || name.starts_with("hugepages-") {
            used.insert(name.clone(), *amount);
        }
        used.insert(format!("requests.{name}"), *amount);
    }
    for (name, amount) in limits.iter().filter(|(name, _)| is_compute(name)) {
        used.insert(format!("limits.{name}"), *amount);
    }
    used
}

fn of_service(spec: &Spec) -> ResourceList {
    let ports = spec.ports.len();
    let mut used = ResourceList::new();
    match spec.service_type.as_str() {
        "NodePort" => drop(used.insert("services.nodeports".to_owned(), number(ports))),
        "LoadBalancer" => {
            used.insert("services.loadbalancers".to_owned(), one());
            let own = spec.ports.iter().filter(|port| port.node_port != 0).count();
            let all = spec.allocate_load_balancer_node_ports.unwrap_or(true);
            let count = if all { ports } else { own };
            used.insert("services.nodeports".to_owned(), number(count));
        }
        _ => {}
    }
    used
}

fn of_claim(spec: &Spec) -> ResourceList {
    let class = &spec.storage_class_name;
    let of_class = |name: &str| format!("{class}{STORAGE_CLASS_SUFFIX}{name}");
    let mut used = ResourceList::new();
    if !class.is_empty() {
        used.insert(of_class("persistentvolumeclaims"), one());
    }
    let requests = spec.resources.as_ref().map(|resources| &resources.requests);
    if let Some(storage) = requests.and_then(|requests| requests.get("storage")) {
        used.insert("requests.storage".to_owned(), *storage);
        if !class.is_empty() {
            used.insert(of_class("requests.storage"), *storage);
        }
    }
    used
}

#[cfg(test)]
mod tests;
