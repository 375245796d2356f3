//! The `Impersonate-*` headers of a request.

use http::HeaderMap;
use setpoint_auth::impersonate::RequestedUser;

use crate::request::options::{StatusError, bad_request};
use crate::request::query::decode;

/// Prefix of all impersonation headers.
const PREFIX: &str = "impersonate-";
/// Prefix of the headers with the user's extra fields, after [`PREFIX`].
const EXTRA: &str = "extra-";

/// The user that the headers name; `None` without such headers. A request with any of them, even an empty one, is never made as the caller itself: a
/// proxy that impersonates its users would otherwise lend them its own permissions.
pub(crate) fn requested_user(headers: &HeaderMap) -> Result<Option<RequestedUser>, StatusError> {
    let (mut name, mut uid, mut groups) = (None, None, None);
    let mut requested = RequestedUser::default();
    for (header, value) in headers {
        let Some(attribute) = header.as_str().strip_prefix(PREFIX) else {
            continue;
        };
        let text = || text(header.as_str(), value.as_bytes());
        match attribute {
            "user" => name = Some(name.map_or_else(text, Ok)?),
            "uid" => uid = Some(uid.map_or_else(text, Ok)?),
            "group" => groups.get_or_insert_with(Vec::new).push(text()?),
            _ => {
                let Some(key) = attribute.strip_prefix(EXTRA) else {
                    continue;
                };
                let values = requested.extra.entry(extra_key(header.as_str(), key)?);
                values.or_default().push(text()?);
            }
        }
    }
    if name.is_none() && uid.is_none() && groups.is_none() && requested.extra.is_empty() {
        return Ok(None);
    }
    requested.name = name.unwrap_or_default();
    requested.uid = uid.unwrap_or_default();
    requested.groups = groups.unwrap_or_default();
    Ok(Some(requested))
}

fn text(header: &str, value: &[u8]) -> Result<String, StatusError> {
    let text = str::from_utf8(value).map_err(|_| undecodable(header))?;
    Ok(text.to_owned())
}

/// The key of an extra field, percent-encoded in the name of its header.
fn extra_key(header: &str, encoded: &str) -> Result<String, StatusError> {
    let key = decode(encoded, false);
    match key.contains(char::REPLACEMENT_CHARACTER) {
        true => Err(undecodable(header)),
        false => Ok(key.into_owned()),
    }
}

fn undecodable(header: &str) -> StatusError {
    bad_request(&format!("invalid {header} header: must be UTF-8"))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    /// Header lines to `name, uid, groups, extra` of the requested user, or the error.
    #[track_caller]
    fn check(lines: &[(&str, &[u8])], expected: Result<Option<&str>, &str>) {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        let requested = requested_user(&headers).map_err(|status| (status.code, status.message));
        let requested = requested.map(|requested| {
            let user = requested?;
            Some(format!(
                "{} {} {:?} {:?}",
                user.name, user.uid, user.groups, user.extra
            ))
        });
        let expected = expected
            .map(|user| user.map(str::to_owned))
            .map_err(|message| (400, message.to_owned()));
        assert_eq!(requested, expected);
    }

    #[test]
    fn names_of_users_and_groups_are_utf8() {
        check(&[("accept", b"*/*")], Ok(None));
        check(
            &[("Impersonate-User", "j\u{fc}rgen".as_bytes())],
            Ok(Some("j\u{fc}rgen  [] {}")),
        );
        check(
            &[
                ("IMPERSONATE-USER", b"a"),
                ("impersonate-user", b"b"),
                ("Impersonate-Uid", "\u{fc}".as_bytes()),
                ("Impersonate-Group", "d\u{e9}vs".as_bytes()),
                ("Impersonate-Group", b"ops"),
                ("Impersonate-Extra-a%2fb", "\u{fc}".as_bytes()),
            ],
            Ok(Some("a \u{fc} [\"d\u{e9}vs\", \"ops\"] {\"a/b\": [\"\u{fc}\"]}")),
        );
    }

    #[test]
    fn any_header_without_a_name_is_still_a_request() {
        check(&[("Impersonate-User", b"")], Ok(Some("  [] {}")));
        check(&[("Impersonate-Uid", b"")], Ok(Some("  [] {}")));
        check(&[("Impersonate-Group", b"")], Ok(Some("  [\"\"] {}")));
        check(&[("Impersonate-Extra-x", b"")], Ok(Some("  [] {\"x\": [\"\"]}")));
    }

    #[test]
    fn bytes_that_are_not_utf8_are_rejected() {
        let latin1: &[u8] = b"j\xfcrgen";
        check(
            &[("Impersonate-User", latin1)],
            Err("invalid impersonate-user header: must be UTF-8"),
        );
        check(
            &[("Impersonate-User", b"a"), ("Impersonate-Group", latin1)],
            Err("invalid impersonate-group header: must be UTF-8"),
        );
        check(
            &[("Impersonate-Uid", latin1)],
            Err("invalid impersonate-uid header: must be UTF-8"),
        );
        check(
            &[("Impersonate-Extra-x", latin1)],
            Err("invalid impersonate-extra-x header: must be UTF-8"),
        );
        check(
            &[("Impersonate-Extra-%ff", b"x")],
            Err("invalid impersonate-extra-%ff header: must be UTF-8"),
        );
    }
}
