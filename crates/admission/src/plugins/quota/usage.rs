//! What an object uses of a quota.

use setpoint_api::Quantity;
use setpoint_api::quantity::Family;
use setpoint_registry::{Operation, Review};
use setpoint_schema::Tree;

use crate::about;
use crate::amounts::{self, Amounts};

/// What a quota may count of a pod besides amounts with a prefix.
const OF_PODS: &[&str] = &[
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
/// What every container must say if a quota counts it.
const TO_BE_SAID: &[&str] = &[
    "cpu",
    "memory",
    "requests.cpu",
    "requests.memory",
    "limits.cpu",
    "limits.memory",
];
/// The resources that are also counted by their plain name.
const PLAIN: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";

/// How an object is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Pod,
    Service,
    Claim,
    /// By number alone.
    Other,
}

impl Sort {
    pub(super) fn of(review: &Review<'_>) -> Self {
        let gvr = &review.kind.gvr;
        match (gvr.group.as_str(), gvr.resource.as_str()) {
            ("", "pods") => Self::Pod,
            ("", "services") => Self::Service,
            ("", "persistentvolumeclaims") => Self::Claim,
            _ => Self::Other,
        }
    }

    /// Whether the write can change what is used.
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
    Quantity::new(1, Family::Decimal)
}

/// What counts every object of the resource.
fn count_name(review: &Review<'_>) -> String {
    let gvr = &review.kind.gvr;
    match gvr.group.as_str() {
        "" => format!("count/{}", gvr.resource),
        group => format!("count/{}.{group}", gvr.resource),
    }
}

/// What an object uses.
pub(super) fn of(review: &Review<'_>, sort: Sort, object: &Tree) -> Amounts {
    let mut used = Amounts::from([(count_name(review), one())]);
    let gvr = &review.kind.gvr;
    if gvr.group.is_empty() && PLAIN.contains(&gvr.resource.as_str()) {
        used.insert(gvr.resource.to_string(), one());
    }
    let null = Tree::Null;
    let spec = object.get("spec").unwrap_or(&null);
    match sort {
        Sort::Pod => used.extend(of_pod(spec)),
        Sort::Service => used.extend(of_service(spec)),
        Sort::Claim => used.extend(of_claim(spec)),
        Sort::Other => {}
    }
    used
}

/// Whether a quota of this name is about objects of the sort.
pub(super) fn concerns(review: &Review<'_>, sort: Sort, name: &str) -> bool {
    let gvr = &review.kind.gvr;
    let plain = gvr.group.is_empty() && PLAIN.contains(&gvr.resource.as_str()) && name == gvr.resource;
    if plain || name == count_name(review) {
        return true;
    }
    match sort {
        Sort::Pod => {
            let extended = name
                .strip_prefix("requests.")
                .is_some_and(|own| own.contains('/'));
            let huge = name
                .strip_prefix("requests.")
                .unwrap_or(name)
                .starts_with("hugepages-");
            OF_PODS.contains(&name) || huge || (extended && !name.contains(OF_CLASS))
        }
        Sort::Service => matches!(name, "services.loadbalancers" | "services.nodeports"),
        Sort::Claim => name == "requests.storage" || name.contains(OF_CLASS),
        Sort::Other => false,
    }
}

/// What a pod with these amounts uses.
fn of_amounts(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut used = Amounts::from([("pods".to_owned(), one())]);
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

fn of_pod(spec: &Tree) -> Amounts {
    of_amounts(
        &amounts::of_pod_with_overhead(spec, "requests"),
        &amounts::of_pod_with_overhead(spec, "limits"),
    )
}

fn of_service(spec: &Tree) -> Amounts {
    let ports = spec.items("ports");
    let number = |count: usize| Quantity::new(i64::try_from(count).unwrap_or(i64::MAX), Family::Decimal);
    let mut used = Amounts::new();
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
                .filter(|port| about::int(port, &["nodePort"]) != 0)
                .count();
            let count = if all { ports.len() } else { own };
            used.insert("services.nodeports".to_owned(), number(count));
        }
        _ => {}
    }
    used
}

fn of_claim(spec: &Tree) -> Amounts {
    let mut used = Amounts::new();
    let class = spec.str_at(&["storageClassName"]).unwrap_or_default();
    if !class.is_empty() {
        used.insert(format!("{class}{OF_CLASS}persistentvolumeclaims"), one());
    }
    let requests = amounts::of(spec.at(&["resources", "requests"]));
    if let Some(storage) = requests.get("storage") {
        used.insert("requests.storage".to_owned(), *storage);
        if !class.is_empty() {
            used.insert(format!("{class}{OF_CLASS}requests.storage"), *storage);
        }
    }
    used
}

/// Every container must say what the quota counts, or the whole pod must.
pub(super) fn require(pod: &Tree, counted: &[&String]) -> Result<(), String> {
    let null = Tree::Null;
    let spec = pod.get("spec").unwrap_or(&null);
    if about::has(spec, &["resources"]) {
        return Ok(());
    }
    let mut counted: Vec<&str> = counted.iter().map(|name| name.as_str()).collect();
    counted.retain(|name| TO_BE_SAID.contains(name));
    counted.sort_unstable();
    let mut told = Vec::new();
    for name in counted {
        let lacks = |container: &&Tree| {
            let requests = amounts::of(container.at(&["resources", "requests"]));
            let limits = amounts::of(container.at(&["resources", "limits"]));
            !of_amounts(&requests, &limits).contains_key(name)
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
            told.push(format!("{name} for: {}", lacking.join(",")));
        }
    }
    if told.is_empty() {
        return Ok(());
    }
    Err(format!("must specify {}", told.join("; ")))
}
