//! Takes away objects of one kind when their time is over: what becomes of requests, of tokens and of finished Jobs.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Clock, Key, Stored};
use setpoint_runtime::{Client, Context, Error, Lister, Next, Object, Reconcile};

use crate::moments;

/// The reconciler. Its keys are those of the objects.
pub(crate) struct Expiry<T> {
    objects: Lister<T>,
    client: Client,
    clock: Arc<dyn Clock>,
    end: End,
    options: fn(&Stored) -> DeleteOptions,
}

/// When an object goes; nothing if it stays.
pub(crate) type End = fn(&Stored) -> Result<Option<Timestamp>, Error>;

impl<T: Object> Expiry<T> {
    /// Each object goes at its end.
    pub(crate) fn new(context: &Context, end: End) -> Result<Self, Error> {
        Ok(Self {
            objects: context.lister()?,
            client: context.client.clone(),
            clock: context.clock.clone(),
            end,
            options: |object| DeleteOptions::of_uid(object.uid()),
        })
    }

    /// The same, which asks for more than that this very object goes.
    pub(crate) fn with_options(self, options: fn(&Stored) -> DeleteOptions) -> Self {
        Self { options, ..self }
    }
}

impl<T: Object> Reconcile for Expiry<T> {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(object) = self.objects.find(key).filter(|own| !own.header().deleting) else {
            return Ok(Next::Done);
        };
        let Some(end) = (self.end)(&object)? else {
            return Ok(Next::Done);
        };
        if let Some(left) = moments::until(self.clock.now(), end) {
            return Ok(Next::After(left));
        }
        let handle = self.client.dynamic(T::resource(), key.namespace());
        match handle.delete(key.name(), (self.options)(&object)).await {
            // It is another by now, or another than it was: that wakes this one again.
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
