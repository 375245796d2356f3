//! Writes and reads of objects by their kind, as an administrator.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::wire::{Client, Endpoint, Request, Response};

/// A client that writes objects as they are.
#[derive(Debug)]
pub(super) struct Objects {
    client: Client,
}

/// The path prefix, the plural, and whether the kind is namespaced.
const KINDS: &[(&str, &str, &str, bool)] = &[
    ("Node", "/api/v1", "nodes", false),
    ("Namespace", "/api/v1", "namespaces", false),
    ("Pod", "/api/v1", "pods", true),
    ("Service", "/api/v1", "services", true),
    ("ReplicationController", "/api/v1", "replicationcontrollers", true),
    ("PersistentVolume", "/api/v1", "persistentvolumes", false),
    ("PersistentVolumeClaim", "/api/v1", "persistentvolumeclaims", true),
    ("ReplicaSet", "/apis/apps/v1", "replicasets", true),
    ("StatefulSet", "/apis/apps/v1", "statefulsets", true),
    ("StorageClass", "/apis/storage.k8s.io/v1", "storageclasses", false),
    ("CSINode", "/apis/storage.k8s.io/v1", "csinodes", false),
    ("CSIDriver", "/apis/storage.k8s.io/v1", "csidrivers", false),
    (
        "CSIStorageCapacity",
        "/apis/storage.k8s.io/v1",
        "csistoragecapacities",
        true,
    ),
    (
        "PriorityClass",
        "/apis/scheduling.k8s.io/v1",
        "priorityclasses",
        false,
    ),
    (
        "PodDisruptionBudget",
        "/apis/policy/v1",
        "poddisruptionbudgets",
        true,
    ),
    ("RuntimeClass", "/apis/node.k8s.io/v1", "runtimeclasses", false),
    ("DeviceClass", "/apis/resource.k8s.io/v1", "deviceclasses", false),
    (
        "ResourceSlice",
        "/apis/resource.k8s.io/v1",
        "resourceslices",
        false,
    ),
    (
        "ResourceClaim",
        "/apis/resource.k8s.io/v1",
        "resourceclaims",
        true,
    ),
];

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";

impl Objects {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self {
            client: Client::new(endpoint),
        }
    }

    /// Creates an object, and writes its status if it has one: most kinds ignore it in a create.
    pub(super) fn create(&mut self, object: &Value, namespace: &str) -> Result<()> {
        let (collection, path) = paths(object, namespace)?;
        let response = self.send("POST", &collection, Some((JSON, object)))?;
        ensure!(
            response.status < 300 || response.status == 409,
            "create {path}: {}",
            String::from_utf8_lossy(&response.body)
        );
        match &object["status"] {
            Value::Null => Ok(()),
            status => self.patch(&format!("{path}/status"), &json!({"status": status})),
        }
    }

    pub(super) fn patch(&mut self, path: &str, patch: &Value) -> Result<()> {
        let response = self.send("PATCH", path, Some((MERGE_PATCH, patch)))?;
        ensure!(
            response.status < 300 || response.status == 404,
            "patch {path}: {}",
            String::from_utf8_lossy(&response.body)
        );
        Ok(())
    }

    /// Deletes an object at once, whatever its finalizers and its grace period.
    pub(super) fn delete(&mut self, object: &Value, namespace: &str) -> Result<()> {
        let (_, path) = paths(object, namespace)?;
        let options = json!({"gracePeriodSeconds": 0});
        let response = self.send("DELETE", &path, Some((JSON, &options)))?;
        if response.status == 404 {
            return Ok(());
        }
        let finalizers = response
            .json()
            .and_then(|deleted| deleted.pointer("/metadata/finalizers").cloned());
        match finalizers {
            Some(_) => self.patch(&path, &json!({"metadata": {"finalizers": null}})),
            None => Ok(()),
        }
    }

    /// The object, or `Null` if it does not exist.
    pub(super) fn read(&mut self, path: &str) -> Result<Value> {
        let response = self.send("GET", path, None)?;
        match response.status {
            404 => Ok(Value::Null),
            _ => response.json().context("the object is JSON"),
        }
    }

    /// The items of a list.
    pub(super) fn list(&mut self, path: &str) -> Result<Vec<Value>> {
        let mut list = self.read(path)?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    fn send(&mut self, method: &str, path: &str, body: Option<(&str, &Value)>) -> Result<Response> {
        let mut request = Request::new(method, path);
        if let Some((content_type, body)) = body {
            request = request.body(content_type, serde_json::to_vec(body)?);
        }
        self.client
            .send(&request)
            .with_context(|| format!("{method} {path}"))
    }
}

/// The paths of the object's collection and of the object.
fn paths(object: &Value, namespace: &str) -> Result<(String, String)> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let row = KINDS.iter().find(|row| row.0 == kind);
    let (_, prefix, plural, is_namespaced) =
        *row.with_context(|| format!("kind {kind:?} has no row in the table"))?;
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or(namespace);
    let collection = match is_namespaced {
        true => format!("{prefix}/namespaces/{namespace}/{plural}"),
        false => format!("{prefix}/{plural}"),
    };
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let path = format!("{collection}/{name}");
    Ok((collection, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(object: Value, expected: &str) {
        assert_eq!(paths(&object, "w").unwrap().1, expected);
    }

    #[test]
    fn the_path_follows_from_the_kind() {
        check(
            json!({"kind": "Node", "metadata": {"name": "a"}}),
            "/api/v1/nodes/a",
        );
        check(
            json!({"kind": "Pod", "metadata": {"name": "a"}}),
            "/api/v1/namespaces/w/pods/a",
        );
        check(
            json!({"kind": "Pod", "metadata": {"name": "a", "namespace": "b"}}),
            "/api/v1/namespaces/b/pods/a",
        );
        assert!(paths(&json!({"kind": "Other"}), "w").is_err());
    }
}
