//! Eviction of a pod: sets the DisruptionTarget condition, then deletes it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use setpoint_api::options::DeleteOptions;
use setpoint_runtime::{Client, Error, Patch, TypedObject};

use crate::api_time;

/// Reason and message of the DisruptionTarget condition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cause {
    pub(crate) reason: &'static str,
    pub(crate) message: &'static str,
}

/// Sets the pod's DisruptionTarget condition and deletes it. A pod that is gone or was replaced is left alone.
pub(crate) async fn evict(
    client: &Client,
    now: Timestamp,
    pod: &TypedObject<Pod>,
    cause: Cause,
) -> Result<(), Error> {
    let key = pod.key();
    let handle = client.namespaced::<Pod>(key.namespace());
    let condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": cause.reason,
        "message": cause.message,
        "lastTransitionTime": api_time::from_timestamp(now),
    });
    let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [condition]}});
    match handle.patch_status(key.name(), &Patch::strategic(&patch)?).await {
        Err(status) if status.is_not_found() || status.is_conflict() => return Ok(()),
        patched => drop(patched?),
    }
    match handle
        .delete(key.name(), DeleteOptions::with_uid(pod.uid()))
        .await
    {
        Err(status) if status.is_not_found() || status.is_conflict() => Ok(()),
        deleted => Ok(deleted.map(drop)?),
    }
}
