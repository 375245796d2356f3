//! Checks of responses: server errors and missing responses are findings, unless Kubernetes does the same.

use std::io;

use super::request::{Delivery, FuzzRequest};
use crate::wire::Response;

/// A response that must not occur, and its request.
#[derive(Debug)]
pub struct Finding {
    pub number: u64,
    pub request: String,
    pub description: String,
}

/// Server errors that Kubernetes returns, too: status code and a substring of the message.
const UPSTREAM_ERRORS: &[(u16, &str)] = &[
    (500, "resourceVersion should not be set on objects to be created"),
    (500, "strconv.ParseUint"),
    (500, "failed to create typed patch object"),
    (500, "failed to create typed live object"),
    (500, "failed to convert new object"),
    (500, "list element types are not identical"),
    (500, "does not contain declared merge key"),
    (500, "unknown patch type"),
    (500, "expected slice or array type, but got: struct"),
    (500, "unable to find api field in struct RawExtension"),
    (500, "doesn't match $setElementOrder list"),
    (500, "target.kind: Unsupported value"),
    (500, "target.name: Required value"),
    (500, "target.name: Invalid value"),
    (504, "Too large resource version"),
    (504, "Timeout"),
    (501, ""),
    (503, "no endpoints available"),
    (503, "error trying to reach service"),
];

/// Subresources that are proxied to a node or pod, which may not exist.
const PROXIED_SUBRESOURCES: &[&str] = &["/log", "/exec", "/attach", "/portforward", "/proxy"];

const MAX_CHARS: usize = 300;

/// The finding of a response, if any.
pub(super) fn check_response(
    number: u64,
    request: &FuzzRequest,
    result: &io::Result<Response>,
) -> Option<Finding> {
    let description = match result {
        Ok(response) if response.status >= 500 && !is_expected(request, response) => {
            format!("{} {}", response.status, truncated(&response.text()))
        }
        Ok(_) => return None,
        // A watch sends nothing until an event; the server may close the connection on invalid framing.
        Err(_) if request.is_watch() || !requires_response(request) => return None,
        // A server may respond and close while a rejected body is still being sent.
        Err(error) if matches!(request.delivery, Delivery::SlowWrites(_)) && is_closed(error) => return None,
        Err(error) => format!("no response: {error}"),
    };
    Some(Finding {
        number,
        request: format!(
            "{} {} ({:?})",
            request.request.method, request.request.path, request.delivery
        ),
        description,
    })
}

fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

fn requires_response(request: &FuzzRequest) -> bool {
    matches!(
        request.delivery,
        Delivery::Whole | Delivery::SlowWrites(_) | Delivery::Chunked
    )
}

fn is_expected(request: &FuzzRequest, response: &Response) -> bool {
    let text = response.text();
    let path = request.request.path.split('?').next().unwrap_or_default();
    PROXIED_SUBRESOURCES.iter().any(|ending| path.ends_with(ending))
        || UPSTREAM_ERRORS
            .iter()
            .any(|(status, message)| *status == response.status && text.contains(message))
}

fn truncated(text: &str) -> String {
    text.chars().take(MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Request;

    #[track_caller]
    fn check(delivery: Delivery, result: io::Result<(u16, &str)>, is_finding: bool) {
        let request = FuzzRequest {
            request: Request::new("POST", "/api/v1/pods"),
            delivery,
        };
        let result = result.map(|(status, text)| Response {
            status,
            body: text.as_bytes().to_vec(),
            ..Response::default()
        });
        assert_eq!(check_response(1, &request, &result).is_some(), is_finding);
    }

    #[test]
    fn a_server_error_is_a_finding_unless_kubernetes_returns_it_too() {
        check(Delivery::Whole, Ok((500, "oh no")), true);
        check(Delivery::Whole, Ok((500, "strconv.ParseUint: parsing")), false);
        check(Delivery::Whole, Ok((422, "oh no")), false);
    }

    #[test]
    fn a_missing_response_is_a_finding_if_the_request_was_complete() {
        let no_response = || Err(io::ErrorKind::UnexpectedEof.into());
        check(Delivery::Whole, no_response(), true);
        check(Delivery::SlowWrites(2), no_response(), true);
        check(Delivery::InvalidChunks, no_response(), false);
        check(
            Delivery::SlowWrites(2),
            Err(io::ErrorKind::BrokenPipe.into()),
            false,
        );
    }
}
