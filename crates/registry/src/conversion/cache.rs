//! [`ConvertedObjects`]: objects that were converted lately, and the reviews in progress.
//!
//! An object is found by its stored bytes, which have its uid and its resource version. So every reader of one version
//! shares one conversion, be it a watch, a list or a get. A reader that finds the object in a review that is in progress
//! waits for that review; the first reader that waits polls it, and if all of them go away it is dropped.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use compact_str::CompactString;
use futures_util::FutureExt;
use futures_util::future::{Shared, WeakShared};
use parking_lot::Mutex;

use setpoint_api::Stored;
use setpoint_strategy::ConversionWebhook;

use super::ConversionResult;

/// The bytes of the objects that are kept, before and after their conversion.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// What an entry costs besides these bytes.
const ENTRY_OVERHEAD_BYTES: usize = 512;

/// The limits of one review. A list of more objects needs several.
const MAX_REVIEW_OBJECTS: usize = 500;
const MAX_REVIEW_BYTES: usize = 2 * 1024 * 1024;

/// A review in progress, with a result for each of its objects. It never changes once it is done.
pub(super) type Batch = Shared<BatchFuture>;
pub(super) type BatchFuture = Pin<Box<dyn Future<Output = Arc<[ConversionResult]>> + Send>>;

/// Identifies a batch.
pub(super) type BatchId = u64;

/// The converted objects of all custom kinds.
#[derive(Debug, Default)]
pub(super) struct ConvertedObjects {
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    by_source: HashMap<Source, Entry>,
    /// The converted objects, oldest first.
    order: VecDeque<Source>,
    bytes: usize,
    next_batch: BatchId,
}

enum Entry {
    /// The object is the one at this index of a review that is in progress.
    Pending {
        id: BatchId,
        batch: WeakShared<BatchFuture>,
        index: usize,
    },
    Converted(Arc<Stored>),
}

/// What a converted object is computed from: the stored bytes, the version, and the webhook as its CRD configures it.
#[derive(Debug, Clone)]
pub(super) struct Source {
    webhook: Arc<ConversionWebhook>,
    api_version: CompactString,
    json: Bytes,
}

/// What is known about the conversion of an object.
pub(super) enum Lookup {
    Done(ConversionResult),
    /// The object at this index of a batch.
    Pending(Batch, usize),
}

/// The batches that have to be waited for, each once.
pub(super) fn distinct_batches(lookups: &[Lookup]) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for lookup in lookups {
        if let Lookup::Pending(batch, _) = lookup
            && !batches.iter().any(|known| known.ptr_eq(batch))
        {
            batches.push(batch.clone());
        }
    }
    batches
}

// === impl ConvertedObjects ===

impl ConvertedObjects {
    /// Looks objects up by their sources; for an object that needs no webhook `source` returns the result instead.
    /// `start` begins the review of objects that are neither converted nor being converted.
    pub(super) fn look_up(
        &self,
        objects: &[Arc<Stored>],
        source: impl Fn(&Arc<Stored>) -> Result<Source, ConversionResult>,
        start: impl Fn(BatchId, Vec<Arc<Stored>>, Vec<Source>) -> BatchFuture,
    ) -> Vec<Lookup> {
        let sources: Vec<Result<Source, ConversionResult>> = objects.iter().map(source).collect();
        let mut entries = self.entries.lock();
        let mut review = NextReview::default();
        // A batch that is found here must not be dropped while the lock is held: dropping it takes the lock.
        let mut found: Vec<Option<Lookup>> = Vec::with_capacity(objects.len());
        for (object, source) in objects.iter().zip(&sources) {
            found.push(match source {
                Err(done) => Some(Lookup::Done(done.clone())),
                Ok(source) => entries.find(source),
            });
            if let (Some(None), Ok(source)) = (found.last(), source)
                && review.add(object, source)
            {
                entries.start(&mut review, &start);
            }
        }
        entries.start(&mut review, &start);
        let lookups = sources.iter().zip(found).map(|(source, found)| match source {
            Ok(source) => found.or_else(|| entries.find(source)),
            Err(_) => found,
        });
        let lookups = lookups.map(|lookup| lookup.expect("the review of what is missing was just started"));
        lookups.collect()
    }

    /// Records the results of a batch.
    pub(super) fn finish(&self, id: BatchId, sources: &[Source], results: &[ConversionResult]) {
        let mut entries = self.entries.lock();
        for (source, result) in sources.iter().zip(results) {
            entries.remove_pending(id, source);
            if let Ok(object) = result {
                entries.insert(source, object.clone());
            }
        }
    }

    /// Forgets a batch that was dropped before it was done.
    pub(super) fn abandon(&self, id: BatchId, sources: &[Source]) {
        let mut entries = self.entries.lock();
        for source in sources {
            entries.remove_pending(id, source);
        }
    }
}

// === impl Entries ===

impl Entries {
    fn find(&self, source: &Source) -> Option<Lookup> {
        match self.by_source.get(source)? {
            Entry::Converted(object) => Some(Lookup::Done(Ok(object.clone()))),
            Entry::Pending { batch, index, .. } => Some(Lookup::Pending(batch.upgrade()?, *index)),
        }
    }

    /// Starts the review of the missing objects. The batches are kept until the lookups hold them.
    fn start(
        &mut self,
        review: &mut NextReview,
        start: impl Fn(BatchId, Vec<Arc<Stored>>, Vec<Source>) -> BatchFuture,
    ) {
        if review.objects.is_empty() {
            return;
        }
        let id = self.next_batch;
        self.next_batch += 1;
        let (objects, sources) = review.take();
        let batch = start(id, objects, sources.clone()).shared();
        for (index, source) in sources.into_iter().enumerate() {
            let batch = batch.downgrade().expect("the batch has not been polled");
            let entry = Entry::Pending { id, batch, index };
            self.by_source.insert(source, entry);
        }
        review.started.push(batch);
    }

    fn remove_pending(&mut self, id: BatchId, source: &Source) {
        let entry = self.by_source.get(source);
        if matches!(entry, Some(Entry::Pending { id: own, .. }) if *own == id) {
            self.by_source.remove(source);
        }
    }

    fn insert(&mut self, source: &Source, object: Arc<Stored>) {
        self.bytes += weight(source, &object);
        self.order.push_back(source.clone());
        self.by_source.insert(source.clone(), Entry::Converted(object));
        while self.bytes > MAX_BYTES {
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            if let Some(Entry::Converted(object)) = self.by_source.remove(&oldest) {
                self.bytes -= weight(&oldest, &object);
            }
        }
    }
}

fn weight(source: &Source, object: &Stored) -> usize {
    source.json.len() + object.json().len() + ENTRY_OVERHEAD_BYTES
}

/// The objects of the next review.
#[derive(Default)]
struct NextReview {
    objects: Vec<Arc<Stored>>,
    sources: Vec<Source>,
    bytes: usize,
    started: Vec<Batch>,
}

impl NextReview {
    /// Adds an object once. Returns whether the review has as many objects as it may have.
    fn add(&mut self, object: &Arc<Stored>, source: &Source) -> bool {
        if self.sources.contains(source) {
            return false;
        }
        self.bytes += source.json.len();
        self.objects.push(object.clone());
        self.sources.push(source.clone());
        self.objects.len() >= MAX_REVIEW_OBJECTS || self.bytes >= MAX_REVIEW_BYTES
    }

    fn take(&mut self) -> (Vec<Arc<Stored>>, Vec<Source>) {
        self.bytes = 0;
        (
            std::mem::take(&mut self.objects),
            std::mem::take(&mut self.sources),
        )
    }
}

// === impl Source ===

impl Source {
    pub(super) fn new(webhook: &Arc<ConversionWebhook>, api_version: &str, object: &Stored) -> Self {
        Self {
            webhook: webhook.clone(),
            api_version: api_version.into(),
            json: object.json().clone(),
        }
    }
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.webhook, &other.webhook)
            && self.api_version == other.api_version
            && self.json == other.json
    }
}

impl Eq for Source {}

impl Hash for Source {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.webhook).hash(state);
        self.api_version.hash(state);
        self.json.hash(state);
    }
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entries")
            .field("entries", &self.by_source.len())
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}
