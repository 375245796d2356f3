//! Conversion of the changes that a watch delivers.
//!
//! A watch converts the changes that it is about to deliver, in order, and reads no more of the cache's window meanwhile.
//! Neither the feed nor another watch waits for that; a watch that falls behind the window ends, as any slow one does.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use setpoint_api::{Change, Status, Stored};
use setpoint_strategy::Kind;

use super::{ConversionResult, Conversions};
use crate::stored_object;

/// How many changes are converted at a time. The initial objects of a watch may be many.
const MAX_CHANGES: usize = 500;

/// The changes of a watch that are not converted yet.
pub(crate) struct UnconvertedChanges {
    converter: Arc<ChangeConverter>,
    queue: VecDeque<Change>,
    /// The first changes, taken from the queue to be converted.
    pending: Option<Pin<Box<dyn Future<Output = ConvertedChanges> + Send>>>,
}

/// Changes in the version of the request, up to the first that could not be converted.
#[derive(Debug, Default)]
pub(crate) struct ConvertedChanges {
    pub(crate) changes: Vec<Change>,
    pub(crate) error: Option<Box<Status>>,
}

#[derive(Debug)]
struct ChangeConverter {
    conversions: Arc<Conversions>,
    kind: Arc<dyn Kind>,
    /// Whether the watch compares the old object of a change with its selectors.
    needs_old: bool,
}

// === impl UnconvertedChanges ===

impl UnconvertedChanges {
    /// The changes of a watch of this kind. `needs_old` is whether its selectors apply to converted objects.
    pub(crate) fn new(conversions: &Arc<Conversions>, kind: &Arc<dyn Kind>, needs_old: bool) -> Self {
        let converter = ChangeConverter {
            conversions: conversions.clone(),
            kind: kind.clone(),
            needs_old,
        };
        Self {
            converter: Arc::new(converter),
            queue: VecDeque::new(),
            pending: None,
        }
    }

    pub(crate) fn push(&mut self, changes: impl Iterator<Item = Change>) {
        self.queue.extend(changes);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.pending.is_none()
    }

    /// The next changes, converted. Must not be called if there are none.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ConvertedChanges> {
        let pending = self.pending.get_or_insert_with(|| {
            let count = self.queue.len().min(MAX_CHANGES);
            let changes: Vec<Change> = self.queue.drain(..count).collect();
            let converter = self.converter.clone();
            Box::pin(async move { converter.convert_changes(changes).await })
        });
        let converted = pending.as_mut().poll(cx);
        if converted.is_ready() {
            self.pending = None;
        }
        converted
    }
}

impl fmt::Debug for UnconvertedChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnconvertedChanges")
            .field("queued", &self.queue.len())
            .field("is_pending", &self.pending.is_some())
            .finish_non_exhaustive()
    }
}

// === impl ChangeConverter ===

impl ChangeConverter {
    async fn convert_changes(&self, changes: Vec<Change>) -> ConvertedChanges {
        let objects: Vec<Arc<Stored>> = changes.iter().flat_map(|change| self.objects(change)).collect();
        let converted = self.conversions.convert_objects(&self.kind, &objects).await;
        let mut results = objects.iter().zip(converted);
        let mut next = || -> Result<Arc<Stored>, Box<Status>> {
            let (object, converted): (&Arc<Stored>, ConversionResult) =
                results.next().expect("there is a result for each object");
            converted.map_err(|error| Box::new(error.into_read_error(self.kind.info(), object)))
        };
        let mut outcome = ConvertedChanges::default();
        for change in changes {
            match self.converted_change(change, &mut next) {
                Ok(change) => outcome.changes.push(change),
                Err(status) => {
                    outcome.error = Some(status);
                    break;
                }
            }
        }
        outcome
    }

    /// The objects of a change that have to be converted.
    fn objects(&self, change: &Change) -> Vec<Arc<Stored>> {
        match change {
            Change::Added(new) => vec![new.clone()],
            Change::Modified { old, new } if self.needs_old => vec![old.clone(), new.clone()],
            Change::Modified { new, .. } => vec![new.clone()],
            // The last state is the old object with another resource version.
            Change::Deleted { old, .. } => vec![old.clone()],
        }
    }

    /// The change with the converted objects, in the order of [`Self::objects`].
    fn converted_change(
        &self,
        change: Change,
        next: &mut impl FnMut() -> Result<Arc<Stored>, Box<Status>>,
    ) -> Result<Change, Box<Status>> {
        Ok(match change {
            Change::Added(_) => Change::Added(next()?),
            Change::Modified { old, .. } => Change::Modified {
                old: if self.needs_old { next()? } else { old },
                new: next()?,
            },
            Change::Deleted { last, .. } => {
                let old = next()?;
                let restamped = stored_object::with_version(&*self.kind, &old, last.resource_version());
                let last = restamped.map_err(|problem| Box::new(Status::internal(problem)))?;
                Change::Deleted { old, last }
            }
        })
    }
}
