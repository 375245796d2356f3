//! Legacy service account tokens, stored in Secrets: a token is valid as long as its Secret holds it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use setpoint_api::{GroupResource, Key, Stored, User};
use setpoint_cache::Caches;

use super::bearer::{TokenAuthenticator, constant_time_eq, server_audiences};
use super::{AuthenticationError, TokenIdentity};
use crate::service_account::{groups, user_name};
use crate::token::{Issuer, LegacyClaims};

/// The label of a token that has been unused for long.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// Authenticates the tokens that are stored in Secrets.
pub struct SecretTokens {
    issuer: Arc<Issuer>,
    caches: Arc<dyn Caches>,
    on_use: OnTokenUse,
    /// Whether the Secret and the service account must exist.
    lookup: bool,
}

/// Called with the Secret whose token was used, even if the token is rejected because it is labelled invalid.
pub type OnTokenUse = Arc<dyn Fn(&Stored) + Send + Sync>;

#[derive(Debug, Deserialize)]
struct Secret {
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
}

impl SecretTokens {
    pub fn new(issuer: Arc<Issuer>, caches: Arc<dyn Caches>, on_use: OnTokenUse) -> Self {
        Self {
            issuer,
            caches,
            on_use,
            lookup: true,
        }
    }

    /// The same, with or without looking up the Secret and the service account (`--service-account-lookup`).
    #[must_use]
    pub fn with_lookup(self, lookup: bool) -> Self {
        Self { lookup, ..self }
    }

    /// Checks that the Secret still has the token and that the service account is still the same.
    fn check(&self, token: &str, claims: &LegacyClaims) -> Result<(), String> {
        claims.check()?;
        if !self.lookup {
            return Ok(());
        }
        let (namespace, account) = (&claims.namespace, &claims.account);
        let secret = self.object("secrets", namespace, &claims.secret);
        let secret = secret.filter(|secret| !secret.header().deleting);
        let secret = secret.ok_or("Token has been invalidated")?;
        if !constant_time_eq(&token_in(&secret), token) {
            return Err("Token does not match server's copy".to_owned());
        }
        let Some(found) = self.object("serviceaccounts", namespace, account) else {
            return Err(format!("serviceaccounts {account:?} not found"));
        };
        if found.header().deleting {
            return Err(format!("ServiceAccount {namespace}/{account} has been deleted"));
        }
        if found.uid() != claims.account_uid {
            return Err(format!(
                "ServiceAccount UID ({}) does not match claim ({})",
                found.uid(),
                claims.account_uid
            ));
        }
        (self.on_use)(&secret);
        if secret.label(INVALID_SINCE).is_some_and(|since| !since.is_empty()) {
            return Err(format!(
                "the token in secret {namespace}/{} for service account {namespace}/{account} has been marked invalid. \
                 Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the \
                 '{INVALID_SINCE}' label from the secret to temporarily allow use of this token",
                claims.secret
            ));
        }
        Ok(())
    }

    fn object(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        let cache = self.caches.cache(&GroupResource::new("", resource))?;
        cache.find(&Key::new(namespace, name))
    }
}

/// The token in a Secret; empty if there is none.
fn token_in(secret: &Stored) -> String {
    let data = secret.decode::<Secret>().ok().and_then(|secret| secret.data);
    let token = data.and_then(|data| STANDARD.decode(data.get("token")?).ok());
    token
        .and_then(|token| String::from_utf8(token).ok())
        .unwrap_or_default()
}

impl TokenAuthenticator for SecretTokens {
    fn authenticate_token(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<Option<TokenIdentity>, AuthenticationError> {
        let verified = self.issuer.verify_legacy(token);
        let Some(claims) = verified.map_err(|invalid| AuthenticationError(invalid.0))? else {
            return Ok(None);
        };
        let Some(audiences) = server_audiences(&self.issuer.audiences, audiences) else {
            return Ok(None);
        };
        self.check(token, &claims).map_err(AuthenticationError)?;
        let user = User {
            name: user_name(&claims.namespace, &claims.account),
            uid: claims.account_uid.clone(),
            groups: groups(&claims.namespace),
            ..User::default()
        };
        Ok(Some(TokenIdentity {
            user: Arc::new(user),
            audiences,
        }))
    }
}

impl fmt::Debug for SecretTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretTokens").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::TestCaches;
    use crate::keys::SigningKey;
    use crate::token::issuer::DEFAULT_URL;

    fn account(uid: &str) -> Value {
        json!({"kind": "ServiceAccount", "metadata": {"name": "web", "namespace": "default", "uid": uid}})
    }

    fn secret(token: &str) -> Value {
        json!({"kind": "Secret", "metadata": {"name": "web-token", "namespace": "default"},
               "type": "kubernetes.io/service-account-token", "data": {"token": STANDARD.encode(token)}})
    }

    /// Authenticates a token in a cluster with the objects that `objects` returns for it.
    #[track_caller]
    fn check(objects: impl Fn(&str) -> Vec<Value>, expected: Result<&str, &str>) {
        let key = SigningKey::from_pem(&SigningKey::generate().unwrap()).unwrap();
        let issuer = Arc::new(Issuer::new(DEFAULT_URL, key, Vec::new()));
        let token = issuer
            .sign(&LegacyClaims::new("default", "web-token", "web", "u1"))
            .unwrap();
        let uses = Arc::new(Mutex::new(Vec::new()));
        let recorded = uses.clone();
        let on_use = Arc::new(move |secret: &Stored| recorded.lock().push(secret.key().clone()));
        let tokens = SecretTokens::new(issuer.clone(), TestCaches::with(&objects(&token)), on_use);
        let found = tokens.authenticate_token(&token, &issuer.audiences);
        let found = found.map(|identity| identity.unwrap().user.name.clone());
        assert_eq!(found.as_deref().map_err(|error| error.0.as_str()), expected);
        let is_used = expected.map_or_else(|error| error.contains("marked invalid"), |_| true);
        assert_eq!(uses.lock().len(), usize::from(is_used));
    }

    #[test]
    fn a_token_is_valid_as_long_as_its_secret_has_it() {
        let name = "system:serviceaccount:default:web";
        check(|token| vec![account("u1"), secret(token)], Ok(name));
        check(|_| vec![account("u1")], Err("Token has been invalidated"));
        let error = "Token does not match server's copy";
        check(|_| vec![account("u1"), secret("another")], Err(error));
        check(|_| vec![account("u1"), secret("")], Err(error));
    }

    #[test]
    fn a_token_is_invalid_without_its_service_account() {
        check(
            |token| {
                vec![
                    secret(token),
                    json!({"kind": "ServiceAccount", "metadata": {"name": "db", "namespace": "default"}}),
                ]
            },
            Err(r#"serviceaccounts "web" not found"#),
        );
        let error = "ServiceAccount UID (u2) does not match claim (u1)";
        check(|token| vec![secret(token), account("u2")], Err(error));
    }
    #[test]
    fn a_token_labelled_invalid_is_rejected_and_its_use_is_reported() {
        let marked = |token: &str| {
            let mut secret = secret(token);
            secret["metadata"]["labels"] = json!({INVALID_SINCE: "2026-01-01"});
            vec![account("u1"), secret]
        };
        check(
            marked,
            Err(
                "the token in secret default/web-token for service account default/web has been marked invalid. \
                 Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the \
                 'kubernetes.io/legacy-token-invalid-since' label from the secret to temporarily allow use of this token",
            ),
        );
    }
}
