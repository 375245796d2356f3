//! The JSON of serde types (`setpoint_api::json`): its reader and writer agree with those of `serde_json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use setpoint_api::json;

use super::Target;
use crate::corpus;

pub(super) const TARGET: Target = Target {
    name: "typed-json",
    cost: 2,
    seeds: || corpus::files("json"),
    run,
};

/// An object with the field types that the types of Kubernetes have.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object {
    api_version: Option<String>,
    #[serde(default)]
    metadata: BTreeMap<String, Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    items: Vec<Item>,
    replicas: Option<i32>,
    ratio: Option<f64>,
    port: Option<IntOrString>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Item {
    name: String,
    #[serde(default)]
    enabled: bool,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum IntOrString {
    Int(i32),
    String(String),
}

fn run(bytes: &[u8]) {
    let value = json::from_slice::<Value>(bytes);
    let expected = serde_json::from_slice::<Value>(bytes);
    match (&value, &expected) {
        (Ok(value), Ok(expected)) => assert_eq!(value, expected, "a value is read as another one"),
        // Of several errors in one text, another may be reported.
        (Err(_), Err(_)) => {}
        _ => panic!("{value:?} is not {expected:?}"),
    }
    if let Ok(value) = &value {
        check_written(value);
    }
    // Of a struct, `serde_json` reads an array as well.
    if let Ok(object) = json::from_slice::<Object>(bytes) {
        let expected = serde_json::from_slice(bytes).expect("serde_json reads more");
        assert_eq!(object, expected, "an object is read as another one");
        check_written(&object);
    }
}

fn check_written<T: Serialize>(value: &T) {
    let written = json::to_vec(value).expect("what was read can be written");
    let expected = serde_json::to_vec(value).expect("what was read can be written");
    assert_eq!(written, expected, "the texts differ");
}
