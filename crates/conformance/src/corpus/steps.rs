//! Steps in the format of the recordings.

use serde_json::{Map, Value, json};

use crate::transcript::{BodyFrom, Step};

pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";
pub(crate) const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
pub(crate) const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

pub(crate) fn get(path: &str) -> Step {
    step("GET", path)
}

pub(crate) fn get_as(path: &str, accept: &str) -> Step {
    with_header(step("GET", path), "Accept", accept)
}

pub(crate) fn post(path: &str, object: &Value) -> Step {
    send("POST", path, JSON, object.to_string())
}

pub(crate) fn patch(path: &str, kind: &str, body: &Value) -> Step {
    send("PATCH", path, kind, body.to_string())
}

pub(crate) fn delete(path: &str) -> Step {
    step("DELETE", path)
}

pub(crate) fn send(method: &str, path: &str, kind: &str, body: impl Into<String>) -> Step {
    let mut step = with_header(step(method, path), "Content-Type", kind);
    step.body = Some(body.into());
    step
}

/// A PUT of an earlier step's response with fields set.
pub(crate) fn put_from(path: &str, from: usize, set: &[(&str, Value)]) -> Step {
    let mut step = with_header(step("PUT", path), "Content-Type", JSON);
    step.body_from = Some(BodyFrom {
        step: from,
        set: set
            .iter()
            .map(|(path, value)| (path.to_string(), value.clone()))
            .collect(),
        del: Vec::new(),
    });
    step
}

/// Creates the namespace of this collection and its default ServiceAccount.
pub(crate) fn namespace(at: &str) -> Vec<Step> {
    let Some(name) = at
        .split("/namespaces/")
        .nth(1)
        .and_then(|rest| rest.split('/').next())
    else {
        return Vec::new();
    };
    let object =
        |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    let accounts = format!("/api/v1/namespaces/{name}/serviceaccounts");
    let steps = [
        post("/api/v1/namespaces", &object("Namespace", name)),
        post(&accounts, &object("ServiceAccount", "default")),
    ];
    steps
        .into_iter()
        .map(|step| Step { once: true, ..step })
        .collect()
}

fn step(method: &str, path: &str) -> Step {
    Step {
        method: method.to_owned(),
        path: path.to_owned(),
        headers: Map::new(),
        ..Step::default()
    }
}

fn with_header(mut step: Step, name: &str, value: &str) -> Step {
    step.headers.insert(name.to_owned(), json!(value));
    step
}
