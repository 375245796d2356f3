//! Deletes objects of one kind when they expire: certificate requests, bootstrap tokens and finished Jobs.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Clock, Key, Stored};
use setpoint_runtime::{Client, Context, Error, Lister, Next, Object, Reconcile};

use crate::api_time;

/// The reconciler. Its keys are those of the objects.
pub(crate) struct Expiry<T> {
    objects: Lister<T>,
    clock: Arc<dyn Clock>,
    end: End,
    options: fn(&Stored) -> DeleteOptions,
}

/// When an object expires; `None` if it never does.
pub(crate) type End = fn(&Stored) -> Result<Option<Timestamp>, Error>;

impl<T: Object> Expiry<T> {
    /// Deletes each object at its expiration.
    pub(crate) fn new(context: &Context, end: End) -> Result<Self, Error> {
        Ok(Self {
            objects: context.lister()?,
            clock: context.clock.clone(),
            end,
            options: |object| DeleteOptions::with_uid(object.uid()),
        })
    }

    /// The same with other delete options than the uid precondition.
    pub(crate) fn with_options(self, options: fn(&Stored) -> DeleteOptions) -> Self {
        Self { options, ..self }
    }
}

impl<T: Object> Reconcile for Expiry<T> {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(object) = self.objects.find(key).filter(|own| !own.header().deleting) else {
            return Ok(Next::Done);
        };
        let Some(end) = (self.end)(&object)? else {
            return Ok(Next::Done);
        };
        if let Some(left) = api_time::duration_until(self.clock.now(), end) {
            return Ok(Next::After(left));
        }
        let handle = client.dynamic(T::resource(), key.namespace());
        match handle.delete(key.name(), (self.options)(&object)).await {
            // The object was replaced or changed, and that event enqueues the key again.
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(Next::Done),
            deleted => Ok(deleted.map(|_| Next::Done)?),
        }
    }
}

impl<T> fmt::Debug for Expiry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expiry").finish_non_exhaustive()
    }
}
