//! Making an object be as one wants it, whether it is there or not.

use setpoint_api::Status;
use setpoint_client::{Handle, Object, Typed};

/// What had to be done.
#[derive(Debug)]
pub enum Ensured<T> {
    /// It was not there.
    Created(Typed<T>),
    /// It was different.
    Updated(Typed<T>),
    /// It was so already; nothing was written.
    Unchanged(Typed<T>),
}

/// Reads the object of this name and changes what `change` changes; if it is not there, makes what `change` makes of
/// `blank`. Nothing is written if nothing is different.
///
/// A conflict is handed on: the caller's next try reads anew.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), setpoint_api::Status> {
/// # let cluster = setpoint_testkit::Cluster::start().await;
/// # let maps = cluster.client("me").namespaced::<k8s_openapi::api::core::v1::ConfigMap>("default");
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use setpoint_runtime::create_or_update;
/// use setpoint_runtime::ensure::Ensured;
///
/// let wanted = |map: &mut ConfigMap| map.data = Some([("color".to_owned(), "blue".to_owned())].into());
/// let first = create_or_update(&maps, "paint", ConfigMap::default(), wanted).await?;
/// assert!(matches!(first, Ensured::Created(_)));
/// let second = create_or_update(&maps, "paint", ConfigMap::default(), wanted).await?;
/// assert!(matches!(second, Ensured::Unchanged(_)));
/// # Ok(())
/// # }
/// ```
pub async fn create_or_update<T: Object>(
    objects: &Handle<T>,
    name: &str,
    blank: T,
    change: impl FnOnce(&mut T),
) -> Result<Ensured<T>, Status> {
    let found = match objects.get(name).await {
        Ok(found) => found,
        Err(status) if status.is_not_found() => {
            let mut new = blank;
            change(&mut new);
            new.meta_mut().name.get_or_insert_with(|| name.to_owned());
            return objects.create(&new).await.map(Ensured::Created);
        }
        Err(status) => return Err(status),
    };
    let mut wanted = found.to_owned()?;
    let before = encoded(&wanted)?;
    change(&mut wanted);
    match encoded(&wanted)? == before {
        true => Ok(Ensured::Unchanged(found)),
        false => objects.update(&wanted).await.map(Ensured::Updated),
    }
}

impl<T> Ensured<T> {
    /// The object as it is now.
    pub fn into_object(self) -> Typed<T> {
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
    serde_json::to_vec(object)
        .map_err(|error| Status::bad_request(format!("cannot encode the object: {error}")))
}
