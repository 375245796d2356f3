//! The CustomResourceDefinition of a resource that is migrated: its condition StorageMigrating, and the stored versions
//! that are left afterwards.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use setpoint_api::{Gvr, Status, Stored};
use setpoint_runtime::{Client, Patch, retry_on_conflict};

use super::ResourceReference;

/// The field manager that applies the condition, as upstream names it.
const FIELD_MANAGER: &str = "migration-runner-controller";
const STORAGE_MIGRATING: &str = "StorageMigrating";
/// How often a conflict with another writer is tried again.
const ATTEMPTS: usize = 5;

/// How a migration ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Succeeded,
    Failed,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Crd {
    spec: CrdSpec,
    status: CrdStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CrdSpec {
    versions: Vec<CrdVersion>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CrdVersion {
    name: String,
    storage: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CrdStatus {
    conditions: Vec<CrdCondition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CrdCondition {
    #[serde(rename = "type")]
    type_: String,
    observed_generation: i64,
}

/// Records that a migration runs. Resources that are not custom have no CustomResourceDefinition.
pub(super) async fn mark_migrating(
    client: &Client,
    resource: &ResourceReference,
    migration: &str,
    now: Timestamp,
) -> Result<(), Status> {
    let message = format!("Migration {migration} is running");
    apply(client, resource, |object| {
        let condition = condition(object, "True", ("MigrationRunning", &message), now);
        Ok(json!({"conditions": [condition]}))
    })
    .await
}

/// Records the outcome. After a success only the storage version is stored, unless the CustomResourceDefinition has
/// changed since the start.
pub(super) async fn finish(
    client: &Client,
    resource: &ResourceReference,
    outcome: Outcome,
    now: Timestamp,
) -> Result<(), Status> {
    apply(client, resource, |object| {
        let crd: Crd = object.decode().map_err(Status::internal)?;
        let started = crd.status.conditions.iter();
        let mut started = started.filter(|own| own.type_ == STORAGE_MIGRATING);
        let is_same = started.any(|own| own.observed_generation == object.header().generation);
        let (reason, message) = match (outcome, is_same) {
            (Outcome::Failed, _) => ("MigrationFailed", "The migration has failed"),
            (Outcome::Succeeded, true) => (
                "MigrationSucceeded",
                "The migration has succeeded and the stored versions have been updated",
            ),
            (Outcome::Succeeded, false) => (
                "MigrationSucceeded",
                "The migration has succeeded but the stored versions have not been updated due to a generation mismatch",
            ),
        };
        let mut status = json!({"conditions": [condition(object, "False", (reason, message), now)]});
        let stored = crd.spec.versions.iter().find(|version| version.storage);
        if let Some(version) = stored.filter(|_| is_same) {
            status["storedVersions"] = json!([version.name]);
        }
        Ok(status)
    })
    .await
}

fn condition(object: &Stored, status: &str, (reason, message): (&str, &str), now: Timestamp) -> Value {
    json!({
        "type": STORAGE_MIGRATING,
        "status": status,
        "lastTransitionTime": now.to_string(),
        "reason": reason,
        "message": message,
        "observedGeneration": object.header().generation,
    })
}

/// Applies a status that is computed from the current CustomResourceDefinition.
async fn apply(
    client: &Client,
    resource: &ResourceReference,
    status: impl Fn(&Stored) -> Result<Value, Status>,
) -> Result<(), Status> {
    let crds = client.dynamic(
        Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
        "",
    );
    let name = format!("{}.{}", resource.resource, resource.group);
    retry_on_conflict(ATTEMPTS, || async {
        let object = match crds.get(&name).await {
            Err(status) if status.is_not_found() => return Ok(()),
            found => found?,
        };
        let applied = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": name, "resourceVersion": object.resource_version().to_string()},
            "status": status(&object)?,
        });
        let patch = Patch::apply(&applied, FIELD_MANAGER)?.force();
        crds.patch_subresource(&name, "status", &patch).await.map(drop)
    })
    .await
}
