//! `pods/log`: the output of a container.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode};
use serde_json::json;
use setpoint_api::field::Errors;
use setpoint_api::{Gvk, Status, User};
use setpoint_streaming::websocket::{self, Opcode};

use super::locate::{self, ObjectReader};
use super::relay::{self, BackendRequest};
use crate::body::Body;
use crate::chain::Exchange;
use crate::request::ResourceRequest;
use crate::request::options::{self, StatusError};
use crate::request::query::Query;
use crate::respond;
use crate::socket::{self, MessageSource};

static TEXT: HeaderValue = HeaderValue::from_static("text/plain");

/// The subprotocols of a WebSocket, with messages of bytes and of base64.
const PROTOCOLS: [&str; 2] = ["binary.k8s.io", BASE64];
const BASE64: &str = "base64.binary.k8s.io";

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
        return output(exchange, Body::Empty);
    }
    let backend = reader.node(node).await?;
    let path = format!("/containerLogs/{}/{name}/{container}", resource.namespace);
    let request = BackendRequest::new(Method::GET, &path, &query(exchange.query));
    let url = format!("https://{backend}{}", request.path_and_query());
    match relay::send(exchange.shared, backend, request).await {
        Ok(response) if response.status().is_success() => output(exchange, relay::body(response)),
        Ok(response) => Err(error_of(response, name).await),
        Err(error) => Err(locate::plain_error(&format!("Get {url:?}: {error}"))),
    }
}

/// The response with the output: its body, or the messages of a WebSocket.
fn output(exchange: &Exchange<'_>, body: Body) -> Result<Response<Body>, StatusError> {
    if !websocket::is_upgrade(&exchange.head.headers) {
        return Ok(respond::response(StatusCode::OK, &TEXT, body));
    }
    socket::accept(exchange.shared, exchange.head, &PROTOCOLS, |protocol| {
        OutputMessages {
            body,
            is_base64: protocol == BASE64,
            has_begun: false,
        }
    })
}

/// The output of a container, in messages of any length.
struct OutputMessages {
    body: Body,
    is_base64: bool,
    /// Whether the first message has been sent, which is empty: it shows the client that the output begins.
    has_begun: bool,
}

impl MessageSource for OutputMessages {
    fn poll_message(&mut self, context: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Option<io::Result<()>>> {
        let chunk = match std::mem::replace(&mut self.has_begun, true) {
            true => ready!(self.body.poll_bytes(context)),
            false => Some(Ok(Bytes::new())),
        };
        Poll::Ready(chunk.map(|chunk| {
            let chunk = chunk?;
            match self.is_base64 {
                true => websocket::write(Opcode::Text, STANDARD.encode(chunk).as_bytes(), out),
                false => websocket::write(Opcode::Binary, &chunk, out),
            }
            Ok(())
        }))
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    async fn check(protocol: &str, expected: &[u8]) {
        let mut messages = OutputMessages {
            body: Body::Whole(Bytes::from_static(b"one\n")),
            is_base64: protocol == BASE64,
            has_begun: false,
        };
        let mut out = Vec::new();
        while let Some(appended) = poll_fn(|context| messages.poll_message(context, &mut out)).await {
            appended.unwrap();
        }
        assert_eq!(out, expected, "{protocol}");
    }

    #[tokio::test]
    async fn the_output_over_a_websocket_begins_with_an_empty_message() {
        check("", b"\x82\x00\x82\x04one\n").await;
        check("binary.k8s.io", b"\x82\x00\x82\x04one\n").await;
        check("base64.binary.k8s.io", b"\x81\x00\x81\x08b25lCg==").await;
    }
}
