//! [`PodControl`]: creates and deletes the pods of an owner, and records an event for each (upstream's `PodControl`).

use std::sync::Arc;

use bytes::Bytes;
use k8s_openapi::api::core::v1;
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Status, Stored};
use setpoint_runtime::batches::{BatchOutcome, run_concurrently, slow_start};
use setpoint_runtime::{Client, Object, Recorder, TypedObject};

use crate::pods::Pod;

/// Creates and deletes pods. The events are about their owner.
#[derive(Debug)]
pub(crate) struct PodControl {
    events: Recorder,
}

impl PodControl {
    pub(crate) fn new(events: Recorder) -> Self {
        Self { events }
    }

    /// Creates these pods in a slow start. A terminating namespace accepts no more pods, which is not an error.
    pub(crate) async fn create<T: Object>(
        &self,
        client: &Client,
        owner: &TypedObject<T>,
        new_pods: &[v1::Pod],
    ) -> Result<BatchOutcome<Arc<Stored>, Status>, Status> {
        let encoded = new_pods.iter().map(encode).collect::<Result<_, _>>()?;
        Ok(self.create_encoded(client, owner, encoded).await)
    }

    /// Creates `count` pods that differ only in the name that the server generates: all share the encoded bytes.
    pub(crate) async fn create_identical<T: Object>(
        &self,
        client: &Client,
        owner: &TypedObject<T>,
        new_pod: &v1::Pod,
        count: usize,
    ) -> Result<BatchOutcome<Arc<Stored>, Status>, Status> {
        let encoded = encode(new_pod)?;
        Ok(self.create_encoded(client, owner, vec![encoded; count]).await)
    }

    async fn create_encoded<T: Object>(
        &self,
        client: &Client,
        owner: &TypedObject<T>,
        new_pods: Vec<Bytes>,
    ) -> BatchOutcome<Arc<Stored>, Status> {
        let pods = client.namespaced::<v1::Pod>(owner.key().namespace());
        let mut outcome = slow_start(new_pods, |json| pods.dynamic().create(json)).await;
        for pod in &outcome.succeeded {
            let message = format!("Created pod: {}", pod.key().name());
            self.events.normal(owner, "SuccessfulCreate", message);
        }
        outcome.first_error = outcome
            .first_error
            .filter(|status| !is_namespace_terminating(status));
        if let Some(error) = &outcome.first_error {
            self.events
                .warning(owner, "FailedCreate", format!("Error creating: {error}"));
        }
        outcome
    }

    /// Deletes these pods concurrently; returns the first error.
    pub(crate) async fn delete<T: Object>(
        &self,
        client: &Client,
        owner: &TypedObject<T>,
        victims: impl Iterator<Item = &Pod>,
    ) -> Result<(), Status> {
        let pods = client.namespaced::<v1::Pod>(owner.key().namespace());
        let deletions = victims.map(|victim| async {
            let (name, uid) = (victim.object().key().name(), victim.object().uid());
            let deleted = pods.dynamic().delete(name, DeleteOptions::with_uid(uid)).await;
            match deleted {
                Err(status) if status.is_not_found() || status.is_conflict() => Ok(None),
                deleted => deleted.map(|_| Some(name)),
            }
        });
        let outcome = run_concurrently(deletions).await;
        for name in outcome.succeeded.iter().flatten() {
            let message = format!("Deleted pod: {name}");
            self.events.normal(owner, "SuccessfulDelete", message);
        }
        let Some(error) = outcome.first_error else {
            return Ok(());
        };
        self.events
            .warning(owner, "FailedDelete", format!("Error deleting: {error}"));
        Err(error)
    }
}

/// Whether a create was rejected because the namespace is being deleted.
pub(crate) fn is_namespace_terminating(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "NamespaceTerminating")
}

fn encode(pod: &v1::Pod) -> Result<Bytes, Status> {
    let json = setpoint_api::json::to_vec(pod).map_err(Status::internal)?;
    Ok(json.into())
}
