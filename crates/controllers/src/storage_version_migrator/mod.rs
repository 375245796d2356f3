//! StorageVersionMigration: rewrites every object of a resource, so that it is stored in the current storage version.
//!
//! First the resource version of the resource is recorded, then every object that is not newer is written unchanged. An
//! object that another client changes in between is rewritten by that.

mod crd;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::storagemigration::v1::StorageVersionMigration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Deserialize;
use serde_json::{Value, json};
use setpoint_api::options::ListOptions;
use setpoint_api::{Clock, GroupResource, Gvr, Key, Status as StatusError, Stored};
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Patch, Reconcile, conditions,
};
use tokio_util::sync::CancellationToken;

use crate::resources::ServedResources;
use crate::storage_version_migrator::crd::Outcome;
use crate::{Config, api_time};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "storage-version-migrator-controller";

/// How long a resource may be unknown before the migration fails.
const DISCOVERY_TIMEOUT_SECONDS: i64 = 60;
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Migrator {
        migrations: context.lister()?,
        clock: context.clock.clone(),
        resources: config.resources.clone(),
    };
    Controller::new(NAME, reconciler)
        .reconciles::<StorageVersionMigration>()
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct Migrator {
    migrations: Lister<StorageVersionMigration>,
    clock: Arc<dyn Clock>,
    resources: ServedResources,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Migration {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    creation_timestamp: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    resource: ResourceReference,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResourceReference {
    group: String,
    resource: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    resource_version: String,
    conditions: Vec<Condition>,
}

impl Reconcile for Migrator {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(object) = self.migrations.find(key) else {
            return Ok(Next::Done);
        };
        let migration: Migration = object.decode()?;
        let is = |state| conditions::is_true(&migration.status.conditions, state);
        if is("Succeeded") || is("Failed") {
            return Ok(Next::Done);
        }
        let Some(resource) = self.find(&migration.spec.resource) else {
            return self.await_resource(client, &object, migration).await;
        };
        self.migrate(client, &object, migration, resource).await
    }
}

impl Migrator {
    /// The resource, in its storage version.
    fn find(&self, reference: &ResourceReference) -> Option<Gvr> {
        let served = self.resources.now();
        let resource_index =
            served.resource_index(&GroupResource::new(&reference.group, &reference.resource))?;
        Some(served.at(resource_index).gvr.clone())
    }

    async fn await_resource(
        &self,
        client: &Client,
        object: &Stored,
        migration: Migration,
    ) -> Result<Next, Error> {
        let since = migration.metadata.creation_timestamp.unwrap_or_default();
        let end = api_time::add_seconds(since, DISCOVERY_TIMEOUT_SECONDS);
        match api_time::duration_until(self.clock.now(), end) {
            Some(_) => Ok(Next::After(RETRY_INTERVAL)),
            None => {
                self.fail(client, object, migration, "resource does not exist in discovery")
                    .await
            }
        }
    }

    /// Records the resource version of the resource.
    async fn begin(
        &self,
        client: &Client,
        object: &Stored,
        migration: Migration,
        resource: Gvr,
    ) -> Result<Next, Error> {
        let one = ListOptions {
            limit: Some(1),
            ..ListOptions::default()
        };
        let list = client.dynamic(resource, "").list(&one).await?;
        crd::mark_migrating(client, &migration.spec.resource, object.key().name(), self.now()).await?;
        let mut own = migration.status.conditions;
        self.set(
            &mut own,
            "Running",
            "MigrationRunning",
            "The migration is running",
        );
        let version = list.resource_version.to_string();
        let status = json!({"resourceVersion": version, "conditions": own});
        write(client, object, &status).await
    }

    /// Rewrites every object that is not newer than the recorded resource version. The first reconcile only records it.
    async fn migrate(
        &self,
        client: &Client,
        object: &Stored,
        migration: Migration,
        resource: Gvr,
    ) -> Result<Next, Error> {
        let Ok(until) = migration.status.resource_version.parse() else {
            return self.begin(client, object, migration, resource).await;
        };
        let mut pages = client.dynamic(resource.clone(), "").pages(ListOptions::default());
        while let Some(item) = pages.next().await {
            let item = item?;
            if item.resource_version().0 > until {
                continue;
            }
            match rewrite(client, &resource, &item).await {
                Err(status_error) if is_transient(&status_error) => return Err(status_error.into()),
                Err(status_error) => {
                    return self
                        .fail(client, object, migration, &status_error.to_string())
                        .await;
                }
                Ok(()) => {}
            }
        }
        crd::finish(client, &migration.spec.resource, Outcome::Succeeded, self.now()).await?;
        let mut own = migration.status.conditions;
        self.complete(&mut own, object);
        let reason = "StorageVersionMigrationSucceeded";
        self.set(&mut own, "Succeeded", reason, "Migration completed");
        write(client, object, &json!({"conditions": own})).await
    }

    async fn fail(
        &self,
        client: &Client,
        object: &Stored,
        migration: Migration,
        why: &str,
    ) -> Result<Next, Error> {
        crd::finish(client, &migration.spec.resource, Outcome::Failed, self.now()).await?;
        let mut own = migration.status.conditions;
        self.complete(&mut own, object);
        let message = format!("migration encountered unhandled error: {why}");
        self.set(&mut own, "Failed", "StorageVersionMigrationFailed", &message);
        write(client, object, &json!({"conditions": own})).await
    }

    fn now(&self) -> Timestamp {
        api_time::whole_seconds(self.clock.now())
    }

    /// A migration that has ended is not running any more.
    fn complete(&self, own: &mut Vec<Condition>, object: &Stored) {
        if conditions::is_true(own, "Running") {
            let completed = Condition {
                observed_generation: Some(object.header().generation),
                ..conditions::condition("Running", false, "MigrationCompleted", "Migration completed")
            };
            conditions::set(own, completed, self.now());
        }
    }

    fn set(&self, own: &mut Vec<Condition>, state: &str, reason: &str, message: &str) {
        let condition = conditions::condition(state, true, reason, message);
        conditions::set(own, condition, self.now());
    }
}

/// Writes an object unchanged. One that another client has changed or deleted since needs no rewrite.
async fn rewrite(client: &Client, resource: &Gvr, item: &Stored) -> Result<(), StatusError> {
    let version = item.resource_version().to_string();
    let patch = Patch::merge(&json!({"metadata": {"uid": item.uid(), "resourceVersion": version}}))?;
    let handle = client.dynamic(resource.clone(), item.key().namespace());
    match handle.patch(item.key().name(), &patch.field_manager(NAME)).await {
        Err(status_error) if status_error.is_not_found() || status_error.is_conflict() => Ok(()),
        written => written.map(drop),
    }
}

async fn write(client: &Client, object: &Stored, status: &Value) -> Result<Next, Error> {
    let version = object.resource_version().to_string();
    let patch = Patch::merge(&json!({"metadata": {"resourceVersion": version}, "status": status}))?;
    let handle = client.dynamic(StorageVersionMigration::resource(), "");
    match handle
        .patch_subresource(object.key().name(), "status", &patch)
        .await
    {
        Err(status_error) if status_error.is_not_found() => Ok(Next::Done),
        written => Ok(written.map(|_| Next::Done)?),
    }
}

/// Whether a retry may succeed.
fn is_transient(status_error: &StatusError) -> bool {
    matches!(status_error.code, 429 | 500..)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use setpoint_testkit::{Cluster, Component};

    use super::*;

    async fn create(cluster: &Cluster, name: &str, group: &str, resource: &str) {
        let body = json!({
            "metadata": {"name": name},
            "spec": {"resource": {"group": group, "resource": resource}},
        });
        let handle = cluster
            .client("test")
            .dynamic(StorageVersionMigration::resource(), "");
        handle.create(body.to_string()).await.unwrap();
    }

    fn message(cluster: &Cluster, name: &str, state: &str) -> Option<String> {
        let migration: StorageVersionMigration = cluster.find(name)?;
        let own = migration.status?.conditions?;
        let found = conditions::find(&own, state)?;
        Some(found.message.clone())
    }

    /// The condition StorageMigrating of the CRD.
    fn crd_condition(cluster: &Cluster) -> String {
        let crd: CustomResourceDefinition = cluster.find("widgets.example.com").unwrap();
        let own = crd.status.unwrap().conditions.unwrap();
        let found = own
            .into_iter()
            .find(|one| one.type_ == "StorageMigrating")
            .unwrap();
        let (reason, message) = (found.reason.unwrap(), found.message.unwrap());
        format!("{} {reason}: {message}", found.status)
    }

    #[tokio::test]
    async fn every_object_is_written_once_and_none_twice() {
        let (cluster, _components) = Cluster::with([Component::Controller("storage-version-migrator")]).await;
        let widgets = cluster.define_custom_kind("widgets", "Widget").await;
        let handle = cluster.client("test").dynamic(widgets, "default");
        for n in 0..3 {
            let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": format!("w{n}")}});
            handle.create(widget.to_string()).await.unwrap();
        }
        create(&cluster, "move", "example.com", "widgets").await;
        cluster
            .until("success", |cluster| {
                message(cluster, "move", "Succeeded").is_some()
            })
            .await;
        let migration: StorageVersionMigration = cluster.find("move").unwrap();
        let own = migration.status.unwrap().conditions.unwrap();
        let running = conditions::find(&own, "Running").unwrap();
        assert_eq!(
            (running.status.as_str(), running.reason.as_str()),
            ("False", "MigrationCompleted")
        );
        assert_eq!(
            crd_condition(&cluster),
            "False MigrationSucceeded: The migration has succeeded and the stored versions have been updated"
        );
        assert_eq!(cluster.interceptor.count(&format!("{NAME} patch widgets")), 3);
        cluster.interceptor.clear();
        cluster.advance(Duration::from_secs(60)).await;
        assert_eq!(cluster.interceptor.writes().len(), 0);
    }

    #[tokio::test]
    async fn a_resource_that_stays_unknown_fails_the_migration() {
        let (cluster, _components) = Cluster::with([Component::Controller("storage-version-migrator")]).await;
        create(&cluster, "lost", "example.com", "nothings").await;
        cluster
            .until("failure", |cluster| message(cluster, "lost", "Failed").is_some())
            .await;
        let expected = "migration encountered unhandled error: resource does not exist in discovery";
        assert_eq!(message(&cluster, "lost", "Failed").as_deref(), Some(expected));
    }
}
