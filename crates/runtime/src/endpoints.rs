//! What a process tells others over HTTP: `/healthz` whether it lives, `/readyz` whether it can be relied upon, `/metrics`
//! its figures.
//!
//! For programs of their own that a cluster runs and watches over; [`crate::Manager::serve`] is the way to it. It tells
//! nothing that would be a secret and takes no orders, so it is plain HTTP and asks nobody who they are.

mod health;

use std::future::ready;
use std::sync::Arc;

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use setpoint_api::Clock;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::accept;
use crate::manager::Check;
use crate::metrics::Metrics;
use crate::reconcile::Error;
use health::{Checks, Verdict};

/// What there is to tell.
pub(crate) struct Endpoints {
    live: Checks,
    ready: Checks,
    metrics: Arc<Metrics>,
}

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const FIGURES: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

impl Endpoints {
    pub(crate) fn new(
        live: Vec<(&'static str, Check)>,
        ready: Vec<(&'static str, Check)>,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        Arc::new(Self {
            live: Checks(live),
            ready: Checks(ready),
            metrics,
        })
    }

    /// Answers until stopped; then requests that have come are answered, and no more are taken.
    pub(crate) async fn run(
        self: Arc<Self>,
        listener: TcpListener,
        clock: Arc<dyn Clock>,
        stop: CancellationToken,
    ) -> Result<(), Error> {
        let address = listener.local_addr().map_err(Error::failed)?;
        tracing::info!(%address, "probes are answered and figures told");
        let converse = |stream| {
            let (endpoints, stop) = (self.clone(), stop.clone());
            async move { accept::converse(stream, &stop, |request| ready(endpoints.answer(&request))).await }
        };
        accept::accept(listener, &*clock, &stop, converse).await;
        Ok(())
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n".to_owned());
        }
        let query = request.uri().query().unwrap_or_default();
        let path = request.uri().path().trim_start_matches('/');
        match path.split_once('/').unwrap_or((path, "")) {
            ("metrics", "") => {
                let mut response = text(StatusCode::OK, self.metrics.to_text());
                response.headers_mut().insert(header::CONTENT_TYPE, FIGURES);
                response
            }
            ("healthz", "") => verdict(self.live.ask("healthz", query)),
            ("healthz", check) => verdict(self.live.ask_one(check)),
            ("readyz", "") => verdict(self.ready.ask("readyz", query)),
            ("readyz", check) => verdict(self.ready.ask_one(check)),
            _ => verdict(Verdict::Unknown),
        }
    }
}

fn verdict(verdict: Verdict) -> Response<Full<Bytes>> {
    match verdict {
        Verdict::Well(words) => text(StatusCode::OK, words),
        Verdict::Unwell(words) => text(StatusCode::INTERNAL_SERVER_ERROR, words),
        Verdict::Unknown => text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
    }
}

fn text(code: StatusCode, words: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(words.into()));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, TEXT);
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}
