//! Only the server, the client's transport, the endpoints and webhooks of a manager, the endpoints of the shell operator,
//! and the node's own server know HTTP.

use super::{Exception, is_excepted};
use crate::tidy::report::Report;
use crate::tidy::source::Source;
use crate::tidy::tree::Tree;

const EXCEPTIONS: &[Exception] = &[
    Exception::new("crates/apiserver/", "the server's HTTP side"),
    Exception::new("crates/bench/", "measures through the wire"),
    Exception::new("crates/client/src/http.rs", "the client's transport"),
    Exception::new("crates/client/src/http/", "the client's transport"),
    Exception::new(
        "crates/cri/src/event.rs",
        "containerd's events need a header of gRPC",
    ),
    Exception::new("crates/etcd/src/client.rs", "etcd's token is a header of gRPC"),
    Exception::new("crates/etcd/src/config.rs", "etcd's servers are URLs"),
    Exception::new("crates/grpc/", "gRPC is HTTP/2"),
    Exception::new("crates/conformance/", "sends requests to servers over the wire"),
    Exception::new(
        "crates/node/src/probes/",
        "containers are probed over HTTP and gRPC",
    ),
    Exception::new("crates/node/src/server/", "logs and exec are served over HTTP"),
    Exception::new(
        "crates/runtime/src/http_server.rs",
        "probes and reviews come over HTTP",
    ),
    Exception::new(
        "crates/runtime/src/probe_server.rs",
        "probes and metrics are served over HTTP",
    ),
    Exception::new("crates/runtime/src/webhook/", "servers ask over HTTPS"),
    Exception::new(
        "crates/streaming/",
        "streams begin with an upgrade of an HTTP connection",
    ),
    Exception::new(
        "crates/shell-operator/src/command/",
        "the debug commands send requests to a socket",
    ),
    Exception::new(
        "crates/shell-operator/src/http/",
        "metrics and the debug commands are served over HTTP",
    ),
    Exception::new("crates/testkit/", "drives the server as a stranger would"),
    Exception::new("crates/xtask/", "ships nowhere"),
];

const CRATES: &[&str] = &[
    "axum",
    "http_body",
    "http_body_util",
    "hyper",
    "hyper_util",
    "reqwest",
];

/// Names at the root of the `http` crate. They distinguish it from a module of ours that is called `http`.
const HTTP_NAMES: &[&str] = &[
    "Extensions",
    "HeaderMap",
    "HeaderName",
    "HeaderValue",
    "Method",
    "Request",
    "Response",
    "StatusCode",
    "Uri",
    "Version",
    "header",
    "method",
    "request",
    "response",
    "status",
    "uri",
];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for source in tree
        .rust()
        .filter(|source| !is_excepted(EXCEPTIONS, &source.path))
    {
        let words = CRATES.iter().flat_map(|word| source.production(word));
        let offsets: Vec<usize> = words
            .chain(http_paths(source, has_http_module(tree, source)))
            .collect();
        for offset in offsets {
            report.violation(
                source,
                offset,
                "HTTP is known here: leave it to `apiserver` or `client/src/http`",
            );
        }
    }
}

fn http_paths(source: &Source, own_module: bool) -> impl Iterator<Item = usize> {
    source.production("http").filter(move |&offset| {
        let Some(rest) = source.code[offset..].strip_prefix("http::") else {
            return false;
        };
        let is_global = source.code[..offset].ends_with("::") && !source.code[..offset].ends_with("crate::");
        !own_module || is_global || HTTP_NAMES.iter().any(|name| rest.starts_with(name))
    })
}

/// Whether the crate has a module of that name, so that `http::` may mean it.
fn has_http_module(tree: &Tree, source: &Source) -> bool {
    let krate = source
        .krate()
        .map(|name| format!("crates/{name}/"))
        .unwrap_or_default();
    let is_http = |path: &str| path.ends_with("/http.rs") || path.ends_with("/http/mod.rs");
    tree.rust()
        .any(|other| other.path.starts_with(&krate) && is_http(&other.path))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::planted;

    #[test]
    fn hyper_in_the_registry_is_found() {
        let files = [("crates/registry/src/lib.rs", "use hyper::Request;\n")];
        planted::check(check, &files, &["crates/registry/src/lib.rs:1"]);
    }

    #[test]
    fn a_status_code_in_a_controller_is_found() {
        let files = [(
            "crates/controllers/src/lib.rs",
            "\nlet ok = http::StatusCode::OK;\n",
        )];
        planted::check(check, &files, &["crates/controllers/src/lib.rs:2"]);
    }

    #[test]
    fn the_transport_may_be_named_by_its_crate_but_not_its_protocol() {
        let files = [
            ("crates/client/src/http.rs", "use hyper::Request;\n"),
            (
                "crates/client/src/lib.rs",
                "pub use http::Remote;\nuse http::Method;\n",
            ),
        ];
        planted::check(check, &files, &["crates/client/src/lib.rs:2"]);
    }

    #[test]
    fn the_server_and_tests_know_http() {
        let files = [
            ("crates/apiserver/src/lib.rs", "use http::Method;\n"),
            ("crates/setpoint/tests/up.rs", "use hyper::Request;\n"),
        ];
        planted::check(check, &files, &[]);
    }
}
