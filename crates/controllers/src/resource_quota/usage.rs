//! The usage of a quota by one object. Pure.

use std::collections::BTreeMap;

use serde_json::Value;
use setpoint_api::Quantity;
use setpoint_api::quantity::Format;

/// Quantities by resource name (`v1.ResourceList`).
pub(crate) type ResourceList = BTreeMap<String, Quantity>;

/// The resources that are also counted by their plain name.
const PLAIN: [&str; 6] = [
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";

/// The resource (`pods`, `deployments.apps`) whose objects a quota of this name counts.
pub(crate) fn counted(name: &str) -> &str {
    if let Some(resource) = name.strip_prefix("count/") {
        return resource;
    }
    if PLAIN.contains(&name) {
        return name;
    }
    match name {
        "services.loadbalancers" | "services.nodeports" => "services",
        "requests.storage" => "persistentvolumeclaims",
        _ if name.contains(OF_CLASS) => "persistentvolumeclaims",
        _ => "pods",
    }
}

/// What an object of the resource uses of a quota of this name.
pub(crate) fn of(resource: &str, name: &str, object: &Value) -> Quantity {
    if resource == "pods" && is_over(object) {
        // A finished pod uses nothing but its object count.
        return if name == "count/pods" {
            one()
        } else {
            Quantity::ZERO
        };
    }
    if name.starts_with("count/") || PLAIN.contains(&name) {
        return one();
    }
    match resource {
        "services" => of_service(name, &object["spec"]),
        "persistentvolumeclaims" => of_claim(name, &object["spec"]),
        _ => of_pod(name, &object["spec"]),
    }
}

fn one() -> Quantity {
    Quantity::new(1, Format::DecimalSi)
}

fn is_over(pod: &Value) -> bool {
    if matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
        return true;
    }
    // A pod that should have been deleted by now counts as finished.
    false
}

fn of_service(name: &str, spec: &Value) -> Quantity {
    let kind = spec["type"].as_str().unwrap_or_default();
    let ports = spec["ports"].as_array().map_or(0, Vec::len);
    let number = |count: usize| Quantity::new(i64::try_from(count).unwrap_or(i64::MAX), Format::DecimalSi);
    match (name, kind) {
        ("services.loadbalancers", "LoadBalancer") => one(),
        ("services.nodeports", "NodePort") => number(ports),
        ("services.nodeports", "LoadBalancer") => {
            let all = spec["allocateLoadBalancerNodePorts"].as_bool().unwrap_or(true);
            let own = spec["ports"].as_array().into_iter().flatten();
            let own = own
                .filter(|port| port["nodePort"].as_i64().unwrap_or(0) != 0)
                .count();
            number(if all { ports } else { own })
        }
        _ => Quantity::ZERO,
    }
}

fn of_claim(name: &str, spec: &Value) -> Quantity {
    let storage = || quantity(&spec["resources"]["requests"]["storage"]);
    let class = spec["storageClassName"].as_str().unwrap_or_default();
    match name.split_once(OF_CLASS) {
        None if name == "requests.storage" => storage(),
        Some((own, "requests.storage")) if own == class => storage(),
        Some((own, "persistentvolumeclaims")) if own == class => one(),
        _ => Quantity::ZERO,
    }
}

fn of_pod(name: &str, spec: &Value) -> Quantity {
    if name == "pods" {
        return one();
    }
    let (what, resource) = match name.split_once('.') {
        Some(("limits", resource)) => ("limits", resource),
        Some(("requests", resource)) => ("requests", resource),
        _ => ("requests", name),
    };
    of_containers(spec, what, resource)
}

/// The requests or limits of all containers together for one resource.
///
/// Init containers run one after the other before the rest, so the largest counts if it exceeds the sum of the others;
/// sidecars count like the others, and together with every init container after them.
fn of_containers(spec: &Value, what: &str, resource: &str) -> Quantity {
    let of_pod = &spec["resources"][what][resource];
    let overhead = quantity(&spec["overhead"][resource]);
    if of_pod.is_string() {
        return quantity(of_pod) + overhead;
    }
    let own = |container: &Value| quantity(&container["resources"][what][resource]);
    let list = |name: &str| spec[name].as_array().cloned().unwrap_or_default();
    let mut sum = list("containers")
        .iter()
        .map(own)
        .fold(Quantity::ZERO, |sum, own| sum + own);
    let (mut sidecars, mut first) = (Quantity::ZERO, Quantity::ZERO);
    for container in list("initContainers") {
        let mut usage = own(&container);
        if container["restartPolicy"].as_str() == Some("Always") {
            sum = sum + usage;
            sidecars = sidecars + usage;
            usage = sidecars;
        } else {
            usage = usage + sidecars;
        }
        first = first.max(usage);
    }
    let sum = sum.max(first);
    match what == "requests" || !sum.is_zero() {
        true => sum + overhead,
        false => sum,
    }
}

fn quantity(value: &Value) -> Quantity {
    value
        .as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

/// Whether the object is in every scope of the quota. Only pods have scopes.
pub(crate) fn is_in_scope(quota: &Value, resource: &str, object: &Value) -> bool {
    let is_pod = resource == "pods";
    let scopes = quota["spec"]["scopes"].as_array().into_iter().flatten();
    let mut scopes = scopes.filter_map(Value::as_str);
    let selectors = quota["spec"]["scopeSelector"]["matchExpressions"].as_array();
    let mut selectors = selectors.into_iter().flatten();
    scopes.all(|scope| is_pod && matches(scope, "Exists", &Value::Null, object))
        && selectors.all(|selector| {
            let scope = selector["scopeName"].as_str().unwrap_or_default();
            let operator = selector["operator"].as_str().unwrap_or_default();
            is_pod && matches(scope, operator, &selector["values"], object)
        })
}

fn matches(scope: &str, operator: &str, values: &Value, pod: &Value) -> bool {
    let is_best_effort = pod["status"]["qosClass"].as_str() == Some("BestEffort");
    let ends = pod["spec"]["activeDeadlineSeconds"].is_i64();
    match scope {
        "Terminating" => ends,
        "NotTerminating" => !ends,
        "BestEffort" => is_best_effort,
        "NotBestEffort" => !is_best_effort,
        "PriorityClass" => has_class(operator, values, pod),
        "CrossNamespacePodAffinity" => has_cross_namespace_affinity(pod),
        _ => false,
    }
}

fn has_class(operator: &str, values: &Value, pod: &Value) -> bool {
    let class = pod["spec"]["priorityClassName"].as_str().unwrap_or_default();
    let is_listed = values
        .as_array()
        .into_iter()
        .flatten()
        .any(|value| value.as_str() == Some(class));
    match operator {
        "Exists" => !class.is_empty(),
        "DoesNotExist" => class.is_empty(),
        "In" => is_listed,
        "NotIn" => !is_listed,
        _ => false,
    }
}

/// Whether the pod's affinity depends on pods of other namespaces.
fn has_cross_namespace_affinity(pod: &Value) -> bool {
    let is_abroad = |term: &Value| {
        term["namespaces"]
            .as_array()
            .is_some_and(|names| !names.is_empty())
            || !term["namespaceSelector"].is_null()
    };
    ["podAffinity", "podAntiAffinity"].iter().any(|field| {
        let affinity = &pod["spec"]["affinity"][field];
        let required = affinity["requiredDuringSchedulingIgnoredDuringExecution"].as_array();
        let preferred = affinity["preferredDuringSchedulingIgnoredDuringExecution"].as_array();
        required.into_iter().flatten().any(is_abroad)
            || preferred
                .into_iter()
                .flatten()
                .any(|term| is_abroad(&term["podAffinityTerm"]))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(name: &str, object: &Value, expected: &str) {
        assert_eq!(of(counted(name), name, object).to_string(), expected, "{name}");
    }

    #[test]
    fn a_pod_uses_its_count_and_its_requests() {
        let container =
            json!({"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1"}}});
        let pod = json!({"spec": {"containers": [container, container]}});
        check("pods", &pod, "1");
        check("count/pods", &pod, "1");
        check("cpu", &pod, "1");
        check("requests.memory", &pod, "2Gi");
        check("limits.cpu", &pod, "2");
        check("limits.memory", &pod, "0");
    }

    #[test]
    fn a_finished_pod_uses_nothing_but_its_count() {
        let pod = json!({"spec": {}, "status": {"phase": "Succeeded"}});
        check("pods", &pod, "0");
        check("count/pods", &pod, "1");
    }

    #[test]
    fn services_and_claims_use_what_they_specify() {
        let service = json!({"spec": {"type": "NodePort", "ports": [{}, {}]}});
        check("services", &service, "1");
        check("services.nodeports", &service, "2");
        check("services.loadbalancers", &service, "0");
        let claim =
            json!({"spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "5Gi"}}}});
        check("requests.storage", &claim, "5Gi");
        check("gold.storageclass.storage.k8s.io/requests.storage", &claim, "5Gi");
        check(
            "tin.storageclass.storage.k8s.io/persistentvolumeclaims",
            &claim,
            "0",
        );
    }
}
