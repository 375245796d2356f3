//! Devices that several claims may share.

use super::*;

/// A device of 8Gi that several claims may share, and one of 8Gi that they may not.
fn shareable(devices: Value) -> Allocator {
    Allocator {
        slices: vec![slice("n", 1, devices)],
        ..allocator(&[])
    }
}

fn shareable_devices() -> Value {
    let policy = json!({"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}});
    json!([
        {"name": "shared", "allowMultipleAllocations": true, "attributes": {"model": {"string": "a"}},
         "capacity": {"memory": {"value": "8Gi", "requestPolicy": policy}}},
        {"name": "whole", "attributes": {"model": {"string": "b"}}, "capacity": {"memory": {"value": "8Gi"}}},
    ])
}

fn with_memory(amount: &str) -> Value {
    requests(json!([exactly(
        json!({"capacity": {"requests": {"memory": amount}}})
    )]))
}

/// The devices of each claim with the memory that they consume of shared ones.
fn shares(found: &[Allocation]) -> String {
    let devices = found.iter().flat_map(|allocation| &allocation.devices);
    let texts = devices.map(|device| match &device.share {
        Some(consumed) => format!("{}={}", device.id.device, consumed["memory"]),
        None => device.id.device.to_string(),
    });
    texts.collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn check_shares(allocator: &Allocator, devices: &[Value], expected: &str) {
    let found = allocator.allocate(&claims(devices), "n", &|_| None);
    let text = match found {
        Ok(found) => shares(&found),
        Err(AllocationError::Failed(reason)) => reason,
        Err(error) => format!("{error:?}"),
    };
    assert_eq!(text, expected);
}

#[test]
fn claims_share_the_capacity_of_a_device() {
    let allocator = shareable(shareable_devices());
    check_shares(&allocator, &[requests(json!([exactly(json!({}))]))], "shared=1Gi");
    check_shares(
        &allocator,
        &[with_memory("5Gi"), with_memory("2500Mi")],
        "shared=5Gi shared=3Gi",
    );
    check_shares(
        &allocator,
        &[with_memory("5Gi"), with_memory("4Gi")],
        "shared=5Gi whole",
    );
    // The first solution is used, after all choices that come before it.
    let three = |last: &str| [with_memory("5Gi"), with_memory("4Gi"), with_memory(last)];
    check_shares(&allocator, &three("4Gi"), "whole shared=4Gi shared=4Gi");
    check_shares(&allocator, &three("5Gi"), "NotFound");
    check_shares(&allocator, &[with_memory("9Gi")], "NotFound");
    // The devices of one request are distinct, also if they may be shared.
    let two = requests(json!([exactly(
        json!({"count": 2, "capacity": {"requests": {"memory": "1Gi"}}})
    )]));
    check_shares(&allocator, &[two.clone(), two], "NotFound");
}

#[test]
fn what_claims_consume_is_left_to_no_other_claim() {
    let mut allocator = shareable(shareable_devices());
    let share = |amount: &str| DeviceUse {
        share: Some([("memory".into(), amount.parse().unwrap())].into()),
        ..exclusive("shared")
    };
    allocator.allocated.add(share("2Gi"));
    allocator.allocated.add(share("3Gi"));
    check_shares(&allocator, &[with_memory("3Gi")], "shared=3Gi");
    check_shares(&allocator, &[with_memory("4Gi")], "whole");
    allocator.allocated.add(exclusive("shared"));
    check_shares(&allocator, &[with_memory("1Gi")], "whole");
}

#[test]
fn all_devices_are_those_that_could_have_the_capacity() {
    let all = |amount: &str| {
        let capacity = json!({"allocationMode": "All", "capacity": {"requests": {"memory": amount}}});
        [requests(json!([exactly(capacity)]))]
    };
    let mut allocator = shareable(shareable_devices());
    check_shares(&allocator, &all("2Gi"), "shared=2Gi whole");
    check_shares(&allocator, &all("9Gi"), "NotFound");
    allocator.allocated.add(exclusive("whole"));
    check_shares(&allocator, &all("2Gi"), "NotFound");
}

#[test]
fn a_capacity_that_cannot_be_counted_is_an_error() {
    check_shares(
        &shareable(shareable_devices()),
        &[with_memory("-1")],
        "shared=1Gi",
    );
    check_shares(
        &shareable(json!([{"name": "whole", "capacity": {"memory": {"value": "8Gi"}}}])),
        &[with_memory("-1")],
        "claim default/c0, request r: checking capacity for device d/n/whole: capacity \"memory\": capacity value is \
         negative",
    );
}

#[test]
fn a_shared_device_consumes_its_counters_once() {
    let mut devices = shareable_devices();
    let part = json!([{"counterSet": "card", "counters": {"slots": {"value": "1"}}}]);
    devices[0]["consumesCounters"] = part.clone();
    devices[1]["consumesCounters"] = part;
    let mut allocator = shareable(devices);
    let counters = json!([{"name": "card", "counters": {"slots": {"value": "1"}}}]);
    let pool = json!({"name": "n", "generation": 1, "resourceSliceCount": 2});
    let sets = json!({"spec": {"driver": "d", "pool": pool, "nodeName": "n", "sharedCounters": counters}});
    allocator.slices.push(viewed("sets", &sets));
    let mut own = shareable_devices();
    own[0]["consumesCounters"] = json!([{"counterSet": "card", "counters": {"slots": {"value": "1"}}}]);
    own[1]["consumesCounters"] = own[0]["consumesCounters"].clone();
    allocator.slices[0] = slice("n", 2, own);
    check_shares(
        &allocator,
        &[with_memory("5Gi"), with_memory("3Gi")],
        "shared=5Gi shared=3Gi",
    );
    check_shares(&allocator, &[with_memory("5Gi"), with_memory("4Gi")], "NotFound");
}

#[test]
fn the_result_of_a_shared_device_has_a_share_and_what_it_consumes() {
    let claim = with_memory("1100Mi");
    let found =
        shareable(shareable_devices()).allocate(&claims(std::slice::from_ref(&claim)), "n", &|_| None);
    let view: Claim = serde_json::from_value(json!({"spec": {"devices": claim}})).unwrap();
    let result = found.unwrap()[0].to_json(&view);
    let device = &result["devices"]["results"][0];
    assert_eq!(device["consumedCapacity"], json!({"memory": "2Gi"}));
    assert_eq!(device["shareID"].as_str().map(str::len), Some(36));
}
