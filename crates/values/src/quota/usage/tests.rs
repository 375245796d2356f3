//! Tests of the usage.

use serde_json::{Value, json};

use super::*;

#[track_caller]
fn check(name: &str, object: &Value, expected: &str) {
    let (resource, group) = counted_resource(name)
        .split_once('.')
        .unwrap_or((counted_resource(name), ""));
    let resource = GroupResource::new(group, resource);
    let object: QuotaObject = serde_json::from_value(object.clone()).unwrap();
    assert!(counts(&resource, name), "{name}");
    let used = usage(&resource, &object).get(name).copied().unwrap_or_default();
    assert_eq!(used.to_string(), expected, "{name}");
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
fn extended_resources_and_huge_pages_count_by_their_requests() {
    let resources = json!({"requests": {"example.com/gpu": "2", "hugepages-2Mi": "4Mi"}});
    let pod = json!({"spec": {"containers": [{"resources": resources}]}});
    check("requests.example.com/gpu", &pod, "2");
    check("hugepages-2Mi", &pod, "4Mi");
    check("requests.hugepages-2Mi", &pod, "4Mi");
}

#[test]
fn overhead_is_added_to_requests_and_to_limits_that_are_set() {
    let resources = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}});
    let pod = json!({"spec": {"containers": [{"resources": resources}],
        "overhead": {"cpu": "500m", "memory": "1Gi"}}});
    check("requests.cpu", &pod, "1500m");
    check("memory", &pod, "1Gi");
    check("limits.cpu", &pod, "2500m");
    check("limits.memory", &pod, "0");
}

#[test]
fn the_resources_of_the_pod_take_precedence() {
    let container = json!({"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}});
    let pod = json!({"spec": {"containers": [container], "resources": {"requests": {"cpu": "3"}}}});
    check("cpu", &pod, "3");
    check("memory", &pod, "1Gi");
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
    let balancer = json!({"spec": {"type": "LoadBalancer", "ports": [{}, {"nodePort": 30000}],
        "allocateLoadBalancerNodePorts": false}});
    check("services.loadbalancers", &balancer, "1");
    check("services.nodeports", &balancer, "1");
    let claim = json!({"spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "5Gi"}}}});
    check("requests.storage", &claim, "5Gi");
    check("gold.storageclass.storage.k8s.io/requests.storage", &claim, "5Gi");
    check(
        "tin.storageclass.storage.k8s.io/persistentvolumeclaims",
        &claim,
        "0",
    );
}

#[test]
fn other_objects_are_counted() {
    check("count/deployments.apps", &json!({}), "1");
    check("secrets", &json!({}), "1");
}

#[test]
fn containers_specify_what_a_quota_limits() {
    let pod = json!({"spec": {"containers": [
        {"name": "b"}, {"name": "a"}, {"name": "c", "resources": {"requests": {"cpu": "1"}}}]}});
    let pod: QuotaObject = serde_json::from_value(pod).unwrap();
    assert_eq!(
        check_specified(&pod, &["requests.cpu", "limits.cpu", "pods"]),
        Err("must specify limits.cpu for: a,b,c; requests.cpu for: a,b".to_owned())
    );
    let whole = json!({"spec": {"resources": {}, "containers": [{"name": "a"}]}});
    let whole: QuotaObject = serde_json::from_value(whole).unwrap();
    assert_eq!(check_specified(&whole, &["requests.cpu"]), Ok(()));
}
