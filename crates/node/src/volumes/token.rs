//! Tokens of service accounts for pods, requested from the API server and renewed before they expire.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use setpoint_api::{Body, Clock};
use setpoint_client::Client;

use crate::container_config::{identity, spec};

/// The longest time a token is used, whatever its expiry.
const MAX_AGE: SignedDuration = SignedDuration::from_hours(24);

/// The lifetime where the pod sets none.
const DEFAULT_SECONDS: i64 = 3600;

/// Requests tokens and keeps them until they are due for renewal.
#[derive(Debug)]
pub(super) struct TokenCache {
    client: Client,
    clock: Arc<dyn Clock>,
    tokens: Mutex<HashMap<TokenKey, CachedToken>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct TokenKey {
    pod_uid: String,
    audience: String,
    seconds: i64,
}

#[derive(Clone)]
struct CachedToken {
    token: String,
    renew_at: Timestamp,
    expires_at: Timestamp,
}

/// The response to a TokenRequest.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TokenRequestView {
    status: TokenStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TokenStatus {
    token: String,
    expiration_timestamp: Option<Timestamp>,
}

impl TokenCache {
    pub(super) fn new(client: Client, clock: Arc<dyn Clock>) -> Self {
        Self {
            client,
            clock,
            tokens: Mutex::default(),
        }
    }

    /// A token for the pod's service account, bound to the pod. A token that cannot be renewed is used until it expires.
    pub(super) async fn token(
        &self,
        pod: &v1::Pod,
        source: &v1::ServiceAccountTokenProjection,
    ) -> Result<String, String> {
        let [_, _, uid] = identity(pod);
        let key = TokenKey {
            pod_uid: uid.to_owned(),
            audience: source.audience.clone().unwrap_or_default(),
            seconds: source.expiration_seconds.unwrap_or(DEFAULT_SECONDS),
        };
        let now = self.clock.now();
        let cached = self.tokens.lock().get(&key).cloned();
        if let Some(cached) = cached.as_ref().filter(|cached| now < cached.renew_at) {
            return Ok(cached.token.clone());
        }
        match (self.request(pod, &key, now).await, cached) {
            (Ok(made), _) => {
                let token = made.token.clone();
                self.tokens.lock().insert(key, made);
                Ok(token)
            }
            (Err(_), Some(cached)) if now < cached.expires_at => Ok(cached.token),
            (Err(error), _) => Err(error),
        }
    }

    /// Drops the tokens of a pod that is gone.
    pub(super) fn forget(&self, pod_uid: &str) {
        self.tokens.lock().retain(|key, _| key.pod_uid != pod_uid);
    }

    async fn request(&self, pod: &v1::Pod, key: &TokenKey, now: Timestamp) -> Result<CachedToken, String> {
        let [name, namespace, uid] = identity(pod);
        let audiences: Vec<_> = [&key.audience]
            .into_iter()
            .filter(|audience| !audience.is_empty())
            .collect();
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": audiences,
                "expirationSeconds": key.seconds,
                "boundObjectRef": { "apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid },
            },
        });
        let spec = spec(pod);
        let account = spec
            .service_account_name
            .as_deref()
            .filter(|name| !name.is_empty())
            .unwrap_or("default");
        let accounts = self.client.namespaced::<v1::ServiceAccount>(namespace);
        let response = accounts.create_subresource(account, "token", &body).await;
        let view: TokenRequestView = match response.map_err(|status| status.message.to_string())?.body {
            Body::Object(stored) => stored.decode().map_err(|error| error.to_string())?,
            Body::Json(json) => serde_json::from_slice(&json).map_err(|error| error.to_string())?,
            _ => return Err("the API server responded to a TokenRequest without a token".to_owned()),
        };
        Ok(CachedToken::new(view.status, now, key.seconds))
    }
}

impl CachedToken {
    fn new(status: TokenStatus, now: Timestamp, seconds: i64) -> Self {
        let requested = now
            .saturating_add(SignedDuration::from_secs(seconds))
            .unwrap_or(Timestamp::MAX);
        let expires_at = status.expiration_timestamp.unwrap_or(requested);
        let lifetime = expires_at.duration_since(now);
        let age = (lifetime / 5 * 4).min(MAX_AGE);
        Self {
            token: status.token,
            renew_at: now.saturating_add(age).unwrap_or(Timestamp::MAX),
            expires_at,
        }
    }
}

impl std::fmt::Debug for CachedToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CachedToken")
            .field("renew_at", &self.renew_at)
            .finish_non_exhaustive()
    }
}
