//! `pods/log`: the output of a container.

use std::sync::Arc;

use http::{HeaderValue, Method, Response, StatusCode};
use serde_json::json;
use setpoint_api::field::Errors;
use setpoint_api::{Gvk, Status, User};

use super::locate::{self, ObjectReader};
use super::relay::{self, BackendRequest};
use crate::body::Body;
use crate::chain::Exchange;
use crate::request::ResourceRequest;
use crate::request::options::{self, StatusError};
use crate::request::query::Query;
use crate::respond;

static TEXT: HeaderValue = HeaderValue::from_static("text/plain");

/// Options that are forwarded to the kubelet unchanged.
const FORWARDED_OPTIONS: [&str; 8] = [
    "follow",
    "previous",
    "timestamps",
    "sinceSeconds",
    "sinceTime",
    "tailLines",
    "limitBytes",
    "stream",
];

/// Streams the log. The log of a pod that is not scheduled is empty.
pub(super) async fn handle(
    exchange: &Exchange<'_>,
    resource: &ResourceRequest,
    user: &Arc<User>,
) -> Result<Response<Body>, StatusError> {
    let name = resource.target.name.as_deref().unwrap_or_default();
    check(exchange.query, name)?;
    let reader = ObjectReader {
        serve: &*exchange.shared.serve,
        user,
        connect: &*exchange.shared.connect,
    };
    let pod = reader.pod(&resource.namespace, name).await?;
    let container = locate::container_name(&pod, exchange.query.text("container").unwrap_or_default())?;
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if node.is_empty() {
        return Ok(respond::response(StatusCode::OK, &TEXT, Body::Empty));
    }
    let backend = reader.node(node).await?;
    let path = format!("/containerLogs/{}/{name}/{container}", resource.namespace);
    let request = BackendRequest::new(Method::GET, &path, &query(exchange.query));
    let url = format!("https://{backend}{}", request.path_and_query());
    match relay::send(exchange.shared, backend, request).await {
        Ok(response) if response.status().is_success() => {
            Ok(respond::response(StatusCode::OK, &TEXT, relay::body(response)))
        }
        Ok(response) => Err(error_of(response, name).await),
        Err(error) => Err(locate::plain_error(&format!("Get {url:?}: {error}"))),
    }
}

fn query(query: &Query<'_>) -> String {
    let options = FORWARDED_OPTIONS
        .iter()
        .filter_map(|name| Some((*name, query.text(name)?)));
    let mut pairs: Vec<(&str, &str)> = options.collect();
    if query.text("stream").is_none() {
        pairs.push(("stream", "All"));
    }
    relay::encode(&pairs)
}

/// Validates PodLogOptions.
fn check(query: &Query<'_>, name: &str) -> Result<(), StatusError> {
    let (tail, limit) = (
        options::integer(query, "tailLines")?,
        options::integer(query, "limitBytes")?,
    );
    let since = options::integer(query, "sinceSeconds")?;
    let errors = Errors::default();
    if let Some(tail) = tail.filter(|tail| *tail < 0) {
        errors
            .at("tailLines")
            .invalid(tail, "must be greater than or equal to 0");
    }
    if let Some(limit) = limit.filter(|limit| *limit < 1) {
        errors.at("limitBytes").invalid(limit, "must be greater than 0");
    }
    match since {
        Some(_) if query.text("sinceTime").is_some() => {
            errors
                .at("")
                .forbidden("at most one of `sinceTime` or `sinceSeconds` may be specified");
        }
        Some(since) if since < 1 => {
            errors.at("sinceSeconds").invalid(since, "must be greater than 0");
        }
        _ => {}
    }
    match query.text("stream") {
        None | Some("All") => {}
        Some("Stdout" | "Stderr") if tail.is_some() => {
            errors
                .at("")
                .forbidden("`tailLines` and specific `stream` are mutually exclusive for now");
        }
        Some("Stdout" | "Stderr") => {}
        Some(other) => {
            errors
                .at("stream")
                .not_supported(other, &["All", "Stderr", "Stdout"]);
        }
    }
    let found = errors.into_vec();
    match found.is_empty() {
        true => Ok(()),
        false => Err(Box::new(Status::invalid(
            &Gvk::new("", "v1", "PodLogOptions"),
            name,
            &found,
        ))),
    }
}

/// The error of a node's error response.
async fn error_of(response: relay::BackendResponse, name: &str) -> StatusError {
    let code = response.status().as_u16();
    let text = relay::text(response).await;
    match code {
        400 => locate::bad_request(&text),
        500 => locate::internal(&text),
        code => {
            let cause = json!({"reason": "UnexpectedServerResponse", "message": text});
            tracing::debug!(code, %cause, pod = name, "node returned an error instead of a log");
            Box::new(Status {
                status: "Failure".to_owned(),
                message: text,
                reason: if code == 404 { "NotFound" } else { "" }.to_owned(),
                code,
                ..Status::default()
            })
        }
    }
}
