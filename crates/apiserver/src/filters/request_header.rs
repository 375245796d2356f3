//! Request header authentication: an authenticating proxy, known by its client certificate, names the user in headers.
//!
//! The rules are those of `staging/src/k8s.io/apiserver/pkg/authentication/request/headerrequest` in Kubernetes.

use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use setpoint_api::User;
use setpoint_auth::authenticate::certificate;

use crate::request::query::decode;

/// The headers in which an authenticating proxy names the user, and the proxies that may.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestHeaders {
    /// The accepted common names of the proxy's client certificate; all if there are none.
    pub allowed_names: Vec<String>,
    /// The first of these headers with a value has the user name.
    pub username_headers: Vec<HeaderName>,
    /// The first of these headers with a value has the UID.
    pub uid_headers: Vec<HeaderName>,
    /// All values of these headers are groups.
    pub group_headers: Vec<HeaderName>,
    /// Headers with one of these prefixes, in lower case, have the extra fields.
    pub extra_header_prefixes: Vec<String>,
}

impl RequestHeaders {
    /// The headers of these names. The error is a name that is none.
    pub fn new(username: &[String], uid: &[String], group: &[String]) -> Result<Self, String> {
        let parse = |name: &String| name.trim().parse().map_err(|_| name.clone());
        let parse_all = |names: &[String]| names.iter().map(parse).collect::<Result<Vec<HeaderName>, _>>();
        Ok(Self {
            username_headers: parse_all(username)?,
            uid_headers: parse_all(uid)?,
            group_headers: parse_all(group)?,
            ..Self::default()
        })
    }

    /// The user that the proxy with this verified certificate names; `None` if it names none or may not.
    pub(crate) fn user(&self, proxy: &[u8], headers: &HeaderMap) -> Option<Arc<User>> {
        let name = certificate::common_name(proxy).unwrap_or_default();
        let is_allowed = self.allowed_names.is_empty() || self.allowed_names.contains(&name);
        let username = first(headers, &self.username_headers).filter(|_| is_allowed)?;
        let values = |name| {
            headers
                .get_all(name)
                .iter()
                .filter_map(|value| value.to_str().ok())
        };
        let mut groups: Vec<String> = self
            .group_headers
            .iter()
            .flat_map(values)
            .filter(|group| !group.is_empty())
            .map(str::to_owned)
            .collect();
        if !groups.iter().any(|group| group == User::AUTHENTICATED) {
            groups.push(User::AUTHENTICATED.to_owned());
        }
        let mut user = User {
            name: username.to_owned(),
            uid: first(headers, &self.uid_headers).unwrap_or_default().to_owned(),
            groups,
            ..User::default()
        };
        for prefix in &self.extra_header_prefixes {
            for (name, value) in headers {
                if let (Some(key), Ok(value)) = (name.as_str().strip_prefix(prefix.as_str()), value.to_str())
                {
                    let values = user.extra.entry(decode(key, false).into_owned()).or_default();
                    values.push(value.to_owned());
                }
            }
        }
        Some(Arc::new(user))
    }
}

/// The first value that is not empty.
fn first<'a>(headers: &'a HeaderMap, names: &[HeaderName]) -> Option<&'a str> {
    let value = |name: &HeaderName| headers.get(name)?.to_str().ok();
    names.iter().filter_map(value).find(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::tests::TestCa;

    fn config(allowed: &[&str]) -> RequestHeaders {
        RequestHeaders {
            allowed_names: allowed.iter().map(|name| (*name).to_owned()).collect(),
            username_headers: vec![HeaderName::from_static("x-remote-user")],
            uid_headers: vec![HeaderName::from_static("x-remote-uid")],
            group_headers: vec![HeaderName::from_static("x-remote-group")],
            extra_header_prefixes: vec!["x-remote-extra-".to_owned()],
        }
    }

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        let entry = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), value.parse().unwrap())
        };
        list.iter().map(entry).collect()
    }

    #[test]
    fn the_headers_name_the_user() {
        let (proxy, _) = TestCa::new().sign("front-proxy", "proxies");
        let headers = headers(&[
            ("x-remote-user", "jane"),
            ("x-remote-uid", "u1"),
            ("x-remote-group", "a"),
            ("x-remote-group", "b"),
            ("x-remote-extra-example.com%2frole", "admin"),
        ]);
        let user = config(&["front-proxy"]).user(&proxy, &headers).unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("jane", "u1"));
        assert_eq!(user.groups, ["a", "b", "system:authenticated"]);
        assert_eq!(user.extra["example.com/role"], ["admin"]);
    }

    #[track_caller]
    fn check(allowed: &[&str], list: &[(&'static str, &'static str)], expected: bool) {
        let (proxy, _) = TestCa::new().sign("front-proxy", "proxies");
        let user = config(allowed).user(&proxy, &headers(list));
        assert_eq!(user.is_some(), expected);
    }

    #[test]
    fn only_the_allowed_proxies_may_name_a_user() {
        check(&[], &[("x-remote-user", "jane")], true);
        check(&["front-proxy"], &[("x-remote-user", "jane")], true);
        check(&["other"], &[("x-remote-user", "jane")], false);
        check(&[], &[("x-remote-user", "")], false);
        check(&[], &[("x-remote-group", "a")], false);
    }
}
