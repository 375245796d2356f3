//! Finalizers: doing something before an object goes.
//!
//! An object with a finalizer is only marked when it is deleted; it goes once the last finalizer is taken off. So the
//! name goes on before anything is made that needs cleaning up, and comes off after it is cleaned up.

use serde_json::json;
use setpoint_api::Status;
use setpoint_client::metadata::metadata;
use setpoint_client::{Handle, Object, Patch, Typed};

use crate::reconcile::{Error, Next};

/// What is to be done for an object with a finalizer.
#[derive(Debug)]
pub enum Step<T> {
    /// The object is there to stay, and the finalizer is on it.
    Apply(Typed<T>),
    /// The object is about to go. When this ends well, it does.
    CleanUp(Typed<T>),
}

/// Runs one step of a reconcile with the finalizer on: puts it on first, and takes it off after a clean-up that ended
/// with [`Next::Done`].
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
///         Step::Apply(_map) => { /* make the bucket */ }
///         Step::CleanUp(_map) => {
///             /* remove the bucket; after this the object goes */
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
    objects: &Handle<T>,
    object: Typed<T>,
    finalizer: &str,
    reconcile: impl AsyncFnOnce(Step<T>) -> Result<Next, Error>,
) -> Result<Next, Error> {
    let is_on = is_on(&object, finalizer)?;
    match (object.header().deleting, is_on) {
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
        // Somebody else's clean-up is under way; ours is done.
        (true, false) => Ok(Next::Done),
    }
}

/// Whether the finalizer is on the object.
pub fn is_on<T: Object>(object: &Typed<T>, finalizer: &str) -> Result<bool, Status> {
    let metadata = metadata(object)?;
    let finalizers = metadata.metadata.finalizers.iter().flatten();
    Ok(finalizers.into_iter().any(|own| own == finalizer))
}

/// Puts the finalizer on; a conflict if the object has changed since it was read.
pub async fn add<T: Object>(
    objects: &Handle<T>,
    object: &Typed<T>,
    finalizer: &str,
) -> Result<Typed<T>, Status> {
    let mut finalizers = metadata(object)?.metadata.finalizers.clone().unwrap_or_default();
    finalizers.push(finalizer.to_owned());
    write(objects, object, &finalizers).await
}

/// Takes the finalizer off. An object that is gone needs none.
pub async fn remove<T: Object>(
    objects: &Handle<T>,
    object: &Typed<T>,
    finalizer: &str,
) -> Result<(), Status> {
    let mut finalizers = metadata(object)?.metadata.finalizers.clone().unwrap_or_default();
    finalizers.retain(|own| own != finalizer);
    match write(objects, object, &finalizers).await {
        Err(status) if status.is_not_found() => Ok(()),
        written => written.map(drop),
    }
}

/// The version that was read goes along, so nobody's change is overwritten.
async fn write<T: Object>(
    objects: &Handle<T>,
    object: &Typed<T>,
    finalizers: &[String],
) -> Result<Typed<T>, Status> {
    let version = object.resource_version().to_string();
    let document = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
    objects
        .patch(object.key().name(), &Patch::merge(&document)?)
        .await
}
