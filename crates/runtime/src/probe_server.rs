//! [`ProbeServer`]: HTTP endpoints for liveness (`/healthz`), readiness (`/readyz`) and Prometheus (`/metrics`).
//!
//! For controllers that run as a process of their own; started by [`crate::Manager::serve_endpoints`]. It is read-only and
//! serves nothing secret, so it is plain HTTP without authentication.

mod health;

use std::future::ready;
use std::sync::Arc;

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use setpoint_api::Clock;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::http_server;
use crate::manager::Check;
use crate::metrics::Metrics;
use crate::reconcile::Error;
use health::{CheckResponse, Checks};

/// Serves the health checks and the metrics.
pub(crate) struct ProbeServer {
    live: Checks,
    ready: Checks,
    metrics: Arc<Metrics>,
}

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const PROMETHEUS_TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

impl ProbeServer {
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

    /// Serves until stopped; requests that have been received by then still get their response.
    pub(crate) async fn run(
        self: Arc<Self>,
        listener: TcpListener,
        clock: Arc<dyn Clock>,
        stop: CancellationToken,
    ) -> Result<(), Error> {
        let address = listener.local_addr().map_err(Error::failed)?;
        tracing::info!(%address, "serving health probes and metrics");
        let serve_connection = |stream| {
            let (server, stop) = (self.clone(), stop.clone());
            async move {
                http_server::serve_connection(stream, &stop, |request| ready(server.respond(&request))).await
            }
        };
        http_server::accept(listener, &*clock, &stop, serve_connection).await;
        Ok(())
    }

    fn respond(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n".to_owned());
        }
        let query = request.uri().query().unwrap_or_default();
        let path = request.uri().path().trim_start_matches('/');
        match path.split_once('/').unwrap_or((path, "")) {
            ("metrics", "") => {
                let mut response = text(StatusCode::OK, self.metrics.to_text());
                response
                    .headers_mut()
                    .insert(header::CONTENT_TYPE, PROMETHEUS_TEXT);
                response
            }
            ("healthz", "") => to_http(self.live.run_all("healthz", query)),
            ("healthz", check) => to_http(self.live.run_one(check)),
            ("readyz", "") => to_http(self.ready.run_all("readyz", query)),
            ("readyz", check) => to_http(self.ready.run_one(check)),
            _ => to_http(CheckResponse::NotFound),
        }
    }
}

fn to_http(response: CheckResponse) -> Response<Full<Bytes>> {
    match response {
        CheckResponse::Healthy(body) => text(StatusCode::OK, body),
        CheckResponse::Unhealthy(body) => text(StatusCode::INTERNAL_SERVER_ERROR, body),
        CheckResponse::NotFound => text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
    }
}

fn text(code: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, TEXT);
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}
