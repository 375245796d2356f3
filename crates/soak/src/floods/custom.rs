//! Floods of CustomResourceDefinitions and of objects that are expensive to validate.

use anyhow::Result;
use serde_json::{Value, json};
use setpoint_conformance::time::sleep;
use setpoint_conformance::wire::Request;
use std::time::Duration;

use super::attack::Attack;
use super::{ALICES, create};
use crate::objects::{self, JSON};
use crate::session::Session;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFAULT_BYTES: usize = 100_000;
const EMPTY_ITEMS: usize = 20_000;
const BRANCHES: usize = 4;
const BRANCH_DEPTH: usize = 6;
const DEFINITIONS: usize = 300;
/// A new kind is served after a moment.
const ESTABLISHED: Duration = Duration::from_secs(1);

pub(super) fn create_defaults(admin: &mut Session) -> Result<()> {
    let default = "d".repeat(DEFAULT_BYTES);
    let item = json!({"type": "object", "properties": {"a": {"type": "string", "default": default}}});
    let schema = json!({"type": "object", "properties": {"items": {"type": "array", "items": item}}});
    create_definition(admin, "bombs", "Bomb", &schema)
}

pub(super) fn defaults(attack: &Attack) {
    let body = json!({"apiVersion": "flood.example.com/v1", "kind": "Bomb", "metadata": {"name": "bomb"},
        "items": vec![json!({}); EMPTY_ITEMS]})
    .to_string();
    let path = format!("/apis/flood.example.com/v1/namespaces/{ALICES}/bombs");
    attack.repeat(4, |_, _| Request::new("POST", &path).body(JSON, body.clone()));
}

pub(super) fn create_branches(admin: &mut Session) -> Result<()> {
    let mut any = json!({"required": ["never"]});
    for _ in 0..BRANCH_DEPTH {
        any = json!({"anyOf": vec![any; BRANCHES]});
    }
    any["type"] = json!("object");
    any["properties"] = json!({"never": {"type": "string"}});
    create_definition(admin, "branches", "Branch", &any)
}

pub(super) fn branches(attack: &Attack) {
    let path = format!("/apis/flood.example.com/v1/namespaces/{ALICES}/branches");
    attack.repeat(4, |thread, number| {
        let object = json!({"apiVersion": "flood.example.com/v1", "kind": "Branch",
            "metadata": {"name": format!("b{thread}-{number}")}});
        objects::post(&path, &object)
    });
}

/// Creates CRDs, and reads the OpenAPI and discovery responses that list all of them.
pub(super) fn definitions(attack: &Attack) {
    const PATHS: [&str; 3] = ["/openapi/v2", "/openapi/v3", "/apis"];
    attack.repeat(4, |thread, number| match thread {
        0 if number < DEFINITIONS => {
            let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
                "x-kubernetes-preserve-unknown-fields": true}}});
            let plural = format!("kinds{number}");
            objects::post(CRDS, &definition(&plural, &format!("Kind{number}"), &schema))
        }
        _ => Request::new("GET", PATHS[number % PATHS.len()]),
    });
}

fn create_definition(admin: &mut Session, plural: &str, kind: &str, schema: &Value) -> Result<()> {
    create(admin, CRDS, &definition(plural, kind, schema))?;
    sleep(ESTABLISHED);
    Ok(())
}

fn definition(plural: &str, kind: &str, schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.flood.example.com")},
        "spec": {
            "group": "flood.example.com", "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}
