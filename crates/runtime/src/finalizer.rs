//! Finalizers: cleanup before an object is deleted.
//!
//! A delete request for an object with finalizers only sets its deletionTimestamp; it is deleted once the last finalizer is
//! removed. So a controller adds its finalizer before it creates anything that needs cleanup, and removes it afterwards.

use serde_json::json;
use setpoint_api::Status;
use setpoint_client::metadata::metadata;
use setpoint_client::{Api, Object, Patch, TypedObject};

use crate::reconcile::{Error, Next};

/// The step of a reconcile with a finalizer.
#[derive(Debug)]
pub enum Step<T> {
    /// The object is not being deleted, and has the finalizer.
    Apply(TypedObject<T>),
    /// The object is being deleted. The finalizer is removed after this succeeds.
    CleanUp(TypedObject<T>),
}

/// Runs one step of a reconcile with a finalizer: adds it first, and removes it after a cleanup that returned
/// [`Next::Done`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), setpoint_runtime::Error> {
/// # let cluster = setpoint_testkit::Cluster::start().await;
/// # let maps = cluster.client("me").namespaced::<k8s_openapi::api::core::v1::ConfigMap>("default");
/// # maps.create(&setpoint_testkit::config_map("a", "k", "v")).await?;
/// use setpoint_runtime::Next;
/// use setpoint_runtime::finalizer::{self, Step};
///
/// # let mut cleaned_up = false;
/// # for turn in 0..2 {
/// #     if turn == 1 {
/// #         maps.delete("a", Default::default()).await?;
/// #     }
/// #     let map = maps.get("a").await?;
/// finalizer::guard(&maps, map, "example.com/bucket", async |step| {
///     match step {
///         Step::Apply(_map) => { /* create the bucket */ }
///         Step::CleanUp(_map) => {
///             /* delete the bucket; after this the object is deleted */
///             # cleaned_up = true;
///         }
///     }
///     Ok(Next::Done)
/// })
/// .await?;
/// # }
/// # assert!(cleaned_up && maps.get("a").await.unwrap_err().is_not_found());
/// # Ok(())
/// # }
/// ```
pub async fn guard<T: Object>(
    objects: &Api<T>,
    object: TypedObject<T>,
    finalizer: &str,
    reconcile: impl AsyncFnOnce(Step<T>) -> Result<Next, Error>,
) -> Result<Next, Error> {
    let has_finalizer = contains(&object, finalizer)?;
    match (object.header().deleting, has_finalizer) {
        (false, true) => reconcile(Step::Apply(object)).await,
        (false, false) => {
            let object = add(objects, &object, finalizer).await?;
            reconcile(Step::Apply(object)).await
        }
        (true, true) => {
            let next = reconcile(Step::CleanUp(object.clone())).await?;
            if next == Next::Done {
                remove(objects, &object, finalizer).await?;
            }
            Ok(next)
        }
        // Ours is removed; another controller's finalizer is left.
        (true, false) => Ok(Next::Done),
    }
}

/// Whether the object has the finalizer.
pub fn contains<T: Object>(object: &TypedObject<T>, finalizer: &str) -> Result<bool, Status> {
    let metadata = metadata(object)?;
    let finalizers = metadata.metadata.finalizers.iter().flatten();
    Ok(finalizers.into_iter().any(|own| own == finalizer))
}

/// Adds the finalizer; a conflict if the object has changed since it was read.
pub async fn add<T: Object>(
    objects: &Api<T>,
    object: &TypedObject<T>,
    finalizer: &str,
) -> Result<TypedObject<T>, Status> {
    let mut finalizers = metadata(object)?.metadata.finalizers.clone().unwrap_or_default();
    finalizers.push(finalizer.to_owned());
    write(objects, object, &finalizers).await
}

/// Removes the finalizer. An object that no longer exists is no error.
pub async fn remove<T: Object>(
    objects: &Api<T>,
    object: &TypedObject<T>,
    finalizer: &str,
) -> Result<(), Status> {
    let mut finalizers = metadata(object)?.metadata.finalizers.clone().unwrap_or_default();
    finalizers.retain(|own| own != finalizer);
    match write(objects, object, &finalizers).await {
        Err(status) if status.is_not_found() => Ok(()),
        written => written.map(drop),
    }
}

/// Writes the finalizers with the resource version that was read, so that no concurrent change is overwritten.
async fn write<T: Object>(
    objects: &Api<T>,
    object: &TypedObject<T>,
    finalizers: &[String],
) -> Result<TypedObject<T>, Status> {
    let version = object.resource_version().to_string();
    let patch = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
    objects.patch(object.key().name(), &Patch::merge(&patch)?).await
}
