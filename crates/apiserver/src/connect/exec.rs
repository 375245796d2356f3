//! `pods/exec`, `attach` and `portforward`: streams between a caller and a container.

use std::sync::Arc;

use http::Response;
use hyper::body::Incoming;
use setpoint_api::User;
use setpoint_auth::authorize;

use super::locate::{self, Objects};
use super::relay::{self, Question};
use crate::body::Body;
use crate::chain::Exchange;
use crate::request::Address;
use crate::request::options::Refused;
use crate::request::query::Query;

/// Passes the request on to the pod's node.
pub(super) async fn answer(
    exchange: &Exchange<'_>,
    address: &Address,
    user: &Arc<User>,
    body: Incoming,
) -> Result<Response<Body>, Refused> {
    check_access(exchange, user)?;
    let target = &address.target;
    let (name, part) = (
        target.name.as_deref().unwrap_or_default(),
        target.subresource.as_deref().unwrap_or_default(),
    );
    let objects = Objects {
        serve: &*exchange.shared.serve,
        user,
    };
    let pod = objects.pod(&address.namespace, name).await?;
    let path = match part {
        "portforward" => format!("/portForward/{}/{name}", address.namespace),
        part => {
            let wanted = exchange.query.text("container").unwrap_or_default();
            let container = locate::container(&pod, wanted)?;
            format!("/{part}/{}/{name}/{container}", address.namespace)
        }
    };
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if node.is_empty() {
        return Err(locate::bad_request(&format!(
            "pod {name} does not have a host assigned"
        )));
    }
    let place = objects.node(node).await?;
    let question = Question::of(exchange.head, &path, &query(exchange.query, part)).with_body(body);
    let answer = relay::pass_on(exchange, place, question).await;
    answer.map_err(|error| locate::internal(&format!("error dialing backend: {error}")))
}

/// Who opens a stream by a WebSocket asks with a GET but does what a POST does.
fn check_access(exchange: &Exchange<'_>, user: &User) -> Result<(), Refused> {
    let attributes = authorize::Attributes {
        verb: "create",
        ..exchange.asked.attributes()
    };
    authorize::check(&*exchange.shared.authorize, user, &attributes)
}

/// The options in a node's words.
fn query(query: &Query<'_>, part: &str) -> String {
    let mut pairs = Vec::new();
    for (option, name) in [
        ("stdin", "input"),
        ("stdout", "output"),
        ("stderr", "error"),
        ("tty", "tty"),
    ] {
        if part != "portforward" && query.flag(option).unwrap_or_default() {
            pairs.push((name, "1"));
        }
    }
    let ports: Vec<&str> = query.all("ports").collect();
    let ports = ports.join(",");
    match part {
        "exec" => pairs.extend(query.all("command").map(|word| ("command", word))),
        "portforward" if !ports.is_empty() => pairs.push(("port", &ports)),
        _ => {}
    }
    relay::encode(&pairs)
}
