//! Execution of object patches against an API server.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use setpoint_api::options::{DeleteOptions, DeletionPropagation};
use setpoint_api::{Clock, Status, Stored};
use setpoint_client::{Client, DynamicApi, Patch, retry_on_conflict};

use super::operation::{Change, Deletion, IfExists, ObjectRef, Operation};
use crate::jq;
use crate::resource::ResourceFinder;

/// Applies operations with one client.
#[derive(Debug)]
pub(crate) struct Patcher {
    client: Client,
    resources: ResourceFinder,
    /// How long one request may take.
    timeout: Duration,
    clock: Arc<dyn Clock>,
}

/// How often a change is tried again after a conflict, as client-go's default backoff.
const CONFLICT_ATTEMPTS: usize = 4;
/// How often a foreground deletion is checked, and for how long.
const DELETION_POLL: Duration = Duration::from_secs(1);
const DELETION_POLLS: usize = 20;

impl Patcher {
    pub(crate) fn new(
        client: Client,
        resources: ResourceFinder,
        timeout: Duration,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            client: client.with_field_manager("shell-operator"),
            resources,
            timeout,
            clock,
        }
    }

    /// Applies all operations. One that fails does not stop the others; the error has all failures.
    pub(crate) async fn apply_all(&self, operations: &[Operation]) -> Result<(), String> {
        let mut errors = Vec::new();
        for operation in operations {
            if let Err(error) = self.apply(operation).await {
                errors.push(format!("{}: {error}", describe(operation)));
            }
        }
        match errors.is_empty() {
            true => Ok(()),
            false => Err(errors.join("; ")),
        }
    }

    async fn apply(&self, operation: &Operation) -> Result<(), String> {
        match operation {
            Operation::Create { object, if_exists } => self.create(object, *if_exists).await,
            Operation::Delete { target, deletion } => self.delete(target, *deletion).await,
            Operation::Patch {
                target,
                change,
                ignore_missing,
                ..
            } => match self.patch(target, change).await {
                Err(PatchError::Status(status)) if *ignore_missing && status.is_not_found() => Ok(()),
                outcome => outcome.map_err(|error| error.to_string()),
            },
        }
    }

    async fn create(&self, object: &Value, if_exists: IfExists) -> Result<(), String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let target = ObjectRef {
            api_version: text(&object["apiVersion"]),
            kind: text(&object["kind"]),
            namespace: text(&object["metadata"]["namespace"]),
            name: text(&object["metadata"]["name"]),
            subresource: String::new(),
        };
        let api = self.api(&target).await.map_err(|status| status.to_string())?;
        let created = self.timed(api.create(object.to_string())).await;
        let outcome = match (created, if_exists) {
            (Err(status), IfExists::Ignore) if status.is_already_exists() => Ok(()),
            (Err(status), IfExists::Update) if status.is_already_exists() => {
                retry_on_conflict(CONFLICT_ATTEMPTS, || self.replace(&api, &target.name, object)).await
            }
            (created, _) => created.map(drop),
        };
        outcome.map_err(|status| status.to_string())
    }

    /// Replaces an object at its current version.
    async fn replace(&self, api: &DynamicApi, name: &str, object: &Value) -> Result<(), Status> {
        let current = self.timed(api.get(name)).await?;
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = current.resource_version().to_string().into();
        self.timed(api.update(name, object.to_string())).await.map(drop)
    }

    async fn delete(&self, target: &ObjectRef, deletion: Deletion) -> Result<(), String> {
        let api = self.api(target).await.map_err(|status| status.to_string())?;
        let policy = match deletion {
            Deletion::Foreground => DeletionPropagation::Foreground,
            Deletion::Background => DeletionPropagation::Background,
            Deletion::NonCascading => DeletionPropagation::Orphan,
        };
        let options = DeleteOptions {
            propagation_policy: Some(policy),
            ..DeleteOptions::default()
        };
        match self.timed(api.delete(&target.name, options)).await {
            Err(status) if status.is_not_found() => return Ok(()),
            Err(status) => return Err(status.to_string()),
            Ok(_) if deletion != Deletion::Foreground => return Ok(()),
            Ok(_) => {}
        }
        for _ in 0..DELETION_POLLS {
            match self.timed(api.get(&target.name)).await {
                Err(status) if status.is_not_found() => return Ok(()),
                Err(status) => return Err(status.to_string()),
                Ok(_) => self.clock.sleep(DELETION_POLL).await,
            }
        }
        Err(format!("the object still exists after {DELETION_POLLS} seconds"))
    }

    async fn patch(&self, target: &ObjectRef, change: &Change) -> Result<(), PatchError> {
        let api = self.api(target).await?;
        let patch = match change {
            Change::Merge(patch) => Patch::merge(patch)?,
            Change::Json(patch) => Patch::json(patch)?,
            Change::Jq(program) => return self.patch_by_jq(&api, target, program).await,
        };
        let (name, subresource) = (&target.name, &target.subresource);
        match subresource.is_empty() {
            true => self.timed(api.patch(name, &patch)).await?,
            false => {
                self.timed(api.patch_subresource(name, subresource, &patch))
                    .await?
            }
        };
        Ok(())
    }

    /// Replaces the object by the result of a program.
    async fn patch_by_jq(
        &self,
        api: &DynamicApi,
        target: &ObjectRef,
        program: &str,
    ) -> Result<(), PatchError> {
        let filter = jq::Filter::compile(program, self.clock.clone())?;
        let attempt = || async {
            let current = self.timed(api.get(&target.name)).await?;
            let changed = filter
                .apply(current.json())
                .map_err(|error| Status::bad_request(format!("jqFilter: {error}")))?;
            match is_same(&current, &changed) {
                true => Ok(()),
                false => self.update(api, target, changed).await,
            }
        };
        Ok(retry_on_conflict(CONFLICT_ATTEMPTS, attempt).await?)
    }

    async fn update(&self, api: &DynamicApi, target: &ObjectRef, json: String) -> Result<(), Status> {
        let (name, subresource) = (&target.name, &target.subresource);
        let updated = match subresource.is_empty() {
            true => self.timed(api.update(name, json)).await,
            false => self.timed(api.update_subresource(name, subresource, json)).await,
        };
        updated.map(drop)
    }

    async fn api(&self, target: &ObjectRef) -> Result<DynamicApi, Status> {
        let resource = self.resources.find(&target.api_version, &target.kind).await?;
        Ok(self.client.dynamic(resource.gvr, &target.namespace))
    }

    async fn timed<T>(&self, request: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        tokio::select! {
            biased;
            response = request => response,
            () = self.clock.sleep(self.timeout) => {
                Err(Status::timeout(format!("no response within {:?}", self.timeout)))
            }
        }
    }
}

/// Why a change has failed.
#[derive(Debug, thiserror::Error)]
enum PatchError {
    #[error(transparent)]
    Status(Box<Status>),
    #[error(transparent)]
    Jq(#[from] jq::Error),
}

impl From<Status> for PatchError {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

fn is_same(current: &Stored, changed: &str) -> bool {
    let current: Option<Value> = serde_json::from_slice(current.json()).ok();
    current.is_some() && current == serde_json::from_str(changed).ok()
}

fn describe(operation: &Operation) -> String {
    let target = |target: &ObjectRef| {
        let ObjectRef {
            api_version,
            kind,
            namespace,
            name,
            ..
        } = target;
        format!("{api_version}/{kind}/{namespace}/{name}")
    };
    match operation {
        Operation::Create { object, .. } => {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let metadata = &object["metadata"];
            format!(
                "Create object {}/{}/{}/{}",
                text(&object["apiVersion"]),
                text(&object["kind"]),
                text(&metadata["namespace"]),
                text(&metadata["name"])
            )
        }
        Operation::Delete { target: own, .. } => format!("Delete object {}", target(own)),
        Operation::Patch { target: own, .. } => format!("Filter object {}", target(own)),
    }
}
