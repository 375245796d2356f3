//! Devices that a driver prepares before the pod is bound.

use super::*;

/// A pool with conditions, which is tried after the pools without, and a device that binds to the node.
fn conditional() -> Allocator {
    let conditions = |name: &str| json!({"name": name, "bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]});
    let mut remote = conditions("r0");
    remote["bindsToNode"] = json!(true);
    let pool = |name: &str, device: Value| {
        let pool = json!({"name": name, "generation": 1, "resourceSliceCount": 1});
        let spec = json!({"driver": "d", "pool": pool, "allNodes": true, "devices": [device]});
        viewed(name, &json!({"spec": spec}))
    };
    Allocator {
        slices: vec![
            pool("a", remote),
            pool("b", conditions("s0")),
            pool("c", json!({"name": "s1"})),
        ],
        ..allocator(&[])
    }
}

fn allocate(count: i64) -> (Vec<Allocation>, Value) {
    let claim = requests(json!([exactly(json!({"count": count}))]));
    let found = conditional().allocate(&claims(std::slice::from_ref(&claim)), "n", &|_| None);
    let found = found.unwrap();
    let view: Claim = serde_json::from_value(json!({"spec": {"devices": claim}})).unwrap();
    let result = found[0].to_json(&view);
    (found, result)
}

#[test]
fn devices_without_binding_conditions_come_first() {
    let (found, result) = allocate(1);
    assert_eq!(names(&found), "s1");
    assert_eq!(result.get("nodeSelector"), None);
    assert_eq!(names(&allocate(2).0), "s1 r0");
}

#[test]
fn the_result_has_the_conditions_and_the_node_that_a_device_binds_to() {
    let (_, result) = allocate(2);
    let device = &result["devices"]["results"][1];
    assert_eq!(device["bindingConditions"], json!(["ready"]));
    assert_eq!(device["bindingFailureConditions"], json!(["failed"]));
    let term = &result["nodeSelector"]["nodeSelectorTerms"][0];
    assert_eq!(term["matchFields"][0]["values"], json!(["n"]));
}

/// A claim that was allocated at second 100, with what the driver reports.
fn allocated(conditions: Option<Value>) -> Claim {
    let id = json!({"driver": "d", "pool": "n", "device": "s0"});
    let mut result = id.clone();
    result["bindingConditions"] = json!(["attached", "ready"]);
    result["bindingFailureConditions"] = json!(["failed"]);
    let allocation = json!({"allocationTimestamp": "1970-01-01T00:01:40Z", "devices": {"results": [result]}});
    let mut status = json!({"allocation": allocation});
    if let Some(conditions) = conditions {
        let mut device = id;
        device["conditions"] = conditions;
        status["devices"] = json!([device]);
    }
    serde_json::from_value(json!({"status": status})).unwrap()
}

#[test]
fn a_claim_is_ready_once_all_binding_conditions_are_true() {
    let is =
        |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "R", "message": "m"});
    let check = |conditions: Option<Value>, expected: Readiness| {
        assert_eq!(readiness(&allocated(conditions)), expected);
    };
    check(None, Readiness::Pending);
    check(Some(json!([is("attached", "True")])), Readiness::Pending);
    check(
        Some(json!([is("attached", "True"), is("ready", "False")])),
        Readiness::Pending,
    );
    let both = |last: Value| Some(json!([is("attached", "True"), is("ready", "True"), last]));
    check(both(is("failed", "False")), Readiness::Ready);
    check(
        both(is("failed", "True")),
        Readiness::Failed("reason=R, message=\"m\"".to_owned()),
    );
    assert_eq!(readiness(&Claim::default()), Readiness::Pending);
}

#[test]
fn a_claim_that_is_not_ready_in_time_is_not_available() {
    let at = |second: i64| Timestamp::from_second(second).unwrap();
    let timeout = Duration::from_secs(600);
    assert!(!has_timed_out(&allocated(None), timeout, at(700)));
    assert!(has_timed_out(&allocated(None), timeout, at(701)));
    assert!(!has_timed_out(&Claim::default(), timeout, at(701)));
}
