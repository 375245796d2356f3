//! Backend addresses and containers from objects.

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
fn check(pod: &Value, requested: &str, expected: Result<&str, &str>) {
    let found = container_name(pod, requested).map_err(|status| status.message);
    assert_eq!(found.as_deref().map_err(String::as_str), expected, "{requested}");
}

#[test]
fn the_container_is_the_requested_one_or_the_only_one() {
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
    let address = |port| {
        pod_backend(&pod(), port, false)
            .map(|backend| backend.to_string())
            .map_err(|status| status.message)
    };
    assert_eq!(address("").as_deref(), Ok("10.2.0.7:8080"));
    assert_eq!(address("81").as_deref(), Ok("10.2.0.7:81"));
}

#[test]
fn proxies_do_not_connect_to_local_addresses() {
    for host in [
        "127.0.0.1",
        "0.0.0.0",
        "169.254.169.254",
        "::1",
        "::ffff:127.0.0.1",
        "224.0.0.1",
        "localhost",
        "",
    ] {
        let mut pod = pod();
        pod["status"]["podIPs"][0]["ip"] = host.into();
        let error = pod_backend(&pod, "80", false).unwrap_err();
        assert_eq!(
            (error.code, error.message.as_str()),
            (400, "address not allowed"),
            "{host}"
        );
    }
}

/// A host with the expected message; no message if the proxy may connect to it.
async fn check_host(host: &str, expected: &str) {
    let backend = BackendAddress {
        secure: false,
        host: host.to_owned(),
        port: 80,
        resolved: Vec::new(),
        node: None,
    };
    match resolve_proxyable(backend).await {
        Ok(backend) => assert_eq!((backend.resolved.is_empty(), ""), (false, expected), "{host}"),
        Err(status) => assert_eq!(status.message, expected, "{host}"),
    }
}

#[tokio::test]
async fn hosts_are_judged_by_the_addresses_they_resolve_to() {
    for host in ["10.2.0.7", "2001:db8::7", "::ffff:10.2.0.7", "fd00::7"] {
        check_host(host, "").await;
    }
    for host in [
        "localhost",
        "127.1",
        "0x7f000001",
        "2130706433",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "0.0.0.0",
        "::",
        "fe80::1",
        "ff02::1",
        "255.255.255.255",
    ] {
        check_host(host, "address not allowed").await;
    }
    check_host("", "lookup : no such host").await;
}

#[test]
fn a_service_has_the_addresses_of_its_ready_pods() {
    let slice = json!({
        "ports": [{"name": "web", "port": 8080}],
        "endpoints": [
            {"addresses": ["10.2.0.1"], "conditions": {"ready": true}, "targetRef": {"kind": "Pod", "name": "a"}},
            {"addresses": ["10.2.0.2"], "conditions": {"ready": false}, "targetRef": {"kind": "Pod", "name": "b"}},
            {"addresses": ["10.2.0.3"], "targetRef": {"kind": "Pod", "name": "c"}},
            {"addresses": ["10.2.0.4"]},
        ],
    });
    let addresses = |port| {
        ready(&slice, port, false)
            .iter()
            .map(|one| one.backend.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(addresses("web"), ["10.2.0.1:8080", "10.2.0.3:8080"]);
    assert!(addresses("").is_empty());
}

#[test]
fn a_node_has_its_preferred_address() {
    let node = json!({"status": {"addresses": [
        {"type": "InternalIP", "address": "10.0.0.1"},
        {"type": "Hostname", "address": "n1"},
    ]}});
    assert_eq!(node_address(&node, &ADDRESS_TYPES), Some("n1"));
    assert_eq!(node_address(&json!({}), &ADDRESS_TYPES), None);
}
