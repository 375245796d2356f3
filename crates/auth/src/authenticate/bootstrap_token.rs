//! Bootstrap tokens: Secrets by which a new node joins the cluster.
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

use super::bearer::{TokenAuthenticator, constant_time_eq, server_audiences};
use super::{AuthenticationError, TokenIdentity};

const NAMESPACE: &str = "kube-system";
const NAME_PREFIX: &str = "bootstrap-token-";
const TYPE: &str = "bootstrap.kubernetes.io/token";
const USER_PREFIX: &str = "system:bootstrap:";
/// The group of all users with a bootstrap token.
const GROUP: &str = "system:bootstrappers";
const ID_BYTES: usize = 6;
const SECRET_BYTES: usize = 16;
const MAX_GROUP_BYTES: usize = 256;

/// Authenticates the bootstrap tokens that are stored as Secrets.
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

    /// The user of a token, if it exists and has not expired.
    fn user(&self, id: &str, secret: &str) -> Option<User> {
        let cache = self.caches.cache(&GroupResource::new("", "secrets"))?;
        let stored = cache.find(&Key::new(NAMESPACE, &format!("{NAME_PREFIX}{id}")))?;
        if stored.header().deleting {
            return None;
        }
        let secret_object: Secret = stored.decode().ok()?;
        let good = secret_object.kind == TYPE
            && constant_time_eq(&secret_object.text("token-secret"), secret)
            && secret_object.text("token-id") == id
            && secret_object.holds(self.clock.now())
            && secret_object.text("usage-bootstrap-authentication") == "true";
        if !good {
            return None;
        }
        let mut user = User::new(&format!("{USER_PREFIX}{id}"), &[]);
        user.groups = secret_object.groups()?;
        Some(user)
    }
}

impl TokenAuthenticator for BootstrapTokens {
    fn authenticate_token(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<Option<TokenIdentity>, AuthenticationError> {
        let Some((id, secret)) = split_token(token) else {
            return Ok(None);
        };
        let Some(audiences) = server_audiences(&self.audiences, audiences) else {
            return Ok(None);
        };
        Ok(self.user(id, secret).map(|user| TokenIdentity {
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

/// Splits a bootstrap token into id and secret.
fn split_token(token: &str) -> Option<(&str, &str)> {
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

    /// Whether the token has not expired. An expiration that cannot be parsed counts as expired.
    fn holds(&self, now: Timestamp) -> bool {
        match self.text("expiration").as_str() {
            "" => true,
            until => until.parse::<Timestamp>().is_ok_and(|until| now < until),
        }
    }

    /// `None` if one of them is not a group that a bootstrap token may have.
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
    name.len() <= MAX_GROUP_BYTES
        && name.bytes().last().is_some_and(plain)
        && name
            .bytes()
            .all(|byte| plain(byte) || byte == b':' || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{ManualClock, TestCaches};

    fn caches(data: &[(&str, &str)]) -> Arc<TestCaches> {
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
        TestCaches::with(&[serde_json::json!({
            "apiVersion": "v1", "kind": "Secret", "type": TYPE, "data": data,
            "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
        })])
    }

    #[track_caller]
    fn check(token: &str, data: &[(&str, &str)], expected: Option<&[&str]>) {
        let tokens = BootstrapTokens::new(
            vec!["here".to_owned()],
            caches(data),
            ManualClock::at("2026-01-01T00:00:00Z"),
        );
        let identity = tokens.authenticate_token(token, &["here".to_owned()]).unwrap();
        let expected = expected.map(|groups| User::new("system:bootstrap:abcdef", groups));
        assert_eq!(identity.map(|identity| (*identity.user).clone()), expected);
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
    fn a_token_without_authentication_usage_is_not_recognized() {
        check(
            "abcdef.0123456789abcdef",
            &[("usage-bootstrap-authentication", "no")],
            None,
        );
    }
}
