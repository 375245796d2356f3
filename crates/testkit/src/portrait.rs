//! What there is in a cluster, in words that are the same for every run that came to the same end.
//!
//! Left out is what chance or time decides: uids, versions, times, addresses, the random ends of names, which node a pod
//! is on, how often something was written, and the words of conditions. Events and leases tell of time alone and are not in it.

use std::collections::HashMap;
use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Map, Value};
use setpoint_cache::Caches;

use crate::cluster::Cluster;

/// Fields that two runs to the same end need not have in common.
const LEFT_OUT: [&str; 10] = [
    "uid",
    "resourceVersion",
    "generation",
    "observedGeneration",
    "managedFields",
    "creationTimestamp",
    "containerID",
    "endpoints.kubernetes.io/last-change-trigger-time",
    "lastHeartbeatTime",
    "lastTransitionTime",
];

/// What begins so ends by chance.
const RANDOM_ENDS: [&str; 2] = ["kube-api-access-", "node-"];

/// Names that the server has made up, and what is known of them.
type Names = HashMap<String, String>;

impl Cluster {
    /// One line for each object, in order.
    pub fn portrait(&self) -> Vec<String> {
        let mut objects: Vec<(String, Value)> = Vec::new();
        for kind in self
            .registry()
            .kinds()
            .iter()
            .filter(|kind| kind.about().is_home())
        {
            let resource = kind.about().gvr.group_resource();
            if matches!(resource.resource.as_str(), "events" | "leases") {
                continue;
            }
            let cache = self.registry().cache(&resource);
            let snapshot = cache.expect("every kind that is kept has a cache").snapshot();
            let read = |json: &[u8]| serde_json::from_slice(json).expect("what is stored is JSON");
            objects.extend(
                snapshot
                    .iter()
                    .map(|object| (resource.to_string(), read(object.json()))),
            );
        }
        let names: Names = objects.iter().filter_map(|(_, object)| made_up(object)).collect();
        let mut lines: Vec<String> = objects
            .into_iter()
            .map(|(resource, mut object)| {
                scrub(&mut object, &names);
                format!("{resource} {object}")
            })
            .collect();
        lines.sort();
        lines
    }
}

/// The lines that only the one or only the other has, for the message of a failure.
pub fn difference(one: &[String], other: &[String]) -> String {
    let only = |sign: &str, own: &[String], foreign: &[String]| {
        let mut foreign = foreign.to_vec();
        let mut lines = Vec::new();
        for line in own {
            match foreign.iter().position(|there| there == line) {
                Some(at) => drop(foreign.remove(at)),
                None => lines.push(format!("{sign} {line}")),
            }
        }
        lines
    };
    [only("-", one, other), only("+", other, one)].concat().join("\n")
}

/// The name of an object, if it is made up, and the part of it that is not.
fn made_up(object: &Value) -> Option<(String, String)> {
    let metadata = object.get("metadata")?;
    let known = metadata.get("generateName")?.as_str()?;
    let name = metadata.get("name")?.as_str()?;
    Some((name.to_owned(), format!("{known}*")))
}

fn scrub(value: &mut Value, names: &Names) {
    match value {
        Value::Object(fields) => {
            LEFT_OUT.iter().for_each(|field| drop(fields.remove(*field)));
            if fields.contains_key("reason") && fields.contains_key("status") {
                // The words of a condition stay as long as its reason does, so they may tell of an earlier turn.
                fields.remove("message");
            }
            fields.values_mut().for_each(|field| scrub(field, names));
            sort(fields);
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| scrub(item, names));
            items.sort_by_key(ToString::to_string);
        }
        Value::String(text) => {
            if let Some(known) = known_of(text, names) {
                *text = known;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn sort(fields: &mut Map<String, Value>) {
    let mut sorted: Vec<_> = std::mem::take(fields).into_iter().collect();
    sorted.sort_by(|one, other| one.0.cmp(&other.0));
    fields.extend(sorted);
}

/// What stands for a text that differs from run to run.
fn known_of(text: &str, names: &Names) -> Option<String> {
    if let Some(known) = names.get(text) {
        return Some(known.clone());
    }
    if let Some(known) = RANDOM_ENDS.iter().find(|known| text.starts_with(**known)) {
        return Some(format!("{known}*"));
    }
    let what = if text.parse::<Timestamp>().is_ok() {
        "a time"
    } else if text.parse::<IpAddr>().is_ok() {
        "an address"
    } else if is_uid(text) {
        "a uid"
    } else {
        return None;
    };
    Some(what.to_owned())
}

fn is_uid(text: &str) -> bool {
    let is_dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| {
            if is_dash(at) {
                byte == b'-'
            } else {
                byte.is_ascii_hexdigit()
            }
        })
}
