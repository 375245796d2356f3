//! Places and containers by what objects say.

use serde_json::json;

use super::*;

fn pod() -> Value {
    json!({
        "metadata": {"name": "p"},
        "spec": {
            "initContainers": [{"name": "i"}],
            "containers": [{"name": "a"}, {"name": "b", "ports": [{"containerPort": 8080}]}],
        },
        "status": {"podIPs": [{"ip": "10.2.0.7"}]},
    })
}

#[track_caller]
fn check(pod: &Value, wanted: &str, expected: Result<&str, &str>) {
    let found = container(pod, wanted).map_err(|status| status.message);
    assert_eq!(found.as_deref().map_err(String::as_str), expected, "{wanted}");
}

#[test]
fn the_container_is_the_named_one_or_the_only_one() {
    check(&pod(), "i", Ok("i"));
    check(&pod(), "x", Err("container x is not valid for pod p"));
    check(
        &pod(),
        "",
        Err("a container name must be specified for pod p, choose one of: [i a b]"),
    );
    let mut one = pod();
    one["spec"]["containers"] = json!([{"name": "a"}]);
    check(&one, "", Ok("a"));
}

#[test]
fn a_pod_is_reached_at_its_first_port_unless_one_is_named() {
    let place = |port| {
        pod_place(&pod(), port, false)
            .map(|place| place.to_string())
            .map_err(|status| status.message)
    };
    assert_eq!(place("").as_deref(), Ok("10.2.0.7:8080"));
    assert_eq!(place("81").as_deref(), Ok("10.2.0.7:81"));
}

#[test]
fn proxies_do_not_lead_to_this_machine() {
    for host in ["127.0.0.1", "0.0.0.0", "169.254.169.254", "::1", "224.0.0.1", ""] {
        let mut pod = pod();
        pod["status"]["podIPs"][0]["ip"] = host.into();
        let refused = pod_place(&pod, "80", false).unwrap_err();
        assert_eq!(
            (refused.code, refused.message.as_str()),
            (400, "address not allowed"),
            "{host}"
        );
    }
}

#[test]
fn a_service_leads_to_its_ready_pods() {
    let slice = json!({
        "ports": [{"name": "web", "port": 8080}],
        "endpoints": [
            {"addresses": ["10.2.0.1"], "conditions": {"ready": true}, "targetRef": {"kind": "Pod", "name": "a"}},
            {"addresses": ["10.2.0.2"], "conditions": {"ready": false}, "targetRef": {"kind": "Pod", "name": "b"}},
            {"addresses": ["10.2.0.3"], "targetRef": {"kind": "Pod", "name": "c"}},
            {"addresses": ["10.2.0.4"]},
        ],
    });
    let places = |port| {
        ready(&slice, port, false)
            .iter()
            .map(|one| one.place.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(places("web"), ["10.2.0.1:8080", "10.2.0.3:8080"]);
    assert!(places("").is_empty());
}

#[test]
fn a_node_is_known_by_its_best_address() {
    let node = json!({"status": {"addresses": [
        {"type": "InternalIP", "address": "10.0.0.1"},
        {"type": "Hostname", "address": "n1"},
    ]}});
    assert_eq!(node_address(&node), Some("n1"));
    assert_eq!(node_address(&json!({})), None);
}
