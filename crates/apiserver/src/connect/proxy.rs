//! `pods/proxy`, `services/proxy` and `nodes/proxy`: HTTP to pods, services and nodes.

use std::sync::Arc;

use http::header::{HOST, LOCATION};
use http::{HeaderValue, Method, Response, StatusCode};
use hyper::body::Incoming;
use setpoint_api::User;

use super::BackendAddress;
use super::links::Links;
use super::locate::{self, ObjectReader};
use super::relay::{self, BackendRequest};
use crate::body::Body;
use crate::chain::Exchange;
use crate::request::ResourceRequest;
use crate::request::options::StatusError;

/// The name in a proxy path: `name`, `name:port` or `scheme:name:port`.
#[derive(Debug, PartialEq, Eq)]
struct SchemeNamePort<'a> {
    secure: bool,
    name: &'a str,
    port: &'a str,
}

/// Forwards the request.
pub(super) async fn handle(
    exchange: &Exchange<'_>,
    resource: &ResourceRequest,
    user: &Arc<User>,
    body: &mut Option<Incoming>,
) -> Result<Response<Body>, StatusError> {
    let path = subpath_of(exchange, resource);
    if path.is_empty() && matches!(exchange.head.method, Method::GET | Method::HEAD) {
        return Ok(redirect_with_slash(exchange.base_path, &exchange.head.uri));
    }
    let backend = backend(exchange, resource, user).await?;
    let links = links(exchange, path, &backend);
    let path = if path.is_empty() { "/" } else { path };
    let request = BackendRequest::of(exchange.head, path, exchange.head.uri.query().unwrap_or_default())
        .with_forwarded_uri(&format!("{}{path}", links.prefix))
        .with_body(body.take());
    let response = relay::forward(exchange, backend, request).await;
    let mut response =
        response.map_err(|error| locate::unavailable(&format!("error trying to reach service: {error}")))?;
    links.rewrite(&mut response);
    Ok(response)
}

/// The links of the response to a request for this path of the backend.
fn links(exchange: &Exchange<'_>, path: &str, backend: &BackendAddress) -> Links {
    let uri = &exchange.head.uri;
    let prefix = uri.path().strip_suffix(path).unwrap_or_default();
    let host = exchange
        .head
        .headers
        .get(HOST)
        .and_then(|host| host.to_str().ok());
    let authority = uri.authority().map(http::uri::Authority::as_str);
    Links {
        prefix: format!("{}{prefix}", exchange.base_path),
        backend: backend.to_string(),
        host: host.or(authority).unwrap_or_default().to_owned(),
    }
}

/// The path after `/proxy`.
pub(super) fn subpath_of<'a>(exchange: &'a Exchange<'_>, resource: &ResourceRequest) -> &'a str {
    subpath(exchange.head.uri.path(), resource.target.namespace.is_some())
}

async fn backend(
    exchange: &Exchange<'_>,
    resource: &ResourceRequest,
    user: &Arc<User>,
) -> Result<BackendAddress, StatusError> {
    let target = &resource.target;
    let id = target.name.as_deref().unwrap_or_default();
    let plural = target.resource.resource.as_str();
    let kind = plural.strip_suffix('s').unwrap_or(plural);
    let Some(SchemeNamePort { secure, name, port }) = parse(id) else {
        return Err(locate::bad_request(&format!("invalid {kind} request {id:?}")));
    };
    let reader = ObjectReader {
        serve: &*exchange.shared.serve,
        user,
        connect: &*exchange.shared.connect,
    };
    let backend = match plural {
        "pods" => locate::pod_backend(&reader.pod(&resource.namespace, name).await?, port, secure)?,
        "services" => reader.service(&resource.namespace, name, port, secure).await?,
        _ => node(reader.node(name).await?, port, secure),
    };
    match exchange.shared.connect.is_local(&backend) {
        true => Ok(backend),
        false => locate::resolve_proxyable(backend).await,
    }
}

/// A port of a node, or its kubelet if none is named.
fn node(kubelet: BackendAddress, port: &str, secure: bool) -> BackendAddress {
    match port.parse() {
        Ok(port) if port != kubelet.port => BackendAddress {
            secure,
            port,
            node: None,
            ..kubelet
        },
        _ => kubelet,
    }
}

fn parse(id: &str) -> Option<SchemeNamePort<'_>> {
    let parts: Vec<&str> = id.split(':').collect();
    let (scheme, name, port) = match parts.as_slice() {
        [name] => ("", *name, ""),
        [name, port] => ("", *name, *port),
        [scheme, name, port] => (*scheme, *name, *port),
        _ => return None,
    };
    let is_valid = matches!(scheme, "" | "http" | "https") && !name.is_empty();
    is_valid.then_some(SchemeNamePort {
        secure: scheme == "https",
        name,
        port,
    })
}

/// The path after `/proxy`, not decoded.
fn subpath(path: &str, namespaced: bool) -> &str {
    // `/api/v1/nodes/NAME/proxy`, or `/api/v1/namespaces/NAMESPACE/pods/NAME/proxy`.
    let segments = if namespaced { 7 } else { 5 };
    path.match_indices('/')
        .nth(segments)
        .map_or("", |(at, _)| &path[at..])
}

/// A redirect to the path with a trailing slash, which relative links need.
fn redirect_with_slash(base_path: &str, uri: &http::Uri) -> Response<Body> {
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(location) = HeaderValue::try_from(format!("{base_path}{}/{query}", uri.path())) {
        response.headers_mut().insert(LOCATION, location);
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
    fn the_path_after_a_proxy_is_forwarded_undecoded() {
        assert_eq!(
            subpath("/api/v1/namespaces/a/pods/p/proxy/x%2Fy/z", true),
            "/x%2Fy/z"
        );
        assert_eq!(subpath("/api/v1/namespaces/a/pods/p/proxy/", true), "/");
        assert_eq!(subpath("/api/v1/namespaces/a/pods/p/proxy", true), "");
        assert_eq!(subpath("/api/v1/nodes/n/proxy/metrics", false), "/metrics");
    }

    #[test]
    fn a_node_is_reached_at_its_kubelet_unless_another_port_is_named() {
        let server = BackendAddress {
            secure: true,
            host: "10.1.0.1".to_owned(),
            port: 10250,
            resolved: Vec::new(),
            node: Some("n".to_owned()),
        };
        assert_eq!(node(server.clone(), "", false), server);
        assert_eq!(node(server.clone(), "10250", false), server);
        assert_eq!(node(server, "80", false).to_string(), "10.1.0.1:80");
    }
}
