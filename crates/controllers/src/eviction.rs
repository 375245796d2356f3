//! Taking a pod away for a reason that it is told first.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use setpoint_api::options::DeleteOptions;
use setpoint_runtime::{Client, Error, Patch, Typed};

use crate::moments;

/// Why a pod goes, as its condition says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cause {
    pub(crate) reason: &'static str,
    pub(crate) message: &'static str,
}

/// Says in the pod's status that it is disrupted, and why, and deletes it. One that is gone or another is left alone.
pub(crate) async fn evict(
    client: &Client,
    now: Timestamp,
    pod: &Typed<Pod>,
    cause: Cause,
) -> Result<(), Error> {
    let key = pod.key();
    let handle = client.namespaced::<Pod>(key.namespace());
    let condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": cause.reason,
        "message": cause.message,
        "lastTransitionTime": moments::written(now),
    });
    let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [condition]}});
    match handle.patch_status(key.name(), &Patch::strategic(&patch)?).await {
        Err(status) if status.is_not_found() || status.is_conflict() => return Ok(()),
        patched => drop(patched?),
    }
    match handle.delete(key.name(), DeleteOptions::of_uid(pod.uid())).await {
        Err(status) if status.is_not_found() || status.is_conflict() => Ok(()),
        deleted => Ok(deleted.map(drop)?),
    }
}
