//! Floods of bodies that cost much more than their size.

use anyhow::Result;
use serde_json::{Map, Value, json};
use setpoint_conformance::wire::Request;

use super::attack::Attack;
use super::{ALICES, create};
use crate::objects::{self, JSON};
use crate::session::Session;

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const YAML: &str = "application/yaml";
const APPLY: &str = "application/apply-patch+yaml";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

const SCALAR_BYTES: usize = 1_000_000;
const ALIASES: usize = 90_000;
const TOO_LARGE_BYTES: usize = 4 << 20;
const DEPTH: usize = 400_000;
const DUPLICATES: usize = 150_000;
const UNKNOWN: usize = 100_000;
const COPIES: usize = 10_000;
const ITEMS: usize = 20_000;
const FIELDS: usize = 40_000;

/// The ConfigMap of the patches and updates.
const MAP: &str = "flood";

pub(super) fn create_map(admin: &mut Session) -> Result<()> {
    create(
        admin,
        &objects::collection(ALICES),
        &objects::config_map(MAP, "x", false),
    )
}

pub(super) fn create_account(admin: &mut Session) -> Result<()> {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": MAP}});
    create(admin, &accounts(), &account)
}

pub(super) fn yaml_aliases(attack: &Attack) {
    let scalar = "v".repeat(SCALAR_BYTES);
    let aliases = vec!["*q"; ALIASES].join(",");
    let body = format!(
        "apiVersion: authorization.k8s.io/v1\nkind: SelfSubjectAccessReview\nq: &q \"{scalar}\"\nr: [{aliases}]\n"
    );
    send(attack, 4, Request::new("POST", REVIEWS).body(YAML, body));
}

pub(super) fn too_large(attack: &Attack) {
    let body = format!("{{\"a\":\"{}\"}}", "x".repeat(TOO_LARGE_BYTES));
    send(attack, 8, Request::new("POST", REVIEWS).body(JSON, body));
}

pub(super) fn deep(attack: &Attack) {
    let body = format!("{}1{}", "{\"a\":".repeat(DEPTH), "}".repeat(DEPTH));
    send(attack, 8, Request::new("POST", REVIEWS).body(JSON, body));
}

pub(super) fn duplicate_keys(attack: &Attack) {
    let keys = vec!["\"a\":\"b\""; DUPLICATES].join(",");
    let body = format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"m\"}},\"data\":{{{keys}}}}}"
    );
    let path = format!(
        "{}?dryRun=All&fieldValidation=Strict",
        objects::collection(ALICES)
    );
    send(attack, 4, Request::new("POST", &path).body(JSON, body));
}

pub(super) fn unknown_fields(attack: &Attack) {
    let mut map = objects::config_map("m", "x", false);
    for number in 0..UNKNOWN {
        map[format!("unknown{number}")] = json!(1);
    }
    let path = format!("{}?dryRun=All&fieldValidation=Warn", objects::collection(ALICES));
    send(attack, 4, Request::new("POST", &path).body(JSON, map.to_string()));
}

pub(super) fn copies(attack: &Attack) {
    let mut operations = vec![json!({"op": "add", "path": "/data/a0", "value": "x".repeat(500)})];
    for number in 1..COPIES {
        operations.push(json!({"op": "copy", "from": "/data", "path": format!("/data/a{number}")}));
    }
    let body = Value::Array(operations).to_string();
    let path = objects::path(ALICES, MAP);
    send(attack, 4, Request::new("PATCH", &path).body(JSON_PATCH, body));
}

pub(super) fn strategic_merges(attack: &Attack) {
    let patch = |is_reversed: bool| {
        let mut secrets: Vec<Value> = (0..ITEMS).map(|n| json!({"name": format!("s{n}")})).collect();
        if is_reversed {
            secrets.reverse();
        }
        let body = json!({"secrets": secrets}).to_string();
        Request::new("PATCH", &format!("{}/{MAP}", accounts())).body(STRATEGIC, body)
    };
    let patches = [patch(false), patch(true)];
    attack.repeat(4, |_, number| patches[number % 2].clone());
}

pub(super) fn long_applies(attack: &Attack) {
    let data: Map<String, Value> = (0..FIELDS).map(|n| (format!("field-{n}"), json!("v"))).collect();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": data});
    let body = map.to_string();
    attack.repeat(4, |thread, number| {
        let path = format!(
            "{}?fieldManager=m{thread}-{}&force=true",
            objects::path(ALICES, "applied"),
            number % 2
        );
        Request::new("PATCH", &path).body(APPLY, body.clone())
    });
}

pub(super) fn many_managers(attack: &Attack) {
    attack.repeat(4, |thread, number| {
        let manager = format!("m{thread}-{number}");
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"},
            "data": {(manager.clone()): "v"}});
        let path = format!("{}?fieldManager={manager}", objects::path(ALICES, "shared"));
        Request::new("PATCH", &path).body(APPLY, map.to_string())
    });
}

pub(super) fn managed_fields(attack: &Attack) {
    let fields: Map<String, Value> = (0..FIELDS)
        .map(|n| (format!("f:field-number-{n}"), json!({})))
        .collect();
    let mut map = objects::config_map(MAP, "x", false);
    map["metadata"]["managedFields"] = json!([{"manager": "m", "operation": "Update", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": fields}}]);
    let body = map.to_string();
    attack.repeat(4, |_, number| {
        let path = format!("{}?fieldManager=n{}", objects::path(ALICES, MAP), number % 50);
        Request::new("PUT", &path).body(JSON, body.clone())
    });
}

fn send(attack: &Attack, threads: usize, request: Request) {
    attack.repeat(threads, |_, _| request.clone());
}

fn accounts() -> String {
    format!("/api/v1/namespaces/{ALICES}/serviceaccounts")
}
