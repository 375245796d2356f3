//! Requests that cost much more than their size. The server may reject them; it must go on serving others, in bounded
//! memory.

use std::thread;

use anyhow::Result;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use setpoint_conformance::time::now;
use setpoint_conformance::wire::Request;

use super::{Injection, wait_until_ready};
use crate::objects::{self, JSON};
use crate::soak::{ADMIN, ALICE, Soak};

const SCALAR_BYTES: usize = 1_000_000;
const ALIASES: usize = 90_000;
const LIST_ITEMS: usize = 20_000;
const DEFAULT_BYTES: usize = 100_000;
const EMPTY_ITEMS: usize = 20_000;
const CONCURRENT_PATCHES: usize = 2;
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// A YAML body of a megabyte in which aliases repeat a long scalar, from a user without permissions.
pub(super) fn yaml_aliases(soak: &Soak<'_>, _: &mut StdRng) -> Result<Injection> {
    let scalar = "v".repeat(SCALAR_BYTES);
    let aliases = vec!["*q"; ALIASES].join(",");
    let body = format!(
        "apiVersion: authorization.k8s.io/v1\nkind: SelfSubjectAccessReview\nq: &q \"{scalar}\"\nr: [{aliases}]\n"
    );
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    send(
        soak,
        ALICE,
        Request::new("POST", path).body("application/yaml", body),
    )
}

/// Strategic merge patches of a long list with itself, as many at once as the server has threads on a small machine.
pub(super) fn quadratic_patch(soak: &Soak<'_>, _: &mut StdRng) -> Result<Injection> {
    let collection = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bomb"}});
    send(soak, ADMIN, objects::post(collection, &account))?;
    let secrets: Vec<Value> = (0..LIST_ITEMS)
        .map(|n| json!({"name": format!("s{n}")}))
        .collect();
    let patch = json!({"secrets": secrets}).to_string();
    let path = format!("{collection}/bomb");
    let request = Request::new("PATCH", &path).body(STRATEGIC, patch);
    send(soak, ADMIN, request.clone())?;
    let started = now();
    thread::scope(|scope| {
        for _ in 0..CONCURRENT_PATCHES {
            scope.spawn(|| soak.session(ADMIN).send(&request));
        }
    });
    wait_until_ready(soak)?;
    send(soak, ADMIN, Request::new("DELETE", &path))?;
    Ok(Injection::Recovered(started.elapsed()))
}

/// A custom resource whose many empty items each get a long default.
pub(super) fn crd_defaults(soak: &Soak<'_>, _: &mut StdRng) -> Result<Injection> {
    let default = "d".repeat(DEFAULT_BYTES);
    let item = json!({"type": "object", "properties": {"a": {"type": "string", "default": default}}});
    let schema = json!({"type": "object", "properties": {"items": {"type": "array", "items": item}}});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "bombs.soak.example.com"},
        "spec": {
            "group": "soak.example.com", "scope": "Namespaced",
            "names": {"plural": "bombs", "singular": "bomb", "kind": "Bomb", "listKind": "BombList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    send(soak, ADMIN, objects::post(crds, &crd))?;
    let body = json!({
        "apiVersion": "soak.example.com/v1", "kind": "Bomb", "metadata": {"name": "bomb"},
        "items": vec![json!({}); EMPTY_ITEMS],
    });
    let path = "/apis/soak.example.com/v1/namespaces/default/bombs";
    let injected = send(
        soak,
        ADMIN,
        Request::new("POST", path).body(JSON, body.to_string()),
    )?;
    send(
        soak,
        ADMIN,
        Request::new("DELETE", &format!("{crds}/bombs.soak.example.com")),
    )?;
    Ok(injected)
}

/// Sends a request, whatever becomes of it. Returns how long the server took to respond and to be ready.
fn send(soak: &Soak<'_>, token: &str, request: Request) -> Result<Injection> {
    let started = now();
    // A connection that the server closes is a response, too.
    let _ = soak.session(token).send(&request);
    wait_until_ready(soak)?;
    Ok(Injection::Recovered(started.elapsed()))
}
