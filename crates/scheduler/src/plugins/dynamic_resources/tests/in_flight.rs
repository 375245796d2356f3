//! Allocations that are decided and that the cache does not show yet.

use setpoint_api::{GroupResource, ResourceVersion};

use super::*;

#[test]
fn a_device_is_allocated_once_while_bindings_are_in_flight() {
    let in_flight = InFlight::default();
    let device = || vec![exclusive("s0")];
    let (c1, c2) = (claim("c1", 1, None), claim("c2", 1, None));
    assert!(in_flight.add("p1", Some(&*c1), device()).is_ok());
    assert!(in_flight.add("p2", Some(&*c2), device()).is_err());
    in_flight.remove_pod("p1");
    assert!(in_flight.add("p2", Some(&*c2), device()).is_ok());
}

/// A version of a claim, with the device that is allocated for it.
fn claim(name: &str, version: u64, device: Option<&str>) -> Arc<Stored> {
    let mut header = Header::new(Key::new("default", name));
    header.uid = name.into();
    header.resource_version = ResourceVersion(version);
    let results: Vec<Value> = device
        .iter()
        .map(|device| json!({"driver": "d", "pool": "n", "device": device, "request": "r"}))
        .collect();
    let mut object = json!({"metadata": {"name": name}, "spec": {"devices": requests(json!([]))}});
    if !results.is_empty() {
        object["status"] = json!({"allocation": {"devices": {"results": results}}});
    }
    Arc::new(Stored::new(header, object.to_string().into(), 1))
}

#[test]
fn an_allocation_is_in_flight_until_the_cache_has_the_claim_as_it_was_written() {
    let claims = Arc::new(Cache::new(GroupResource::new(
        "resource.k8s.io",
        "resourceclaims",
    )));
    let show = |claim: Arc<Stored>| claims.replace(vec![claim.clone()], claim.resource_version());
    let plugin = DynamicResources {
        claims: Some(claims.clone()),
        ..DynamicResources::new(Args::default(), &Handle::default())
    };
    let device = exclusive("s0");
    let is_in_use = || {
        let allocated = plugin.in_flight.allocated_state(Some(&claims));
        allocated.is_in_use(&device.id)
    };
    let is_in_flight = || {
        plugin
            .in_flight
            .contains(&claims.find(&Key::new("default", "c")).unwrap())
    };
    show(claim("c", 1, None));
    let devices = vec![device.clone()];
    plugin
        .in_flight
        .add("p", Some(&*claim("c", 1, None)), devices.clone())
        .unwrap();
    plugin.in_flight.written("c", ResourceVersion(3));
    // Another claim could not be written, so that the binding failed; this one is written and not observed yet.
    plugin.in_flight.remove_pod("p");
    show(claim("c", 2, None));
    assert_eq!((is_in_flight(), is_in_use()), (true, true));
    show(claim("c", 3, Some("s0")));
    assert_eq!((is_in_flight(), is_in_use()), (false, true));
    // The allocation is given up before any other cycle looked at it: the claim can be allocated again.
    plugin
        .in_flight
        .add("q", Some(&*claim("c", 3, None)), devices)
        .unwrap();
    plugin.in_flight.written("c", ResourceVersion(4));
    show(claim("c", 5, None));
    assert_eq!((is_in_flight(), is_in_use()), (false, false));
}

#[test]
fn the_devices_of_a_created_claim_are_in_flight_until_the_cache_has_it() {
    let claims = Arc::new(Cache::new(GroupResource::new(
        "resource.k8s.io",
        "resourceclaims",
    )));
    let in_flight = InFlight::default();
    let device = exclusive("s0");
    let is_in_use = || in_flight.allocated_state(Some(&claims)).is_in_use(&device.id);
    claims.replace(Vec::new(), ResourceVersion(1));
    in_flight.add("p", None, vec![device.clone()]).unwrap();
    assert!(is_in_use());
    in_flight.created("p", &claim("c", 3, Some("s0")));
    in_flight.remove_pod("p");
    assert!(is_in_use());
    claims.bookmark(ResourceVersion(2));
    assert!(is_in_use());
    // It was deleted before any cycle looked at it.
    claims.bookmark(ResourceVersion(4));
    assert!(!is_in_use());
}
