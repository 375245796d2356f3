//! `pods/proxy`, `services/proxy` and `nodes/proxy`: plain HTTP to what runs.

use std::sync::Arc;

use http::header::LOCATION;
use http::{HeaderValue, Method, Response, StatusCode};
use hyper::body::Incoming;
use setpoint_api::User;

use super::Place;
use super::locate::{self, Objects};
use super::relay::{self, Question};
use crate::body::Body;
use crate::chain::Exchange;
use crate::request::Address;
use crate::request::options::Refused;

/// A name as proxies are asked for it: `name`, `name:port` or `scheme:name:port`.
#[derive(Debug, PartialEq, Eq)]
struct Named<'a> {
    secure: bool,
    name: &'a str,
    port: &'a str,
}

/// Passes the request on.
pub(super) async fn answer(
    exchange: &Exchange<'_>,
    address: &Address,
    user: &Arc<User>,
    body: Incoming,
) -> Result<Response<Body>, Refused> {
    let path = behind(exchange.head.uri.path(), address.target.namespace.is_some());
    if path.is_empty() && matches!(exchange.head.method, Method::GET | Method::HEAD) {
        return Ok(moved(&exchange.head.uri));
    }
    let place = place(exchange, address, user).await?;
    let path = if path.is_empty() { "/" } else { path };
    let question =
        Question::of(exchange.head, path, exchange.head.uri.query().unwrap_or_default()).with_body(body);
    let answer = relay::pass_on(exchange, place, question).await;
    answer.map_err(|error| locate::unavailable(&format!("error trying to reach service: {error}")))
}

async fn place(exchange: &Exchange<'_>, address: &Address, user: &Arc<User>) -> Result<Place, Refused> {
    let target = &address.target;
    let id = target.name.as_deref().unwrap_or_default();
    let resource = target.resource.resource.as_str();
    let kind = resource.strip_suffix('s').unwrap_or(resource);
    let Some(Named { secure, name, port }) = parse(id) else {
        return Err(locate::bad_request(&format!("invalid {kind} request {id:?}")));
    };
    let objects = Objects {
        serve: &*exchange.shared.serve,
        user,
    };
    match resource {
        "pods" => locate::pod_place(&objects.pod(&address.namespace, name).await?, port, secure),
        "services" => objects.service(&address.namespace, name, port, secure).await,
        _ => node(objects.node(name).await?, port, secure),
    }
}

/// A port of a node, or its server if none is named.
fn node(server: Place, port: &str, secure: bool) -> Result<Place, Refused> {
    if server.host.parse().is_ok_and(|host| !locate::is_ordinary(host)) {
        return Err(locate::bad_request("address not allowed"));
    }
    match port.parse() {
        Ok(port) if port != server.port => Ok(Place {
            secure,
            port,
            node: None,
            ..server
        }),
        _ => Ok(server),
    }
}

fn parse(id: &str) -> Option<Named<'_>> {
    let parts: Vec<&str> = id.split(':').collect();
    let (scheme, name, port) = match parts.as_slice() {
        [name] => ("", *name, ""),
        [name, port] => ("", *name, *port),
        [scheme, name, port] => (*scheme, *name, *port),
        _ => return None,
    };
    let known = matches!(scheme, "" | "http" | "https") && !name.is_empty();
    known.then_some(Named {
        secure: scheme == "https",
        name,
        port,
    })
}

/// What stands behind the proxy in a path, as it was written.
fn behind(path: &str, namespaced: bool) -> &str {
    // `/api/v1/nodes/NAME/proxy`, or `/api/v1/namespaces/NAMESPACE/pods/NAME/proxy`.
    let parts = if namespaced { 7 } else { 5 };
    path.match_indices('/')
        .nth(parts)
        .map_or("", |(at, _)| &path[at..])
}

/// Links that are relative need a slash at the end of what they are relative to.
fn moved(uri: &http::Uri) -> Response<Body> {
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(place) = HeaderValue::try_from(format!("{}/{query}", uri.path())) {
        response.headers_mut().insert(LOCATION, place);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(id: &str, expected: Option<(bool, &str, &str)>) {
        let found = parse(id).map(|found| (found.secure, found.name, found.port));
        assert_eq!(found, expected, "{id}");
    }

    #[test]
    fn a_name_may_have_a_port_and_a_scheme() {
        check("web", Some((false, "web", "")));
        check("web:http", Some((false, "web", "http")));
        check("https:web:443", Some((true, "web", "443")));
        check("ftp:web:21", None);
        check(":80", None);
        check("a:b:c:d", None);
    }

    #[test]
    fn the_path_behind_a_proxy_is_passed_on_as_it_was_written() {
        assert_eq!(
            behind("/api/v1/namespaces/a/pods/p/proxy/x%2Fy/z", true),
            "/x%2Fy/z"
        );
        assert_eq!(behind("/api/v1/namespaces/a/pods/p/proxy/", true), "/");
        assert_eq!(behind("/api/v1/namespaces/a/pods/p/proxy", true), "");
        assert_eq!(behind("/api/v1/nodes/n/proxy/metrics", false), "/metrics");
    }

    #[test]
    fn a_node_is_asked_at_its_server_unless_another_port_is_named() {
        let server = Place {
            secure: true,
            host: "10.1.0.1".to_owned(),
            port: 10250,
            node: Some("n".to_owned()),
        };
        assert_eq!(node(server.clone(), "", false).unwrap(), server);
        assert_eq!(node(server.clone(), "10250", false).unwrap(), server);
        assert_eq!(
            node(server.clone(), "80", false).unwrap().to_string(),
            "10.1.0.1:80"
        );
        let local = Place {
            host: "127.0.0.1".to_owned(),
            ..server
        };
        assert_eq!(node(local, "", false).unwrap_err().message, "address not allowed");
    }
}
