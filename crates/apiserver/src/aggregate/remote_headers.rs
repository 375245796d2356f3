//! `X-Remote-*` headers: the user of a forwarded request, for the request-header authentication of the aggregated API
//! server.

use std::fmt::Write;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use setpoint_api::{Status, User};

const USER: HeaderName = HeaderName::from_static("x-remote-user");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const EXTRA: &str = "x-remote-extra-";

/// Sets the headers for a user. Such headers sent by the client itself are removed. A user with a value that is not valid
/// in a header is an error: without it, the aggregated API server would take the request for another user's.
pub(super) fn set(headers: &mut HeaderMap, user: &User) -> Result<(), Status> {
    let forged: Vec<HeaderName> = headers
        .keys()
        .filter(|name| is_remote_header(name))
        .cloned()
        .collect();
    for name in forged {
        headers.remove(name);
    }
    put(headers, &USER, &user.name)?;
    if !user.uid.is_empty() {
        put(headers, &UID, &user.uid)?;
    }
    for group in &user.groups {
        put(headers, &GROUP, group)?;
    }
    for (key, values) in &user.extra {
        let name = format!("{EXTRA}{}", escaped(key));
        let name: HeaderName = name.parse().map_err(|_| invalid(&name))?;
        for value in values {
            put(headers, &name, value)?;
        }
    }
    Ok(())
}

fn is_remote_header(name: &HeaderName) -> bool {
    [USER, UID, GROUP].contains(name) || name.as_str().starts_with(EXTRA)
}

fn put(headers: &mut HeaderMap, name: &HeaderName, value: &str) -> Result<(), Status> {
    let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| invalid(name.as_str()))?;
    headers.append(name, value);
    Ok(())
}

fn invalid(header: &str) -> Status {
    Status::internal(format!("invalid header field value for {header:?}"))
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
        set(&mut headers, &user).unwrap();
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

    #[test]
    fn a_user_that_headers_cannot_name_is_an_error() {
        let mut with_extra = User::new("jane", &[]);
        with_extra.extra.insert("k".to_owned(), vec!["a\0b".to_owned()]);
        for user in [User::new("ja\nne", &[]), User::new("jane", &["a\r"]), with_extra] {
            assert!(set(&mut HeaderMap::new(), &user).is_err(), "{user:?}");
        }
        let mut headers = HeaderMap::new();
        set(&mut headers, &User::new("j\u{fc}rgen", &[])).unwrap();
        assert_eq!(headers[USER].as_bytes(), "j\u{fc}rgen".as_bytes());
    }
}
