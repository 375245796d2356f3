//! Rows over the node `n` with two small devices and a large one, and a node pool of another node.

mod conditions;
mod in_flight;
mod shares;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use setpoint_api::{Header, Key, Stored};

use super::allocated::{AllocatedState, DeviceId, DeviceUse};
use super::*;

type Sleep = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

#[derive(Debug)]
struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn sleep(&self, _: Duration) -> Sleep {
        Box::pin(std::future::pending())
    }
}

fn viewed<T: for<'a> serde::Deserialize<'a> + Send + Sync + 'static>(
    name: &str,
    object: &Value,
) -> ObjectView<T> {
    let header = Header::new(Key::new("default", name));
    ObjectView::of(Arc::new(Stored::new(header, object.to_string().into(), 1))).unwrap()
}

fn slice(node: &str, count: usize, devices: Value) -> ObjectView<ResourceSlice> {
    viewed(
        node,
        &json!({"spec": {
            "driver": "d",
            "pool": {"name": node, "generation": 1, "resourceSliceCount": count},
            "nodeName": node,
            "devices": devices,
        }}),
    )
}

fn device(name: &str, model: &str, numa: i64) -> Value {
    json!({"name": name, "attributes": {"model": {"string": model}, "numa": {"int": numa}},
           "capacity": {"memory": {"value": "8Gi"}}})
}

fn request(more: Value) -> Value {
    let mut request = json!({"deviceClassName": "c"});
    for (field, value) in more.as_object().into_iter().flatten() {
        request[field] = value.clone();
    }
    request
}

fn exactly(more: Value) -> Value {
    json!({"name": "r", "exactly": request(more)})
}

fn claims(claims: &[Value]) -> Vec<UnallocatedClaim> {
    let claims = claims.iter().enumerate();
    claims
        .map(|(number, devices)| UnallocatedClaim {
            key: Key::new("default", &format!("c{number}")),
            view: serde_json::from_value::<Claim>(json!({"spec": {"devices": devices}}))
                .map(Arc::new)
                .unwrap(),
        })
        .collect()
}

fn in_use(names: &[&str]) -> AllocatedState {
    let mut state = AllocatedState::default();
    for name in names {
        state.add(exclusive(name));
    }
    state
}

fn exclusive(name: &str) -> DeviceUse {
    DeviceUse {
        id: DeviceId {
            driver: "d".into(),
            pool: "n".into(),
            device: name.into(),
        },
        share: None,
    }
}

fn allocator(allocated: &[&str]) -> Allocator {
    let devices = json!([
        device("s0", "small", 0),
        device("s1", "small", 1),
        device("l0", "large", 0)
    ]);
    Allocator {
        slices: vec![
            slice("n", 1, devices),
            slice("other", 1, json!([device("x", "small", 0)])),
        ],
        classes: HashMap::from([("c".into(), viewed("c", &json!({})))]),
        taint_rules: Vec::new(),
        allocated: in_use(allocated),
        selectors: Arc::default(),
        timeout: Some(Duration::from_secs(10)),
        clock: Arc::new(StoppedClock),
    }
}

fn names(allocations: &[Allocation]) -> String {
    let claims = allocations.iter().map(|allocation| {
        let devices = allocation.devices.iter();
        let names: Vec<&str> = devices.map(|device| device.id.device.as_str()).collect();
        names.join(" ")
    });
    claims.collect::<Vec<_>>().join(", ")
}

/// The devices of each claim, or the error.
#[track_caller]
fn check(devices: &[Value], in_use: &[&str], expected: &str) {
    let found = allocator(in_use).allocate(&claims(devices), "n", &|_| None);
    let text = match found {
        Ok(allocations) => names(&allocations),
        Err(AllocationError::NotFound) => "none".to_owned(),
        Err(AllocationError::TimedOut) => "timed out".to_owned(),
        Err(AllocationError::Failed(reason)) => reason,
    };
    assert_eq!(text, expected);
}

fn requests(requests: Value) -> Value {
    json!({"requests": requests})
}

#[test]
fn devices_are_counted_and_exclusive() {
    check(&[requests(json!([exactly(json!({}))]))], &[], "s0");
    check(
        &[requests(json!([exactly(json!({"count": 2}))]))],
        &["s0"],
        "s1 l0",
    );
    check(&[requests(json!([exactly(json!({"count": 4}))]))], &[], "none");
    let one = requests(json!([exactly(json!({}))]));
    check(&[one.clone(), one], &[], "s0, s1");
}

#[test]
fn a_request_for_more_devices_than_there_are_does_not_try_them_in_every_order() {
    let devices: Vec<Value> = (0..30)
        .map(|number| device(&format!("s{number}"), "small", 0))
        .collect();
    let claim = claims(&[requests(json!([exactly(json!({"count": 31}))]))]);
    let mut allocator = allocator(&[]);
    allocator.slices = vec![slice("n", 1, json!(devices))];
    let found = allocator.allocate(&claim, "n", &|_| None);
    assert_eq!(found.unwrap_err(), AllocationError::NotFound);
}

/// A clock on which a second passes between two looks.
#[derive(Debug, Default)]
struct HastyClock(AtomicI64);

impl Clock for HastyClock {
    fn now(&self) -> Timestamp {
        let seconds = self.0.fetch_add(1, Ordering::Relaxed);
        Timestamp::from_second(seconds).unwrap()
    }

    fn sleep(&self, _: Duration) -> Sleep {
        Box::pin(std::future::pending())
    }
}

#[test]
fn a_search_with_too_many_combinations_is_ended_after_the_filter_timeout() {
    let devices: Vec<Value> = (0..40)
        .map(|number| device(&format!("s{number}"), "small", number))
        .collect();
    // Any twenty devices satisfy the first request, and none the second.
    let unknown = json!({"selectors": [{"cel": {"expression": "device.driver == 'unknown'"}}]});
    let claim = claims(&[requests(json!([exactly(json!({"count": 20})), exactly(unknown)]))]);
    let mut allocator = allocator(&[]);
    allocator.slices = vec![slice("n", 1, json!(devices))];
    allocator.clock = Arc::new(HastyClock::default());
    let found = allocator.allocate(&claim, "n", &|_| None);
    assert_eq!(found.unwrap_err(), AllocationError::TimedOut);
}

#[test]
fn selectors_choose_devices_and_their_errors_are_reported() {
    let with = |expression: &str| {
        [requests(json!([exactly(
            json!({"selectors": [{"cel": {"expression": expression}}]})
        )]))]
    };
    check(&with(r#"device.attributes["d"].model == "large""#), &[], "l0");
    check(
        &with(r#"device.capacity["d"].memory.isGreaterThan(quantity("1Ti"))"#),
        &[],
        "none",
    );
    check(&with(r#"has(device.attributes["unknown"].model)"#), &[], "none");
    let hint = "consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for \
                optional fields";
    check(
        &with(r#"device.attributes["d"].color == "red""#),
        &[],
        &format!(
            "claim default/c0: selector #0 on device d/n/s0: CEL runtime error: no such key: color. {hint}"
        ),
    );
}

#[test]
fn all_devices_or_none() {
    let all = [requests(json!([exactly(json!({"allocationMode": "All"}))]))];
    check(&all, &[], "s0 s1 l0");
    check(&all, &["s1"], "none");
}

#[test]
fn constraints_compare_attributes() {
    let with = |constraint: Value| {
        [json!({"requests": [exactly(json!({"count": 2}))], "constraints": [constraint]})]
    };
    check(&with(json!({"matchAttribute": "d/numa"})), &[], "s0 l0");
    check(&with(json!({"matchAttribute": "d/numa"})), &["l0"], "none");
    check(&with(json!({"distinctAttribute": "d/model"})), &[], "s0 l0");
    check(&with(json!({"matchAttribute": "d/color"})), &[], "none");
}

#[test]
fn the_first_alternative_that_fits_is_used() {
    let alternatives = json!([{"name": "r", "firstAvailable": [
        {"name": "many", "deviceClassName": "c", "count": 9},
        {"name": "one", "deviceClassName": "c"},
    ]}]);
    let found = allocator(&[])
        .allocate(&claims(&[requests(alternatives)]), "n", &|_| None)
        .unwrap();
    assert_eq!(found[0].devices[0].request, "r/one");
    assert_eq!(found[0].alternatives().collect::<Vec<_>>(), [1]);
}

#[test]
fn admin_access_ignores_that_a_device_is_in_use() {
    let claim = [requests(json!([exactly(json!({"adminAccess": true}))]))];
    check(&claim, &["s0"], "s0");
}

#[test]
fn an_incomplete_pool_has_no_devices_yet() {
    let claim = claims(&[requests(json!([exactly(json!({}))]))]);
    let mut allocator = allocator(&[]);
    allocator.slices = vec![slice("n", 2, json!([device("s0", "small", 0)]))];
    assert_eq!(
        allocator.allocate(&claim, "n", &|_| None).unwrap_err(),
        AllocationError::NotFound
    );
}

#[test]
fn the_result_names_the_devices_and_their_node() {
    let claim = requests(json!([exactly(json!({}))]));
    let found = allocator(&[])
        .allocate(&claims(std::slice::from_ref(&claim)), "n", &|_| None)
        .unwrap();
    let view: Claim = serde_json::from_value(json!({"spec": {"devices": claim}})).unwrap();
    let expected = json!({
        "devices": {"results": [{"request": "r", "driver": "d", "pool": "n", "device": "s0"}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": ["n"]},
        ]}]},
    });
    assert_eq!(found[0].to_json(&view), expected);
}

/// A card of 2 units of memory, as a whole or in halves; the half `h1` is a device of another node.
fn partitioned(allocated: &[&str]) -> Allocator {
    let part = |name: &str, amount: &str| {
        json!({"name": name, "consumesCounters": [
            {"counterSet": "card", "counters": {"memory": {"value": amount}}},
        ]})
    };
    let spec = |node: &str, more: Value| {
        let mut spec = json!({
            "driver": "d", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 3}, "nodeName": node,
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        viewed(node, &json!({"spec": spec}))
    };
    let counters = json!([{"name": "card", "counters": {"memory": {"value": "2"}}}]);
    let own = json!([
        part("whole", "2"),
        part("h0", "1"),
        part("q0", "500m"),
        part("q1", "500m")
    ]);
    Allocator {
        slices: vec![
            spec("n", json!({"sharedCounters": counters})),
            spec("n", json!({"devices": own})),
            spec("other", json!({"devices": [part("h1", "1")]})),
        ],
        ..allocator(allocated)
    }
}

#[test]
fn devices_share_the_counters_of_their_pool() {
    let one = requests(json!([exactly(json!({}))]));
    let check = |devices: &[Value], in_use: &[&str], expected: &str| {
        let found = partitioned(in_use).allocate(&claims(devices), "n", &|_| None);
        let text = found.map_or_else(|error| format!("{error:?}"), |found| names(&found));
        assert_eq!(text, expected);
    };
    check(std::slice::from_ref(&one), &[], "whole");
    check(&[one.clone(), one.clone()], &[], "h0, q0");
    check(&[one.clone(), one.clone(), one.clone()], &[], "h0, q0, q1");
    check(std::slice::from_ref(&one), &["whole"], "NotFound");
    // A device of another node consumes the same counters.
    check(&[one.clone(), one.clone()], &["h1"], "q0, q1");
    check(std::slice::from_ref(&one), &["h1", "h0"], "NotFound");
    let all = requests(json!([exactly(json!({"allocationMode": "All"}))]));
    check(&[all], &[], "NotFound");
}

#[test]
fn rules_taint_devices_that_requests_may_tolerate() {
    let rule = |selector: Value, effect: &str| {
        let taint = json!({"key": "broken", "value": "yes", "effect": effect});
        viewed(
            "rule",
            &json!({"spec": {"deviceSelector": selector, "taint": taint}}),
        )
    };
    let check = |selector: Value, effect: &str, more: Value, expected: &str| {
        let allocator = Allocator {
            taint_rules: vec![rule(selector, effect)],
            ..allocator(&[])
        };
        let claim = claims(&[requests(json!([exactly(more)]))]);
        let found = allocator.allocate(&claim, "n", &|_| None);
        let text = found.map_or_else(|error| format!("{error:?}"), |found| names(&found));
        assert_eq!(text, expected);
    };
    let small = json!({"driver": "d", "pool": "n", "device": "s0"});
    check(small.clone(), "NoSchedule", json!({}), "s1");
    check(small.clone(), "NoExecute", json!({}), "s1");
    check(small.clone(), "None", json!({}), "s0");
    let tolerations = json!({"tolerations": [{"key": "broken", "operator": "Exists"}]});
    check(small, "NoSchedule", tolerations, "s0");
    check(json!({"driver": "d"}), "NoSchedule", json!({}), "NotFound");
    check(json!({"driver": "other"}), "NoSchedule", json!({}), "s0");
    check(json!({}), "NoSchedule", json!({}), "NotFound");
    check(Value::Null, "NoSchedule", json!({}), "s0");
}

#[test]
fn more_devices_than_a_claim_may_have_and_unsatisfiable_constraints_are_errors() {
    check(
        &[requests(json!([
            exactly(json!({"count": 20})),
            exactly(json!({"count": 13}))
        ]))],
        &[],
        "claim default/c0: number of requested devices 33 exceeds the claim limit of 32",
    );
    let all = json!({"requests": [exactly(json!({"allocationMode": "All"}))],
                     "constraints": [{"matchAttribute": "d/model"}]});
    check(
        &[all],
        &[],
        "claim default/c0, request r: cannot add device d/n/l0 because a claim constraint would not be satisfied",
    );
}
