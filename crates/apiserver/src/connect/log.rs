//! `pods/log`: what a container has written.

use std::sync::Arc;

use http::{HeaderValue, Method, Response, StatusCode};
use serde_json::json;
use setpoint_api::field::Errors;
use setpoint_api::{Gvk, Status, User};

use super::locate::{self, Objects};
use super::relay::{self, Question};
use crate::body::Body;
use crate::chain::Exchange;
use crate::request::Address;
use crate::request::options::{self, Refused};
use crate::request::query::Query;
use crate::respond;

static TEXT: HeaderValue = HeaderValue::from_static("text/plain");

/// The options that a node is told as they are.
const PASSED_ON: [&str; 8] = [
    "follow",
    "previous",
    "timestamps",
    "sinceSeconds",
    "sinceTime",
    "tailLines",
    "limitBytes",
    "stream",
];

/// Streams the log. A pod that is on no node has written nothing.
pub(super) async fn answer(
    exchange: &Exchange<'_>,
    address: &Address,
    user: &Arc<User>,
) -> Result<Response<Body>, Refused> {
    let name = address.target.name.as_deref().unwrap_or_default();
    check(exchange.query, name)?;
    let objects = Objects {
        serve: &*exchange.shared.serve,
        user,
    };
    let pod = objects.pod(&address.namespace, name).await?;
    let container = locate::container(&pod, exchange.query.text("container").unwrap_or_default())?;
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if node.is_empty() {
        return Ok(respond::answer(StatusCode::OK, &TEXT, Body::Empty));
    }
    let place = objects.node(node).await?;
    let path = format!("/containerLogs/{}/{name}/{container}", address.namespace);
    let question = Question::new(Method::GET, &path, &query(exchange.query));
    let url = format!("https://{place}{}", question.path_and_query());
    match relay::ask(exchange.shared, place, question).await {
        Ok(answer) if answer.status().is_success() => {
            Ok(respond::answer(StatusCode::OK, &TEXT, relay::body(answer)))
        }
        Ok(answer) => Err(refused(answer, name).await),
        Err(error) => Err(locate::plain_error(&format!("Get {url:?}: {error}"))),
    }
}

fn query(query: &Query<'_>) -> String {
    let given = PASSED_ON
        .iter()
        .filter_map(|name| Some((*name, query.text(name)?)));
    let mut pairs: Vec<(&str, &str)> = given.collect();
    if query.text("stream").is_none() {
        pairs.push(("stream", "All"));
    }
    relay::encode(&pairs)
}

/// What may be asked of a log.
fn check(query: &Query<'_>, name: &str) -> Result<(), Refused> {
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

/// What a node says instead of a log.
async fn refused(answer: relay::Answer, name: &str) -> Refused {
    let code = answer.status().as_u16();
    let text = relay::text(answer).await;
    match code {
        400 => locate::bad_request(&text),
        500 => locate::internal(&text),
        code => {
            let cause = json!({"reason": "UnexpectedServerResponse", "message": text});
            tracing::debug!(code, %cause, pod = name, "a node refused a log");
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
