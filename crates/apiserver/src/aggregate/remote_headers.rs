//! `X-Remote-*` headers: the user of a forwarded request, for the request-header authentication of the aggregated API
//! server.

use std::fmt::Write;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use setpoint_api::User;

const USER: HeaderName = HeaderName::from_static("x-remote-user");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const EXTRA: &str = "x-remote-extra-";

/// Sets the headers for a user. Such headers sent by the client itself are removed.
pub(super) fn set(headers: &mut HeaderMap, user: &User) {
    let forged: Vec<HeaderName> = headers
        .keys()
        .filter(|name| is_remote_header(name))
        .cloned()
        .collect();
    for name in forged {
        headers.remove(name);
    }
    put(headers, USER, &user.name);
    if !user.uid.is_empty() {
        put(headers, UID, &user.uid);
    }
    for group in &user.groups {
        put(headers, GROUP, group);
    }
    for (key, values) in &user.extra {
        let Ok(name) = format!("{EXTRA}{}", escaped(key)).parse::<HeaderName>() else {
            continue;
        };
        for value in values {
            put(headers, name.clone(), value);
        }
    }
}

fn is_remote_header(name: &HeaderName) -> bool {
    [USER, UID, GROUP].contains(name) || name.as_str().starts_with(EXTRA)
}

/// Appends a header. A value that is not valid in a header is left out, and the aggregated API server rejects the
/// request.
fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
        headers.append(name, value);
    }
}

/// A key of `extra`, percent-encoded for a header name.
fn escaped(key: &str) -> String {
    let mut name = String::with_capacity(key.len());
    for byte in key.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => name.push(char::from(byte)),
            b'!' | b'#' | b'$' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|'
            | b'~' => {
                name.push(char::from(byte));
            }
            byte => write!(name, "%{byte:02X}").expect("writing to a string cannot fail"),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headers_name_the_user_and_replace_the_clients_own() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-remote-user", "admin"),
            ("x-remote-uid", "0"),
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-scopes", "all"),
            ("accept", "*/*"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let mut user = User::new("jane", &["a", "b"]);
        user.extra
            .insert("example.org/scope%".to_owned(), vec!["x".to_owned()]);
        set(&mut headers, &user);
        let mut lines: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        lines.sort();
        assert_eq!(
            lines,
            [
                "accept: */*",
                "x-remote-extra-example.org%2fscope%25: x",
                "x-remote-group: a",
                "x-remote-group: b",
                "x-remote-user: jane",
            ]
        );
    }
}
