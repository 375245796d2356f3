//! `pods/exec`, `pods/attach` and `pods/portforward`: streams between a client and a container.

use std::sync::Arc;

use http::Response;
use hyper::body::Incoming;
use setpoint_api::{ApiVerb, User};
use setpoint_auth::authorize;

use super::locate::{self, ObjectReader};
use super::relay::{self, BackendRequest};
use crate::body::Body;
use crate::chain::Exchange;
use crate::request::ResourceRequest;
use crate::request::options::StatusError;
use crate::request::query::Query;

/// Forwards the request to the kubelet of the pod's node.
pub(super) async fn handle(
    exchange: &Exchange<'_>,
    resource: &ResourceRequest,
    user: &Arc<User>,
    body: Incoming,
) -> Result<Response<Body>, StatusError> {
    check_access(exchange, user)?;
    let target = &resource.target;
    let (name, subresource) = (
        target.name.as_deref().unwrap_or_default(),
        target.subresource.as_deref().unwrap_or_default(),
    );
    let reader = ObjectReader {
        serve: &*exchange.shared.serve,
        user,
    };
    let pod = reader.pod(&resource.namespace, name).await?;
    let path = match subresource {
        "portforward" => format!("/portForward/{}/{name}", resource.namespace),
        subresource => {
            let requested = exchange.query.text("container").unwrap_or_default();
            let container = locate::container_name(&pod, requested)?;
            format!("/{subresource}/{}/{name}/{container}", resource.namespace)
        }
    };
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if node.is_empty() {
        return Err(locate::bad_request(&format!(
            "pod {name} does not have a host assigned"
        )));
    }
    let backend = reader.node(node).await?;
    let request =
        BackendRequest::of(exchange.head, &path, &query(exchange.query, subresource)).with_body(body);
    let response = relay::forward(exchange, backend, request).await;
    response.map_err(|error| locate::internal(&format!("error dialing backend: {error}")))
}

/// Authorizes the stream as a create: a client that opens it by a WebSocket sends a GET, whose verb would be get.
fn check_access(exchange: &Exchange<'_>, user: &User) -> Result<(), StatusError> {
    let attributes = authorize::Attributes {
        verb: ApiVerb::Create.as_str(),
        ..exchange.request_info.attributes()
    };
    authorize::check(&*exchange.shared.authorize, user, &attributes)
}

/// The options as the kubelet's query parameters.
fn query(query: &Query<'_>, subresource: &str) -> String {
    let mut pairs = Vec::new();
    for (option, name) in [
        ("stdin", "input"),
        ("stdout", "output"),
        ("stderr", "error"),
        ("tty", "tty"),
    ] {
        if subresource != "portforward" && query.flag(option).unwrap_or_default() {
            pairs.push((name, "1"));
        }
    }
    let ports: Vec<&str> = query.all("ports").collect();
    let ports = ports.join(",");
    match subresource {
        "exec" => pairs.extend(query.all("command").map(|argument| ("command", argument))),
        "portforward" if !ports.is_empty() => pairs.push(("port", &ports)),
        _ => {}
    }
    relay::encode(&pairs)
}
