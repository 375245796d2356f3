//! Admission and conversion webhooks of a controller.
//!
//! [`Webhooks`] serves AdmissionReviews and ConversionReviews over HTTPS, each webhook under a path of its own;
//! `setpoint-manifests` prints the configuration that makes an API server call them. The module decodes a review, passes
//! the typed object to the author's function, and encodes its result.
//!
//! Start reading at [`Webhooks`], then `review`.

mod certificate;
mod json_patch;
mod review;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use serde_json::Value;
use setpoint_api::{Clock, Status};
use setpoint_client::Object;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::http_server;
use crate::reconcile::Error;
use review::{AllowedResponse, ConversionRequest, RawAdmissionRequest, Review};

pub use certificate::{Certificate, CertificateError};
pub use review::{AdmissionRequest, Operation};

/// The webhooks of one program.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use setpoint_api::Status;
/// use setpoint_runtime::webhook::Webhooks;
///
/// let hooks = Webhooks::new()
///     .validates::<ConfigMap, _>("/validate", |request| async move {
///         match request.object {
///             Some(map) if map.data.is_none() => Err(Status::bad_request("an empty map is of no use")),
///             _ => Ok(Vec::new()),
///         }
///     })
///     .mutates::<ConfigMap, _>("/defaults", |request| async move {
///         let mut map = request.object.unwrap_or_default();
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

type Hook = Box<dyn Fn(Bytes) -> ResponseFuture + Send + Sync>;
type ResponseFuture = Pin<Box<dyn Future<Output = Result<Vec<u8>, String>> + Send>>;

/// Larger reviews are rejected. The API server limits objects, too; a review has the old and the new one.
const MAX_REVIEW_BYTES: usize = 8 << 20;
/// A connection whose TLS handshake takes longer is closed, and so is one whose body does: the number of connections is
/// limited, and slow clients must not hold all of them.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// The path of the kubelet's probes.
const HEALTH_PATH: &str = "/healthz";
const JSON: HeaderValue = HeaderValue::from_static("application/json");

// === impl Webhooks ===

impl Webhooks {
    /// A server without webhooks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a validating webhook for `T` under this path. The function allows a request, with warnings or without, or
    /// rejects it with a status for the user.
    #[must_use]
    pub fn validates<T, F>(
        self,
        path: &str,
        validate: impl Fn(AdmissionRequest<T>) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        T: Object,
        F: Future<Output = Result<Vec<String>, Status>> + Send,
    {
        self.admits(path, move |admission| {
            let validate = validate.clone();
            Box::pin(async move {
                let warnings = validate(admission.read()?).await?;
                Ok(AllowedResponse {
                    warnings,
                    changed: None,
                })
            })
        })
    }

    /// Adds a mutating webhook for `T` under this path. The response is a patch of the difference between the function's
    /// argument and its result, so fields that the type does not know stay as they are. A deletion has no object to change
    /// and is allowed.
    #[must_use]
    pub fn mutates<T, F>(
        self,
        path: &str,
        change: impl Fn(AdmissionRequest<T>) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        T: Object,
        F: Future<Output = Result<T, Status>> + Send,
    {
        self.admits(path, move |admission| {
            let change = change.clone();
            Box::pin(async move {
                let request: AdmissionRequest<T> = admission.read()?;
                let Some(object) = &request.object else {
                    return Ok(AllowedResponse::default());
                };
                let before = value(object)?;
                let after = value(&change(request).await?)?;
                Ok(AllowedResponse {
                    warnings: Vec::new(),
                    changed: Some((before, after)),
                })
            })
        })
    }

    /// Adds a conversion webhook under this path. The function gets an object and the desired `apiVersion`, and returns the
    /// object in that version, with the same metadata. Objects already in that version are not passed to it.
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
                let review: Review<ConversionRequest> = read(&body)?;
                let ConversionRequest {
                    uid,
                    desired,
                    objects,
                } = review.request;
                let one = |object: Value| match object["apiVersion"] == desired.as_str() {
                    true => Ok(object),
                    false => convert(object, &desired),
                };
                let outcome = objects.into_iter().map(one).collect();
                review::conversion_response((&review.api_version, &review.kind), &uid, outcome)
            })
        })
    }

    /// Adds a webhook under this path that decodes and encodes reviews itself. The function gets the body of a request and
    /// returns that of the response; an error is a bad request.
    #[must_use]
    pub fn responds<F>(self, path: &str, respond: impl Fn(Bytes) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Vec<u8>, String>> + Send + 'static,
    {
        self.hook(path, move |body| Box::pin(respond(body)))
    }

    /// Serves on this listener until stopped; reviews that have been received by then still get their response.
    pub async fn run(
        self,
        listener: TcpListener,
        certificate: Certificate,
        clock: Arc<dyn Clock>,
        stop: CancellationToken,
    ) -> Result<(), Error> {
        certificate.current().map_err(Error::failed)?;
        let (hooks, certificate) = (Arc::new(self.hooks), Arc::new(certificate));
        let serve_connection = |stream| {
            let (hooks, certificate) = (hooks.clone(), certificate.clone());
            serve_connection(hooks, certificate, stream, (clock.clone(), stop.clone()))
        };
        http_server::accept(listener, &*clock, &stop, serve_connection).await;
        Ok(())
    }

    fn admits(
        self,
        path: &str,
        validate: impl Fn(
            RawAdmissionRequest,
        ) -> Pin<Box<dyn Future<Output = Result<AllowedResponse, Status>> + Send>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let validate = Arc::new(validate);
        self.hook(path, move |body| {
            let validate = validate.clone();
            Box::pin(async move {
                let review: Review<RawAdmissionRequest> = read(&body)?;
                let uid = review.request.uid.clone();
                let outcome = validate(review.request).await;
                review::admission_response((&review.api_version, &review.kind), &uid, outcome)
            })
        })
    }

    fn hook(mut self, path: &str, respond: impl Fn(Bytes) -> ResponseFuture + Send + Sync + 'static) -> Self {
        self.hooks.insert(path.to_owned(), Box::new(respond));
        self
    }
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.hooks.keys()).finish()
    }
}

fn read<R: serde::de::DeserializeOwned>(body: &[u8]) -> Result<Review<R>, String> {
    setpoint_api::json::from_slice(body).map_err(|error| format!("cannot decode the review: {error}"))
}

fn value(object: &impl serde::Serialize) -> Result<Value, Status> {
    serde_json::to_value(object)
        .map_err(|error| Status::internal(format_args!("cannot encode the object: {error}")))
}

/// Serves one connection, until it is closed or, after the stop, until the current request is done.
async fn serve_connection(
    hooks: Arc<BTreeMap<String, Hook>>,
    certificate: Arc<Certificate>,
    stream: TcpStream,
    (clock, stop): (Arc<dyn Clock>, CancellationToken),
) {
    let Ok(config) = certificate.current() else { return };
    let stream = tokio::select! {
        () = stop.cancelled() => return,
        () = clock.sleep(HANDSHAKE_TIMEOUT) => return tracing::debug!("TLS handshake timed out"),
        handshake = TlsAcceptor::from(config).accept(stream) => match handshake {
            Ok(stream) => stream,
            Err(error) => return tracing::debug!(%error, "TLS handshake failed"),
        },
    };
    http_server::serve_connection(stream, &stop, |request| respond(&hooks, request, &*clock)).await;
}

async fn respond(
    hooks: &BTreeMap<String, Hook>,
    request: Request<Incoming>,
    clock: &dyn Clock,
) -> Response<Full<Bytes>> {
    if request.method() == Method::GET && request.uri().path() == HEALTH_PATH {
        return text(StatusCode::OK, "ok");
    }
    let Some(hook) = hooks.get(request.uri().path()) else {
        return text(StatusCode::NOT_FOUND, "404 page not found\n");
    };
    if request.method() != Method::POST {
        return text(
            StatusCode::METHOD_NOT_ALLOWED,
            "method not allowed: reviews are sent by POST\n",
        );
    }
    let body = Limited::new(request.into_body(), MAX_REVIEW_BYTES).collect();
    let body = tokio::select! {
        body = body => body,
        () = clock.sleep(BODY_TIMEOUT) => {
            return text(StatusCode::REQUEST_TIMEOUT, "the review was not received in time\n");
        }
    };
    let Ok(body) = body else {
        return text(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the review is too large or incomplete\n",
        );
    };
    match hook(body.to_bytes()).await {
        Err(message) => text(StatusCode::BAD_REQUEST, &message),
        Ok(json) => {
            let mut response = Response::new(Full::new(json.into()));
            response.headers_mut().insert(header::CONTENT_TYPE, JSON);
            response
        }
    }
}

fn text(code: StatusCode, message: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(message.to_owned().into()));
    *response.status_mut() = code;
    response
}
