//! The usage of an object, as quotas count it.

use setpoint_api::Quantity;
use setpoint_api::quantity::Format;
use setpoint_registry_api::{Operation, Review};
use setpoint_schema::Tree;

use crate::resource_list::{self, ResourceList};
use crate::review;

/// The quota resources of pods, besides extended resources and huge pages.
const POD_RESOURCES: &[&str] = &[
    "pods",
    "count/pods",
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

/// How quotas count an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuotaKind {
    Pod,
    Service,
    Claim,
    /// Only the number of objects.
    Other,
}

impl QuotaKind {
    pub(super) fn of(review: &Review<'_>) -> Self {
        let gvr = &review.kind.gvr;
        match (gvr.group.as_str(), gvr.resource.as_str()) {
            ("", "pods") => Self::Pod,
            ("", "services") => Self::Service,
            ("", "persistentvolumeclaims") => Self::Claim,
            _ => Self::Other,
        }
    }

    /// Whether the write can change the usage.
    pub(super) fn counts(self, review: &Review<'_>) -> bool {
        match (review.operation, review.subresource) {
            (Operation::Create, None) => true,
            (Operation::Update, None) => matches!(self, Self::Service | Self::Claim),
            (Operation::Update, Some("resize")) => self == Self::Pod,
            _ => false,
        }
    }
}

fn one() -> Quantity {
    Quantity::new(1, Format::DecimalSi)
}

/// The quota resource that counts the objects of a resource: `count/deployments.apps`.
fn count_name(review: &Review<'_>) -> String {
    let gvr = &review.kind.gvr;
    match gvr.group.as_str() {
        "" => format!("count/{}", gvr.resource),
        group => format!("count/{}.{group}", gvr.resource),
    }
}

/// The usage of an object.
pub(super) fn of(review: &Review<'_>, kind: QuotaKind, object: &Tree) -> ResourceList {
    let mut used = ResourceList::from([(count_name(review), one())]);
    let gvr = &review.kind.gvr;
    if gvr.group.is_empty() && COUNTED_BY_NAME.contains(&gvr.resource.as_str()) {
        used.insert(gvr.resource.to_string(), one());
    }
    let null = Tree::Null;
    let spec = object.get("spec").unwrap_or(&null);
    match kind {
        QuotaKind::Pod => used.extend(of_pod(spec)),
        QuotaKind::Service => used.extend(of_service(spec)),
        QuotaKind::Claim => used.extend(of_claim(spec)),
        QuotaKind::Other => {}
    }
    used
}

/// Whether a quota resource of this name counts objects of the kind.
pub(super) fn matches_resource(review: &Review<'_>, kind: QuotaKind, name: &str) -> bool {
    let gvr = &review.kind.gvr;
    let plain =
        gvr.group.is_empty() && COUNTED_BY_NAME.contains(&gvr.resource.as_str()) && name == gvr.resource;
    if plain || name == count_name(review) {
        return true;
    }
    match kind {
        QuotaKind::Pod => {
            let extended = name
                .strip_prefix("requests.")
                .is_some_and(|own| own.contains('/'));
            let huge = name
                .strip_prefix("requests.")
                .unwrap_or(name)
                .starts_with("hugepages-");
            POD_RESOURCES.contains(&name) || huge || (extended && !name.contains(STORAGE_CLASS_SUFFIX))
        }
        QuotaKind::Service => matches!(name, "services.loadbalancers" | "services.nodeports"),
        QuotaKind::Claim => name == "requests.storage" || name.contains(STORAGE_CLASS_SUFFIX),
        QuotaKind::Other => false,
    }
}

/// The usage of a pod with these requests and limits.
fn pod_usage(requests: &ResourceList, limits: &ResourceList) -> ResourceList {
    let mut used = ResourceList::from([("pods".to_owned(), one())]);
    for (name, amount) in requests {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-") {
            used.insert(name.clone(), *amount);
        }
        used.insert(format!("requests.{name}"), *amount);
    }
    for (name, amount) in limits {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            used.insert(format!("limits.{name}"), *amount);
        }
    }
    used
}

fn of_pod(spec: &Tree) -> ResourceList {
    pod_usage(
        &resource_list::of_pod_with_overhead(spec, "requests"),
        &resource_list::of_pod_with_overhead(spec, "limits"),
    )
}

fn of_service(spec: &Tree) -> ResourceList {
    let ports = spec.items("ports");
    let number = |count: usize| Quantity::new(i64::try_from(count).unwrap_or(i64::MAX), Format::DecimalSi);
    let mut used = ResourceList::new();
    match spec.str_at(&["type"]).unwrap_or_default() {
        "NodePort" => drop(used.insert("services.nodeports".to_owned(), number(ports.len()))),
        "LoadBalancer" => {
            used.insert("services.loadbalancers".to_owned(), one());
            let all = spec
                .get("allocateLoadBalancerNodePorts")
                .and_then(Tree::as_bool)
                .unwrap_or(true);
            let own = ports
                .iter()
                .filter(|port| review::int_at(port, &["nodePort"]) != 0)
                .count();
            let count = if all { ports.len() } else { own };
            used.insert("services.nodeports".to_owned(), number(count));
        }
        _ => {}
    }
    used
}

fn of_claim(spec: &Tree) -> ResourceList {
    let mut used = ResourceList::new();
    let class = spec.str_at(&["storageClassName"]).unwrap_or_default();
    if !class.is_empty() {
        used.insert(
            format!("{class}{STORAGE_CLASS_SUFFIX}persistentvolumeclaims"),
            one(),
        );
    }
    let requests = resource_list::parse(spec.at(&["resources", "requests"]));
    if let Some(storage) = requests.get("storage") {
        used.insert("requests.storage".to_owned(), *storage);
        if !class.is_empty() {
            used.insert(format!("{class}{STORAGE_CLASS_SUFFIX}requests.storage"), *storage);
        }
    }
    used
}

/// Checks that every container, or the pod as a whole, specifies the resources that the quota limits.
pub(super) fn require(pod: &Tree, counted: &[&String]) -> Result<(), String> {
    let null = Tree::Null;
    let spec = pod.get("spec").unwrap_or(&null);
    if review::has(spec, &["resources"]) {
        return Ok(());
    }
    let mut counted: Vec<&str> = counted.iter().map(|name| name.as_str()).collect();
    counted.retain(|name| REQUIRED_RESOURCES.contains(name));
    counted.sort_unstable();
    let mut missing = Vec::new();
    for name in counted {
        let lacks = |container: &&Tree| {
            let requests = resource_list::parse(container.at(&["resources", "requests"]));
            let limits = resource_list::parse(container.at(&["resources", "limits"]));
            !pod_usage(&requests, &limits).contains_key(name)
        };
        let containers = spec
            .items("containers")
            .iter()
            .chain(spec.items("initContainers"));
        let mut lacking: Vec<&str> = containers
            .filter(lacks)
            .filter_map(|container| container.str_at(&["name"]))
            .collect();
        lacking.sort_unstable();
        if !lacking.is_empty() {
            missing.push(format!("{name} for: {}", lacking.join(",")));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("must specify {}", missing.join("; ")))
}
