//! Bootstrap tokens: secrets by which a new node introduces itself.
//!
//! The rules are those of `plugin/pkg/auth/authenticator/token/bootstrap/bootstrap.go` in Kubernetes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::Deserialize;
use setpoint_api::{Clock, GroupResource, Key, User};
use setpoint_cache::Caches;

use super::bearer::{Tokens, for_server, same_secret};
use super::{Known, Unauthenticated};

const NAMESPACE: &str = "kube-system";
const NAME_PREFIX: &str = "bootstrap-token-";
const TYPE: &str = "bootstrap.kubernetes.io/token";
const USER_PREFIX: &str = "system:bootstrap:";
/// The group of everyone who comes with such a token.
const GROUP: &str = "system:bootstrappers";
const ID_BYTES: usize = 6;
const SECRET_BYTES: usize = 16;
const MOST_GROUP_BYTES: usize = 256;

/// Knows the bootstrap tokens that are stored as secrets.
pub struct BootstrapTokens {
    audiences: Vec<String>,
    caches: Arc<dyn Caches>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Secret {
    #[serde(rename = "type")]
    kind: String,
    data: Option<BTreeMap<String, String>>,
}

impl BootstrapTokens {
    /// The audiences are the server's.
    pub fn new(audiences: Vec<String>, caches: Arc<dyn Caches>, clock: Arc<dyn Clock>) -> Self {
        Self {
            audiences,
            caches,
            clock,
        }
    }

    /// The user of a token, if there is such a token and it still holds.
    fn user(&self, id: &str, secret: &str) -> Option<User> {
        let cache = self.caches.cache(&GroupResource::new("", "secrets"))?;
        let stored = cache.find(&Key::new(NAMESPACE, &format!("{NAME_PREFIX}{id}")))?;
        if stored.header().deleting {
            return None;
        }
        let kept: Secret = stored.decode().ok()?;
        let good = kept.kind == TYPE
            && same_secret(&kept.text("token-secret"), secret)
            && kept.text("token-id") == id
            && kept.holds(self.clock.now())
            && kept.text("usage-bootstrap-authentication") == "true";
        if !good {
            return None;
        }
        let mut user = User::new(&format!("{USER_PREFIX}{id}"), &[]);
        user.groups = kept.groups()?;
        Some(user)
    }
}

impl Tokens for BootstrapTokens {
    fn find(&self, token: &str, audiences: &[String]) -> Result<Option<Known>, Unauthenticated> {
        let Some((id, secret)) = parts(token) else {
            return Ok(None);
        };
        let Some(audiences) = for_server(&self.audiences, audiences) else {
            return Ok(None);
        };
        Ok(self.user(id, secret).map(|user| Known {
            user: Arc::new(user),
            audiences,
        }))
    }
}

impl fmt::Debug for BootstrapTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BootstrapTokens").finish_non_exhaustive()
    }
}

/// Id and secret of a token of this kind.
fn parts(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let plain = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let good = id.len() == ID_BYTES && secret.len() == SECRET_BYTES && plain(id) && plain(secret);
    good.then_some((id, secret))
}

impl Secret {
    fn text(&self, key: &str) -> String {
        let bytes = self
            .data
            .as_ref()
            .and_then(|data| data.get(key))
            .and_then(|value| STANDARD.decode(value).ok());
        bytes
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .unwrap_or_default()
    }

    /// A time that cannot be read has passed.
    fn holds(&self, now: Timestamp) -> bool {
        match self.text("expiration").as_str() {
            "" => true,
            until => until.parse::<Timestamp>().is_ok_and(|until| now < until),
        }
    }

    /// `None` if one of them is no group such a token may give.
    fn groups(&self) -> Option<Vec<String>> {
        let mut groups = BTreeSet::from([GROUP.to_owned()]);
        let extra = self.text("auth-extra-groups");
        for group in extra.split(',').filter(|_| !extra.is_empty()) {
            if !is_bootstrap_group(group) {
                return None;
            }
            groups.insert(group.to_owned());
        }
        Some(groups.into_iter().collect())
    }
}

fn is_bootstrap_group(group: &str) -> bool {
    let Some(name) = group.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix(':')) else {
        return false;
    };
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= MOST_GROUP_BYTES
        && name.bytes().last().is_some_and(plain)
        && name
            .bytes()
            .all(|byte| plain(byte) || byte == b':' || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{At, Shelf};

    fn shelf(data: &[(&str, &str)]) -> Arc<Shelf> {
        let mut all = BTreeMap::from([
            ("token-id", "abcdef"),
            ("token-secret", "0123456789abcdef"),
            ("usage-bootstrap-authentication", "true"),
        ]);
        all.extend(data.iter().copied());
        let data: BTreeMap<&str, String> = all
            .into_iter()
            .map(|(key, value)| (key, STANDARD.encode(value)))
            .collect();
        Shelf::of(&[serde_json::json!({
            "apiVersion": "v1", "kind": "Secret", "type": TYPE, "data": data,
            "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
        })])
    }

    #[track_caller]
    fn check(token: &str, data: &[(&str, &str)], expected: Option<&[&str]>) {
        let tokens = BootstrapTokens::new(
            vec!["here".to_owned()],
            shelf(data),
            At::time("2026-01-01T00:00:00Z"),
        );
        let known = tokens.find(token, &["here".to_owned()]).unwrap();
        let expected = expected.map(|groups| User::new("system:bootstrap:abcdef", groups));
        assert_eq!(known.map(|known| (*known.user).clone()), expected);
    }

    #[test]
    fn a_stored_token_names_its_user() {
        check("abcdef.0123456789abcdef", &[], Some(&["system:bootstrappers"]));
        check("abcdef.0123456789abcdeX", &[], None);
        check("abcdef.0123456789abcdee", &[], None);
        check("abcdeg.0123456789abcdef", &[], None);
    }

    #[test]
    fn a_token_may_give_further_groups_of_its_kind() {
        let extra = [("auth-extra-groups", "system:bootstrappers:kubeadm:default")];
        let groups: &[&str] = &["system:bootstrappers", "system:bootstrappers:kubeadm:default"];
        check("abcdef.0123456789abcdef", &extra, Some(groups));
        let bad = [("auth-extra-groups", "system:masters")];
        check("abcdef.0123456789abcdef", &bad, None);
    }

    #[test]
    fn a_token_ends_with_its_time() {
        let token = "abcdef.0123456789abcdef";
        check(token, &[("expiration", "2026-01-01T00:00:00Z")], None);
        check(token, &[("expiration", "soon")], None);
        let later = [("expiration", "2026-01-01T00:00:01Z")];
        check(token, &later, Some(&["system:bootstrappers"]));
    }

    #[test]
    fn a_token_for_other_uses_is_none() {
        check(
            "abcdef.0123456789abcdef",
            &[("usage-bootstrap-authentication", "no")],
            None,
        );
    }
}
