//! Floods of ordinary requests: many of them, or for much.

use anyhow::Result;
use serde_json::json;
use setpoint_conformance::wire::Request;

use super::attack::Attack;
use super::{ALICES, create};
use crate::objects;
use crate::session::Session;

const MAPS: usize = 5_000;
const MAP_BYTES: usize = 2_000;
/// As much as a request line may have on HTTP/2.
const SELECTOR_BYTES: usize = 12_000;

pub(super) fn nothing(attack: &Attack) {
    attack.wait();
}

pub(super) fn create_maps(admin: &mut Session) -> Result<()> {
    let value = "x".repeat(MAP_BYTES);
    for number in 0..MAPS {
        let map = objects::config_map(&format!("map-{number}"), &value, false);
        create(admin, &objects::collection(ALICES), &map)?;
    }
    Ok(())
}

pub(super) fn long_lists(attack: &Attack) {
    let path = objects::collection(ALICES);
    attack.repeat(8, |_, _| Request::new("GET", &path));
}

pub(super) fn long_selectors(attack: &Attack) {
    let mut selector = String::new();
    for number in 0.. {
        let next = format!("label{number}%20notin%20(a,b,c),");
        if selector.len() + next.len() > SELECTOR_BYTES {
            break;
        }
        selector.push_str(&next);
    }
    let path = format!(
        "{}?labelSelector={}",
        objects::collection(ALICES),
        selector.trim_end_matches(',')
    );
    attack.repeat(8, |_, _| Request::new("GET", &path));
}

pub(super) fn resource_versions(attack: &Attack) {
    const QUERIES: [&str; 6] = [
        "resourceVersion=99999999999",
        "resourceVersion=1&resourceVersionMatch=Exact",
        "resourceVersion=99999999999&resourceVersionMatch=NotOlderThan",
        "resourceVersion=-5",
        "resourceVersion=18446744073709551615",
        "watch=true&resourceVersion=1&timeoutSeconds=1",
    ];
    let path = objects::collection(ALICES);
    attack.repeat(16, |thread, number| {
        Request::new(
            "GET",
            &format!("{path}?{}", QUERIES[(thread + number) % QUERIES.len()]),
        )
    });
}

pub(super) fn events(attack: &Attack) {
    let path = format!("/api/v1/namespaces/{ALICES}/events");
    attack.repeat(8, |thread, number| {
        let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("e{thread}-{number}")},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": ALICES}, "reason": "Flood",
            "message": "one of many", "type": "Normal"});
        objects::post(&path, &event)
    });
}

pub(super) fn create_delete(attack: &Attack) {
    attack.repeat(8, |thread, number| {
        let name = format!("cycle-{thread}");
        match number % 2 {
            0 => objects::post(
                &objects::collection(ALICES),
                &objects::config_map(&name, "x", false),
            ),
            _ => Request::new("DELETE", &objects::path(ALICES, &name)),
        }
    });
}
