//! Webhook token authentication: a remote server decides about bearer tokens by TokenReviews.
//!
//! The rules are those of `staging/src/k8s.io/apiserver/plugin/pkg/authenticator/token/webhook` in Kubernetes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ring::digest;
use serde::{Deserialize, Serialize};
use setpoint_api::{Clock, User};

use super::bearer::{RemoteTokenAuthenticator, intersect};
use super::{AuthenticationError, TokenIdentity};
use crate::authorize::rule::nullable_list;
use crate::expiring_cache::ExpiringCache;
use crate::maybe_future::BoxFuture;
use crate::remote::{self, ReviewClient};

const MAX_CACHED_TOKENS: usize = 4096;

/// Authenticates tokens by a webhook.
pub struct WebhookTokens {
    options: WebhookTokenOptions,
    client: Box<dyn ReviewClient>,
    clock: Arc<dyn Clock>,
    cache: ExpiringCache<CacheKey, TokenResult>,
}

/// The settings of webhook token authentication.
#[derive(Debug, Clone)]
pub struct WebhookTokenOptions {
    /// The API version of TokenReviews: `v1` or `v1beta1`.
    pub version: String,
    /// How long responses are cached, whether the token is valid or not. Errors are not cached.
    pub cache_ttl: Duration,
    /// The audiences of the server, which are those of a token if the webhook returns none.
    pub api_audiences: Vec<String>,
}

type TokenResult = Result<Option<TokenIdentity>, AuthenticationError>;

/// The digest of a token, and the audiences that were requested.
type CacheKey = ([u8; digest::SHA256_OUTPUT_LEN], Vec<String>);

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct TokenReview<'a> {
    kind: &'static str,
    api_version: String,
    metadata: BTreeMap<String, String>,
    spec: TokenReviewSpec<'a>,
    status: TokenReviewStatus,
}

#[derive(Debug, Serialize)]
struct TokenReviewSpec<'a> {
    token: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    audiences: &'a [String],
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ReviewResponse {
    status: TokenReviewStatus,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct TokenReviewStatus {
    #[serde(skip_serializing)]
    authenticated: bool,
    user: UserInfo,
    #[serde(skip_serializing, deserialize_with = "nullable_list")]
    audiences: Vec<String>,
    #[serde(skip_serializing)]
    error: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct UserInfo {
    #[serde(skip_serializing)]
    username: String,
    #[serde(skip_serializing)]
    uid: String,
    #[serde(skip_serializing, deserialize_with = "nullable_list")]
    groups: Vec<String>,
    #[serde(skip_serializing)]
    extra: Option<BTreeMap<String, Vec<String>>>,
}

// === impl WebhookTokens ===

impl WebhookTokens {
    /// Calls the webhook of this client. The error is an unsupported version.
    pub fn new(
        options: WebhookTokenOptions,
        client: Box<dyn ReviewClient>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, String> {
        if !["v1", "v1beta1"].contains(&options.version.as_str()) {
            return Err(format!(
                "unsupported authentication webhook version {:?}, supported versions are \"v1\", \"v1beta1\"",
                options.version
            ));
        }
        Ok(Self {
            options,
            client,
            clock,
            cache: ExpiringCache::new(MAX_CACHED_TOKENS),
        })
    }

    async fn authenticate(&self, token: &str, audiences: &[String]) -> TokenResult {
        let digest = digest::digest(&digest::SHA256, token.as_bytes());
        let digest = digest.as_ref().try_into().expect("the digest has its length");
        let key = (digest, audiences.to_vec());
        if let Some(result) = self.cache.find(&key, self.clock.now()) {
            return result;
        }
        let status = self.review(token, audiences).await?;
        let result = self.decide(status, audiences);
        if result.is_ok() {
            let now = self.clock.now();
            self.cache
                .insert(key, result.clone(), now, self.options.cache_ttl);
        }
        result
    }

    async fn review(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<TokenReviewStatus, AuthenticationError> {
        let review = TokenReview {
            kind: "TokenReview",
            api_version: format!("authentication.k8s.io/{}", self.options.version),
            metadata: BTreeMap::new(),
            spec: TokenReviewSpec { token, audiences },
            status: TokenReviewStatus::default(),
        };
        let review = setpoint_api::json::to_vec(&review).expect("a review has only strings");
        let response = remote::send_with_retries(&*self.client, &*self.clock, review).await;
        let response = response
            .map_err(|error| error.message)
            .and_then(|json| setpoint_api::json::from_slice(&json).map_err(|error| error.to_string()));
        let response: ReviewResponse = response.map_err(|error| {
            tracing::error!(%error, "failed to make webhook authenticator request");
            AuthenticationError(error)
        })?;
        Ok(response.status)
    }

    fn decide(&self, status: TokenReviewStatus, requested: &[String]) -> TokenResult {
        let own = match status.audiences.is_empty() {
            true => &self.options.api_audiences,
            false => &status.audiences,
        };
        let audiences = intersect(requested, own);
        if audiences.is_empty() {
            return Ok(None);
        }
        if !status.authenticated {
            return match status.error.is_empty() {
                true => Ok(None),
                false => Err(AuthenticationError(status.error)),
            };
        }
        let user = User {
            name: status.user.username,
            uid: status.user.uid,
            groups: status.user.groups,
            extra: status.user.extra.unwrap_or_default(),
        };
        let user = Arc::new(user);
        Ok(Some(TokenIdentity { user, audiences }))
    }
}

impl RemoteTokenAuthenticator for WebhookTokens {
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [String],
    ) -> BoxFuture<'a, TokenResult> {
        Box::pin(self.authenticate(token, audiences))
    }
}

impl fmt::Debug for WebhookTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookTokens")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
