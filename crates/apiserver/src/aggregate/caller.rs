//! Who asks, in headers that another server takes from us.

use std::fmt::Write;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use setpoint_api::User;

const USER: HeaderName = HeaderName::from_static("x-remote-user");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const EXTRA: &str = "x-remote-extra-";

/// Names the caller, and nobody else: what a caller has put there itself is taken away.
pub(super) fn name(headers: &mut HeaderMap, user: &User) {
    let claimed: Vec<HeaderName> = headers.keys().filter(|name| is_ours(name)).cloned().collect();
    for name in claimed {
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

fn is_ours(name: &HeaderName) -> bool {
    [USER, UID, GROUP].contains(name) || name.as_str().starts_with(EXTRA)
}

/// A name with a line end in it names nobody: it is left out, and the other server refuses.
fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
        headers.append(name, value);
    }
}

/// A key as it may stand in the name of a header. Names of headers have no case.
fn escaped(key: &str) -> String {
    let mut name = String::with_capacity(key.len());
    for byte in key.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => name.push(char::from(byte)),
            b'!' | b'#' | b'$' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|'
            | b'~' => {
                name.push(char::from(byte));
            }
            byte => write!(name, "%{byte:02X}").expect("a string takes what is written"),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_named_and_cannot_name_itself() {
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
        name(&mut headers, &user);
        let mut shown: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        shown.sort();
        assert_eq!(
            shown,
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
