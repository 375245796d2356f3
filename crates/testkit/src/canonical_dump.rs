//! Canonical dump of the objects of a cluster: equal for all runs that converge to the same state.
//!
//! Values that depend on chance or time are left out: uids, resource versions, timestamps, addresses, random name suffixes,
//! the node of a pod, generations, and condition messages. Events and leases are left out altogether.

use std::collections::HashMap;
use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Map, Value};
use setpoint_cache::Caches;

use crate::cluster::Cluster;

/// Fields that differ between runs that converge to the same state.
const IGNORED_FIELDS: [&str; 10] = [
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

/// Prefixes of names with a random suffix.
const RANDOM_SUFFIX_PREFIXES: [&str; 2] = ["kube-api-access-", "node-"];

/// Generated names, and their canonical form.
type GeneratedNames = HashMap<String, String>;

impl Cluster {
    /// One line for each object, sorted.
    pub fn canonical_dump(&self) -> Vec<String> {
        let mut objects: Vec<(String, Value)> = Vec::new();
        for kind in self
            .registry()
            .kinds()
            .iter()
            .filter(|kind| kind.info().is_storage_version())
        {
            let resource = kind.info().gvr.group_resource();
            if matches!(resource.resource.as_str(), "events" | "leases") {
                continue;
            }
            let cache = self.registry().cache(&resource);
            let snapshot = cache.expect("every stored kind has a cache").snapshot();
            let read = |json: &[u8]| serde_json::from_slice(json).expect("what is stored is JSON");
            objects.extend(
                snapshot
                    .iter()
                    .map(|object| (resource.to_string(), read(object.json()))),
            );
        }
        let names: GeneratedNames = objects
            .iter()
            .filter_map(|(_, object)| generated_name(object))
            .collect();
        let mut lines: Vec<String> = objects
            .into_iter()
            .map(|(resource, mut object)| {
                canonicalize(&mut object, &names);
                format!("{resource} {object}")
            })
            .collect();
        lines.sort();
        lines
    }
}

/// The lines that only one of two dumps has, for a failure message.
pub fn diff(one: &[String], other: &[String]) -> String {
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

/// The generated name of an object, and its canonical form.
fn generated_name(object: &Value) -> Option<(String, String)> {
    let metadata = object.get("metadata")?;
    let prefix = metadata.get("generateName")?.as_str()?;
    let name = metadata.get("name")?.as_str()?;
    Some((name.to_owned(), format!("{prefix}*")))
}

fn canonicalize(value: &mut Value, names: &GeneratedNames) {
    match value {
        Value::Object(fields) => {
            IGNORED_FIELDS
                .iter()
                .for_each(|field| drop(fields.remove(*field)));
            if fields.contains_key("reason") && fields.contains_key("status") {
                // The message of a condition stays as long as its reason does, so it may be that of an earlier reconcile.
                fields.remove("message");
            }
            fields.values_mut().for_each(|field| canonicalize(field, names));
            sort_fields(fields);
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| canonicalize(item, names));
            items.sort_by_key(ToString::to_string);
        }
        Value::String(text) => {
            if let Some(prefix) = canonical(text, names) {
                *text = prefix;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn sort_fields(fields: &mut Map<String, Value>) {
    let mut sorted: Vec<_> = std::mem::take(fields).into_iter().collect();
    sorted.sort_by(|one, other| one.0.cmp(&other.0));
    fields.extend(sorted);
}

/// The canonical form of a string that differs from run to run.
fn canonical(text: &str, names: &GeneratedNames) -> Option<String> {
    if let Some(prefix) = names.get(text) {
        return Some(prefix.clone());
    }
    if let Some(prefix) = RANDOM_SUFFIX_PREFIXES
        .iter()
        .find(|prefix| text.starts_with(**prefix))
    {
        return Some(format!("{prefix}*"));
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
