//! Conversion of custom objects by the webhooks of their CRDs (upstream: apiextensions' `webhookConverter`).
//!
//! Kinds may not await, so the registry converts around them: an object is converted to the version of the request
//! before a function of its kind reads it, and to the storage version before it is encoded. Kinds without a webhook take
//! none of these paths.
//!
//! A stored object is converted once for all readers: `cache` holds what was converted lately and what is being
//! converted now. Objects that are read together are converted in one ConversionReview, up to a limit.
//!
//! Start reading at [`Conversions::convert_objects`], then `review` for the rules of a response.

mod cache;
mod endpoint;
mod error;
mod list;
mod managed_fields;
mod metrics;
mod request;
mod response;
mod review;
mod watch;

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream;

use setpoint_api::{Clock, Stored, off_worker};
use setpoint_registry_api::WebhookClient;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::{Kind, WebhookConversion};

use crate::large_requests::LARGE_BYTES;
use cache::{Batch, ConvertedObjects, Lookup};
use metrics::ConversionMetrics;

pub(crate) use error::ConversionError;
pub(crate) use list::{CONVERTED_OBJECTS, convert_listed, selects_converted};
pub(crate) use managed_fields::ManagerVersions;
pub(crate) use request::response;
pub(crate) use watch::UnconvertedChanges;

/// How many reviews of one list are in progress at a time.
const MAX_CONCURRENT_REVIEWS: usize = 4;

/// The conversion webhooks of a server.
#[derive(Debug)]
pub(crate) struct Conversions {
    client: Arc<dyn WebhookClient>,
    clock: Arc<dyn Clock>,
    objects: ConvertedObjects,
    pub(crate) metrics: ConversionMetrics,
}

/// The result of converting one object.
type ConversionResult = Result<Arc<Stored>, ConversionError>;

impl Conversions {
    pub(crate) fn new(client: Arc<dyn WebhookClient>, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            client,
            clock,
            objects: ConvertedObjects::default(),
            metrics: ConversionMetrics::default(),
        })
    }

    /// Converts stored objects to the version of a kind. The results have the order of the objects.
    ///
    /// An object that is stored in that version only gets the defaults of its schema. Of the others those that no reader
    /// has converted yet are sent to the webhook, several in one review.
    pub(crate) async fn convert_objects(
        self: &Arc<Self>,
        kind: &Arc<dyn Kind>,
        objects: &[Arc<Stored>],
    ) -> Vec<ConversionResult> {
        let lookups = self.look_up(kind, objects);
        let batches: Vec<Batch> = cache::distinct_batches(&lookups);
        let mut reviews = stream::iter(batches).buffer_unordered(MAX_CONCURRENT_REVIEWS);
        while reviews.next().await.is_some() {}
        drop(reviews);
        let mut converted = Vec::with_capacity(lookups.len());
        for lookup in lookups {
            converted.push(match lookup {
                Lookup::Done(result) => result,
                Lookup::Pending(batch, index) => batch.await[index].clone(),
            });
        }
        converted
    }

    /// The converted objects that are known, and the batches in which the others are being converted.
    fn look_up(self: &Arc<Self>, kind: &Arc<dyn Kind>, objects: &[Arc<Stored>]) -> Vec<Lookup> {
        let Some(conversion) = kind.webhook_conversion() else {
            let completed = objects.iter().map(|object| complete(kind, object));
            return completed.map(Lookup::Done).collect();
        };
        let api_version = kind.info().gvk.api_version();
        let bytes: usize = objects.iter().map(|object| object.json().len()).sum();
        let look_up = || {
            let source = |object: &Arc<Stored>| -> Result<_, ConversionResult> {
                match conversion.is_other_version(object) {
                    true => Ok(cache::Source::new(conversion.webhook(), &api_version, object)),
                    false => Err(complete(kind, object)),
                }
            };
            let start = |id, batch: Vec<Arc<Stored>>, sources| {
                review::convert_batch(self.clone(), kind.clone(), (id, batch, sources))
            };
            self.objects.look_up(objects, source, start)
        };
        match bytes > LARGE_BYTES {
            true => off_worker(look_up),
            false => look_up(),
        }
    }

    /// Converts one object that is not stored: of a request, to be stored or to be compared with.
    pub(crate) async fn convert_tree(
        &self,
        conversion: &dyn WebhookConversion,
        tree: &Tree,
        api_version: &str,
    ) -> Result<Tree, ConversionError> {
        if tree.get(fields::METADATA).is_none() {
            let mut empty = tree.clone();
            empty.set(&[fields::API_VERSION], api_version);
            return Ok(empty);
        }
        let request = review::Request::new(vec![tree.clone()], api_version);
        let mut converted = review::send(self, conversion, request).await;
        converted.pop().expect("there is a result for each object")
    }
}

/// An object that the kind itself can convert, such as one that is stored in its version.
fn complete(kind: &Arc<dyn Kind>, object: &Arc<Stored>) -> ConversionResult {
    let completed = kind.to_request_version(object);
    completed.map_err(|problem| ConversionError::new(problem.to_string()))
}
