//! One ConversionReview: its request, the call of the webhook, and the rules of its response.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use compact_str::CompactString;

use setpoint_api::{Stored, off_worker};
use setpoint_registry_api::WebhookRequest;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::custom::{check_identity, restore_metadata};
use setpoint_strategy::{Kind, WebhookConversion, meta};

use super::cache::{BatchFuture, BatchId, Source};
use super::endpoint::endpoint;
use super::metrics::{CrdLabels, FailureType};
use super::response::{self, ReviewVersion};
use super::{ConversionError, ConversionResult, Conversions};
use crate::large_requests::LARGE_BYTES;

/// How long a webhook may take.
const TIMEOUT: Duration = Duration::from_secs(30);
const TIMEOUT_QUERY: &str = "timeout=30s";

/// The objects of a review, and the version to convert them to.
#[derive(Debug)]
pub(super) struct Request {
    /// Without resource version: what is stored upstream has none.
    objects: Vec<Tree>,
    api_version: CompactString,
    uid: String,
}

/// An error of a whole review, or of one object.
#[derive(Debug)]
struct Failure {
    failure_type: FailureType,
    message: String,
}

impl Request {
    pub(super) fn new(mut objects: Vec<Tree>, api_version: &str) -> Self {
        for object in &mut objects {
            meta::clear(object, fields::RESOURCE_VERSION);
        }
        Self {
            objects,
            api_version: api_version.into(),
            uid: uuid::Uuid::new_v4().to_string(),
        }
    }

    /// The review in JSON, with the empty response that Kubernetes sends along.
    fn body(&self, version: ReviewVersion) -> Bytes {
        let mut body = format!(
            r#"{{"kind":"ConversionReview","apiVersion":"{}","request":{{"uid":"{}","desiredAPIVersion":"{}","objects":["#,
            version.api_version(),
            self.uid,
            self.api_version
        )
        .into_bytes();
        for (index, object) in self.objects.iter().enumerate() {
            if index > 0 {
                body.push(b',');
            }
            setpoint_schema::write::write_tree(object, &mut body);
        }
        body.extend_from_slice(
            br#"]},"response":{"uid":"","convertedObjects":null,"result":{"metadata":{}}}}"#,
        );
        Bytes::from(body)
    }

    /// `example.com/v1, Kind=Foo`: what the errors of the whole review name.
    fn source(&self) -> String {
        self.objects.first().map(type_text).unwrap_or_default()
    }
}

/// Converts the objects of a batch, and records them for later readers.
pub(super) fn convert_batch(
    conversions: Arc<Conversions>,
    kind: Arc<dyn Kind>,
    (id, objects, sources): (BatchId, Vec<Arc<Stored>>, Vec<Source>),
) -> BatchFuture {
    let guard = BatchGuard {
        conversions,
        id,
        sources,
        is_done: false,
    };
    Box::pin(async move {
        let mut guard = guard;
        let results = convert_stored(&guard.conversions, &kind, &objects).await;
        guard
            .conversions
            .objects
            .finish(guard.id, &guard.sources, &results);
        guard.is_done = true;
        results.into()
    })
}

/// Removes a batch that is dropped before it is done, since none of its readers is left.
struct BatchGuard {
    conversions: Arc<Conversions>,
    id: BatchId,
    sources: Vec<Source>,
    is_done: bool,
}

impl Drop for BatchGuard {
    fn drop(&mut self) {
        if !self.is_done {
            self.conversions.objects.abandon(self.id, &self.sources);
        }
    }
}

/// Converts stored objects in one review.
async fn convert_stored(
    conversions: &Conversions,
    kind: &Arc<dyn Kind>,
    objects: &[Arc<Stored>],
) -> Vec<ConversionResult> {
    let conversion = kind.webhook_conversion();
    let conversion = conversion.expect("only a kind with a webhook has batches");
    let bytes: usize = objects.iter().map(|object| object.json().len()).sum();
    let mut trees = Vec::with_capacity(objects.len());
    let mut unreadable: Vec<Option<ConversionError>> = Vec::with_capacity(objects.len());
    let decode = || {
        for object in objects {
            match decode(conversion, object) {
                Ok(tree) => {
                    trees.push(tree);
                    unreadable.push(None);
                }
                Err(error) => unreadable.push(Some(error)),
            }
        }
    };
    compute(bytes, decode);
    let request = Request::new(trees, &kind.info().gvk.api_version());
    let mut converted = send(conversions, conversion, request).await.into_iter();
    let mut encode = |(object, unreadable): (&Arc<Stored>, Option<ConversionError>)| match unreadable {
        Some(error) => Err(error),
        None => {
            let tree = converted.next().expect("there is a result for each object")?;
            let encoded = conversion.encode_converted(tree, object);
            encoded.map_err(|problem| ConversionError::new(problem.to_string()))
        }
    };
    compute(bytes, || {
        objects.iter().zip(unreadable).map(&mut encode).collect()
    })
}

/// Decodes a stored object in its own version, which must be one of the CRD.
fn decode(conversion: &dyn WebhookConversion, object: &Stored) -> Result<Tree, ConversionError> {
    let tree = conversion.decode_unconverted(object);
    let tree = tree.map_err(|problem| ConversionError::new(problem.to_string()))?;
    let api_version = tree.str_at(&[fields::API_VERSION]).unwrap_or_default();
    match conversion.has_version(api_version) {
        true => Ok(tree),
        false => Err(ConversionError::new(format!(
            "request to convert CR from an invalid group/version: {api_version}"
        ))),
    }
}

/// Sends a review and returns a result for each of its objects.
pub(super) async fn send(
    conversions: &Conversions,
    conversion: &dyn WebhookConversion,
    request: Request,
) -> Vec<Result<Tree, ConversionError>> {
    if request.objects.is_empty() {
        return Vec::new();
    }
    let count = request.objects.len();
    let webhook = conversion.webhook();
    let Some(version) = ReviewVersion::best_of(&webhook.review_versions) else {
        let error = ConversionError::new("no supported conversion review versions");
        return vec![Err(error); count];
    };
    let start = conversions.clock.now();
    let labels = CrdLabels {
        crd_name: webhook.crd_name.clone(),
        from_version: version_of(
            request.objects[0]
                .str_at(&[fields::API_VERSION])
                .unwrap_or_default(),
        ),
        to_version: version_of(&request.api_version),
        succeeded: false,
    };
    let outcome = call(conversions, conversion, version, request).await;
    let failure = match &outcome {
        Err(failure) => Some(failure.failure_type),
        Ok(results) => results
            .iter()
            .any(Result::is_err)
            .then_some(FailureType::InvalidConvertedObject),
    };
    let took = conversions.clock.now().duration_since(start).unsigned_abs();
    let succeeded = failure.is_none();
    let labels = CrdLabels { succeeded, ..labels };
    conversions.metrics.observe(labels, failure, took);
    outcome.unwrap_or_else(|failure| vec![Err(ConversionError::new(failure.message)); count])
}

/// Calls the webhook and checks its response.
async fn call(
    conversions: &Conversions,
    conversion: &dyn WebhookConversion,
    version: ReviewVersion,
    request: Request,
) -> Result<Vec<Result<Tree, ConversionError>>, Failure> {
    let source = request.source();
    let failed = |failure_type, message: &str| Failure {
        failure_type,
        message: format!("conversion webhook for {source} failed: {message}"),
    };
    let body = request.body(version);
    let endpoint = endpoint(&conversion.webhook().client_config);
    let post = WebhookRequest {
        body,
        query: TIMEOUT_QUERY.to_owned(),
        timeout: TIMEOUT,
    };
    let response = conversions.client.post(&endpoint, post).await;
    let response = response.map_err(|error| failed(FailureType::Call, &error.message))?;
    let check = || {
        let review =
            response::decode(&response, version).map_err(|message| failed(FailureType::Call, &message))?;
        let objects = response::converted_objects(review, version, &request.uid)
            .map_err(|message| failed(FailureType::MalformedResponse, &message))?;
        let (found, expected) = (objects.len(), request.objects.len());
        if found != expected {
            return Err(Failure {
                failure_type: FailureType::PartialResponse,
                message: format!(
                    "conversion webhook for {source} returned {found} objects, expected {expected}"
                ),
            });
        }
        let pairs = request.objects.iter().zip(objects);
        let checked = pairs.map(|(original, converted)| {
            let checked = check_object(conversion, original, converted, &request.api_version);
            checked.map_err(ConversionError::new)
        });
        Ok(checked.collect())
    };
    compute(response.len(), check)
}

/// Checks a converted object and completes it: with the metadata of the original, and without unknown fields.
fn check_object(
    conversion: &dyn WebhookConversion,
    original: &Tree,
    mut converted: Tree,
    api_version: &str,
) -> Result<Tree, String> {
    response::check_type(&converted)?;
    let returned = |what: &str, why: &str| {
        let source = type_text(original);
        format!("conversion webhook for {source} returned invalid {what}: {why}")
    };
    let text = |tree: &Tree, field: &str| tree.str_at(&[field]).unwrap_or_default().to_owned();
    for (field, word, expected) in [
        (fields::API_VERSION, "groupVersion", api_version.to_owned()),
        (fields::KIND, "kind", text(original, fields::KIND)),
    ] {
        let found = text(&converted, field);
        if found != expected {
            let why = format!("invalid {word} (expected {expected}, received {found})");
            return Err(returned("object at index 0", &why));
        }
    }
    check_identity(original, &converted).map_err(|why| returned("object", &why))?;
    restore_metadata(original, &mut converted).map_err(|why| returned("metadata", &why))?;
    let completed = conversion.complete(&mut converted);
    completed.map_err(|problem| problem.to_string())?;
    Ok(converted)
}

/// Runs a computation, off the worker threads if its input is large.
fn compute<T>(bytes: usize, compute: impl FnOnce() -> T) -> T {
    match bytes > LARGE_BYTES {
        true => off_worker(compute),
        false => compute(),
    }
}

/// `example.com/v1, Kind=Foo`.
fn type_text(object: &Tree) -> String {
    let text = |field: &str| object.str_at(&[field]).unwrap_or_default();
    format!("{}, Kind={}", text(fields::API_VERSION), text(fields::KIND))
}

/// The version of an `apiVersion`.
fn version_of(api_version: &str) -> CompactString {
    let version = api_version.rsplit_once('/').map(|(_, version)| version);
    version.unwrap_or(api_version).into()
}
