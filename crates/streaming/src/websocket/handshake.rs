//! The opening handshake.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use ring::digest;

/// Appended to the client's key before it is hashed; section 1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Whether a request is an upgrade to a WebSocket.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    let lists = |name: &HeaderName, token: &str| {
        let mut listed = header(headers, name).split(',');
        listed.any(|one| one.trim().eq_ignore_ascii_case(token))
    };
    lists(&CONNECTION, "upgrade") && lists(&UPGRADE, "websocket")
}

/// The subprotocols that the client offers, best first.
pub fn requested_protocols(headers: &HeaderMap) -> Vec<&str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter();
    let lists = values.filter_map(|value| value.to_str().ok());
    let protocols = lists.flat_map(|list| list.split(',')).map(str::trim);
    protocols.filter(|protocol| !protocol.is_empty()).collect()
}

/// The headers of the 101 response, with the first of the client's subprotocols that is `supported`; `None` if the
/// handshake is incomplete.
pub fn accept(headers: &HeaderMap, supported: &[&'static str]) -> Option<HeaderMap> {
    let key = header(headers, &SEC_WEBSOCKET_KEY);
    if key.is_empty() || header(headers, &SEC_WEBSOCKET_VERSION) != "13" {
        return None;
    }
    let mut response = HeaderMap::new();
    response.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    response.insert(UPGRADE, HeaderValue::from_static("websocket"));
    let accept = HeaderValue::try_from(accept_key(key)).expect("base64 is valid in a header");
    response.insert(SEC_WEBSOCKET_ACCEPT, accept);
    let requested = requested_protocols(headers);
    let mut requested = requested.iter();
    let chosen = requested.find_map(|one| supported.iter().find(|own| *own == one));
    if let Some(protocol) = chosen {
        response.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    }
    Some(response)
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

fn accept_key(key: &str) -> String {
    let digest = digest::digest(
        &digest::SHA1_FOR_LEGACY_USE_ONLY,
        format!("{key}{GUID}").as_bytes(),
    );
    STANDARD.encode(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of section 1.3.
    #[test]
    fn the_accept_key_is_the_standards_example() {
        assert_eq!(
            accept_key("dGhlIHNhbXBsZSBub25jZQ=="),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
    }

    #[test]
    fn a_handshake_has_all_its_headers() {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("WebSocket"));
        assert!(is_upgrade(&headers));
        assert!(accept(&headers, &[]).is_none());
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        headers.insert(SEC_WEBSOCKET_KEY, HeaderValue::from_static("eA=="));
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("a, b"));
        let response = accept(&headers, &["b"]).unwrap();
        assert_eq!(response[SEC_WEBSOCKET_PROTOCOL], "b");
        let without_protocol = accept(&headers, &["c"]).unwrap();
        assert!(without_protocol.get(SEC_WEBSOCKET_PROTOCOL).is_none());
    }
}
