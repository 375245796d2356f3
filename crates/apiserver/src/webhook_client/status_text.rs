//! The message of a response that is no success, as Kubernetes' client derives it from the code and the body.

use http::{HeaderValue, StatusCode};
use setpoint_api::Status;

/// How much of a body is part of the message.
const MAX_TEXT_BYTES: usize = 2048;

/// The message: that of a Status in the body, or else the one of the code. A success is an error if it has no body.
pub(super) fn message(code: StatusCode, body: &[u8], content_type: Option<&HeaderValue>) -> String {
    if code.is_success() {
        let content_type = content_type
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let code = code.as_u16();
        return format!("0-length response with status code: {code} and content type: {content_type}");
    }
    let status = serde_json::from_slice::<Status>(body).ok();
    if let Some(status) = status.filter(|status| status.status == "Failure") {
        return status.message;
    }
    let is_text = content_type.is_none_or(|value| value.as_bytes().starts_with(b"text/"));
    let text = match is_text {
        true => {
            let text = String::from_utf8_lossy(&body[..body.len().min(MAX_TEXT_BYTES)]);
            text.trim().to_owned()
        }
        false => "unknown".to_owned(),
    };
    code_message(code, text)
}

fn code_message(code: StatusCode, text: String) -> String {
    let fixed = match code.as_u16() {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 415 => return text,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        406 if matches!(text.as_str(), "" | "unknown") => {
            "the server was unable to respond with a content type that the client supports"
        }
        406 => return text,
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        500.. => {
            return format!("an error on the server ({text:?}) has prevented the request from succeeding");
        }
        code => {
            return format!(
                "the server responded with the status code {code} but did not return more information"
            );
        }
    };
    fixed.to_owned()
}
