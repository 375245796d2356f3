//! [`create_or_update`]: brings an object to the desired state, whether it exists or not.

use setpoint_api::Status;
use setpoint_client::{Api, Object, TypedObject};

/// The result of [`create_or_update`] (controller-runtime's `OperationResult`).
#[derive(Debug)]
pub enum OperationResult<T> {
    /// It did not exist.
    Created(TypedObject<T>),
    /// It was different.
    Updated(TypedObject<T>),
    /// It was in the desired state already; nothing was written.
    Unchanged(TypedObject<T>),
}

/// Reads the object of this name and changes what `change` changes; if it is not there, makes what `change` makes of
/// `default`. Nothing is written if nothing is different.
///
/// A conflict is returned: the caller's next try reads the object again.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), setpoint_api::Status> {
/// # let cluster = setpoint_testkit::Cluster::start().await;
/// # let maps = cluster.client("me").namespaced::<k8s_openapi::api::core::v1::ConfigMap>("default");
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use setpoint_runtime::create_or_update;
/// use setpoint_runtime::create_or_update::OperationResult;
///
/// let desired = |map: &mut ConfigMap| map.data = Some([("color".to_owned(), "blue".to_owned())].into());
/// let first = create_or_update(&maps, "paint", ConfigMap::default(), desired).await?;
/// assert!(matches!(first, OperationResult::Created(_)));
/// let second = create_or_update(&maps, "paint", ConfigMap::default(), desired).await?;
/// assert!(matches!(second, OperationResult::Unchanged(_)));
/// # Ok(())
/// # }
/// ```
pub async fn create_or_update<T: Object>(
    objects: &Api<T>,
    name: &str,
    default: T,
    change: impl FnOnce(&mut T),
) -> Result<OperationResult<T>, Status> {
    let existing = match objects.get(name).await {
        Ok(existing) => existing,
        Err(status) if status.is_not_found() => {
            let mut new = default;
            change(&mut new);
            new.meta_mut().name.get_or_insert_with(|| name.to_owned());
            return objects.create(&new).await.map(OperationResult::Created);
        }
        Err(status) => return Err(status),
    };
    let mut desired = existing.to_owned()?;
    let before = encoded(&desired)?;
    change(&mut desired);
    match encoded(&desired)? == before {
        true => Ok(OperationResult::Unchanged(existing)),
        false => objects.update(&desired).await.map(OperationResult::Updated),
    }
}

impl<T> OperationResult<T> {
    /// The resulting object.
    pub fn into_object(self) -> TypedObject<T> {
        match self {
            Self::Created(object) | Self::Updated(object) | Self::Unchanged(object) => object,
        }
    }

    /// Whether anything was written.
    pub fn is_change(&self) -> bool {
        !matches!(self, Self::Unchanged(_))
    }
}

fn encoded<T: Object>(object: &T) -> Result<Vec<u8>, Status> {
    setpoint_api::json::to_vec(object)
        .map_err(|error| Status::bad_request(format!("cannot encode the object: {error}")))
}
