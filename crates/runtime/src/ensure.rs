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
