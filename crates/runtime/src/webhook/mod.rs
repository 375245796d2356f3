//! Webhooks: what a server asks a controller's author before it writes an object, or when it shows one in another version.
//!
//! [`Webhooks`] answers reviews over HTTPS, each kind of question under a path of its own; `setpoint-manifests` prints the
//! configuration that makes a server ask. The room knows reviews and nothing of what is judged: a typed object goes to the
//! author's function, and what comes of it goes back.
//!
//! Start reading at [`Webhooks`], then `review`.

mod certificate;
mod difference;
mod review;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use serde_json::Value;
use setpoint_api::{Clock, Status};
use setpoint_client::Object;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::accept;
use crate::reconcile::Error;
use review::{Admission, Conversion, Passed, Review};

pub use certificate::{BadCertificate, Certificate};
pub use review::{Asked, Operation};

/// The webhooks of one program.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use setpoint_api::Status;
/// use setpoint_runtime::webhook::Webhooks;
///
/// let hooks = Webhooks::new()
///     .validates::<ConfigMap, _>("/validate", |asked| async move {
///         match asked.object {
///             Some(map) if map.data.is_none() => Err(Status::bad_request("an empty map is of no use")),
///             _ => Ok(Vec::new()),
///         }
///     })
///     .mutates::<ConfigMap, _>("/defaults", |asked| async move {
///         let mut map = asked.object.unwrap_or_default();
///         map.immutable.get_or_insert(true);
///         Ok(map)
///     });
/// // manager.add("webhooks", |context, stop| hooks.run(listener, Certificate::files("tls.crt", "tls.key"), context.clock, stop));
/// # let _ = hooks;
/// ```
#[derive(Default)]
pub struct Webhooks {
    hooks: BTreeMap<String, Hook>,
}

type Hook = Box<dyn Fn(Bytes) -> Answering + Send + Sync>;
type Answering = Pin<Box<dyn Future<Output = Result<Vec<u8>, String>> + Send>>;

/// Larger questions are refused; the server takes none larger, either, with room for the old object beside the new.
const MAX_BYTES: usize = 8 << 20;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

// === impl Webhooks ===

impl Webhooks {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Judges writes of a `T` that are reviewed under this path: lets them pass, with warnings or without, or refuses them
    /// with the status that their maker is to see.
    #[must_use]
    pub fn validates<T, F>(
        self,
        path: &str,
        judge: impl Fn(Asked<T>) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        T: Object,
        F: Future<Output = Result<Vec<String>, Status>> + Send,
    {
        self.admits(path, move |admission| {
            let judge = judge.clone();
            Box::pin(async move {
                let warnings = judge(admission.read()?).await?;
                Ok(Passed {
                    warnings,
                    changed: None,
                })
            })
        })
    }

    /// Changes objects of type `T` before they are written. What the function gives back is compared with what it was
    /// given; only the difference is told, so fields that the type does not know stay as they are. A deletion has no
    /// object to change and passes.
    #[must_use]
    pub fn mutates<T, F>(
        self,
        path: &str,
        change: impl Fn(Asked<T>) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        T: Object,
        F: Future<Output = Result<T, Status>> + Send,
    {
        self.admits(path, move |admission| {
            let change = change.clone();
            Box::pin(async move {
                let asked: Asked<T> = admission.read()?;
                let Some(object) = &asked.object else {
                    return Ok(Passed::default());
                };
                let before = value(object)?;
                let after = value(&change(asked).await?)?;
                Ok(Passed {
                    warnings: Vec::new(),
                    changed: Some((before, after)),
                })
            })
        })
    }

    /// Shows objects in the version that is asked for: the function is given an object and an `apiVersion`, and gives back
    /// the object in that version, whose metadata is the same. What is in that version already is not passed to it.
    #[must_use]
    pub fn converts(
        self,
        path: &str,
        convert: impl Fn(Value, &str) -> Result<Value, String> + Send + Sync + 'static,
    ) -> Self {
        let convert = Arc::new(convert);
        self.hook(path, move |body| {
            let convert = convert.clone();
            Box::pin(async move {
                let review: Review<Conversion> = read(&body)?;
                let Conversion {
                    uid,
                    desired,
                    objects,
                } = review.request;
                let one = |object: Value| match object["apiVersion"] == desired.as_str() {
                    true => Ok(object),
                    false => convert(object, &desired),
                };
                let outcome = objects.into_iter().map(one).collect();
                review::converted((&review.api_version, &review.kind), &uid, outcome)
            })
        })
    }

    /// Answers on this listener until stopped; then questions that have come are answered, and no more are taken.
    pub async fn run(
        self,
        listener: TcpListener,
        certificate: Certificate,
        clock: Arc<dyn Clock>,
        stop: CancellationToken,
    ) -> Result<(), Error> {
        certificate.current().map_err(Error::failed)?;
        let (hooks, certificate) = (Arc::new(self.hooks), Arc::new(certificate));
        let converse = |stream| converse(hooks.clone(), certificate.clone(), stream, stop.clone());
        accept::accept(listener, &*clock, &stop, converse).await;
        Ok(())
    }

    fn admits(
        self,
        path: &str,
        judge: impl Fn(Admission) -> Pin<Box<dyn Future<Output = Result<Passed, Status>> + Send>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let judge = Arc::new(judge);
        self.hook(path, move |body| {
            let judge = judge.clone();
            Box::pin(async move {
                let review: Review<Admission> = read(&body)?;
                let uid = review.request.uid.clone();
                let outcome = judge(review.request).await;
                review::admitted((&review.api_version, &review.kind), &uid, outcome)
            })
        })
    }

    fn hook(mut self, path: &str, answer: impl Fn(Bytes) -> Answering + Send + Sync + 'static) -> Self {
        self.hooks.insert(path.to_owned(), Box::new(answer));
        self
    }
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.hooks.keys()).finish()
    }
}

fn read<R: serde::de::DeserializeOwned>(body: &[u8]) -> Result<Review<R>, String> {
    serde_json::from_slice(body).map_err(|error| format!("cannot decode the review: {error}"))
}

fn value(object: &impl serde::Serialize) -> Result<Value, Status> {
    serde_json::to_value(object)
        .map_err(|error| Status::internal(format_args!("cannot encode the object: {error}")))
}

/// One connection, to its end or until a stop lets it end.
async fn converse(
    hooks: Arc<BTreeMap<String, Hook>>,
    certificate: Arc<Certificate>,
    stream: TcpStream,
    stop: CancellationToken,
) {
    let Ok(config) = certificate.current() else { return };
    let stream = tokio::select! {
        () = stop.cancelled() => return,
        shaken = TlsAcceptor::from(config).accept(stream) => match shaken {
            Ok(stream) => stream,
            Err(error) => return tracing::debug!(%error, "a connection broke off before it was one"),
        },
    };
    accept::converse(stream, &stop, |request| answer(&hooks, request)).await;
}

async fn answer(hooks: &BTreeMap<String, Hook>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let Some(hook) = hooks.get(request.uri().path()) else {
        return text(StatusCode::NOT_FOUND, "404 page not found\n");
    };
    if request.method() != Method::POST {
        return text(StatusCode::METHOD_NOT_ALLOWED, "a review is posted\n");
    }
    let Ok(body) = Limited::new(request.into_body(), MAX_BYTES).collect().await else {
        return text(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the review is too large or broke off\n",
        );
    };
    match hook(body.to_bytes()).await {
        Err(why) => text(StatusCode::BAD_REQUEST, &why),
        Ok(json) => {
            let mut response = Response::new(Full::new(json.into()));
            response.headers_mut().insert(header::CONTENT_TYPE, JSON);
            response
        }
    }
}

fn text(code: StatusCode, words: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(words.to_owned().into()));
    *response.status_mut() = code;
    response
}
