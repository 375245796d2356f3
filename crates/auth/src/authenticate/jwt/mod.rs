//! JSON Web Tokens of OpenID providers: `--oidc-*` flags and the `jwt` list of an AuthenticationConfiguration.
//!
//! A token is of the provider that its issuer claim names. Its signature is verified by the provider's keys, which are
//! fetched by discovery and again when no known key signed a token. Start reading at [`JwtAuthenticators`].
//!
//! The rules and messages are those of `staging/src/k8s.io/apiserver/plugin/pkg/authenticator/token/oidc` in Kubernetes.
//! Distributed claims are not supported.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use setpoint_api::Clock;

use super::bearer::{RemoteTokenAuthenticator, server_audiences};
use super::{AuthenticationError, TokenIdentity};
use crate::maybe_future::BoxFuture;
use crate::remote::Fetch;
use provider::Provider;
use token::Token;

mod claims;
pub mod config;
mod expressions;
mod key_set;
mod provider;
mod token;

pub use config::{AnonymousConfig, AuthenticationConfig, JwtConfig, PrefixedClaim};
pub use expressions::ClaimExpressions;
pub use key_set::SIGNING_ALGORITHMS;

/// How long before its `nbf` claim a token is accepted, since clocks differ.
const LEEWAY_SECONDS: i64 = 60;

/// Connects to a provider whose certificate is signed by these CAs, PEM; by those of the machine if there are none.
pub type ConnectProvider = Arc<dyn Fn(Option<&str>) -> Result<Arc<dyn Fetch>, String> + Send + Sync>;

/// The authenticators of all configured issuers. They are replaced when the configuration file changes.
pub struct JwtAuthenticators {
    /// The audiences of the server itself.
    api_audiences: Vec<String>,
    /// The signature algorithms that are accepted.
    signing_algorithms: Vec<String>,
    connect: ConnectProvider,
    clock: Arc<dyn Clock>,
    current: RwLock<Arc<Vec<JwtAuthenticator>>>,
}

/// Authenticates the tokens of one issuer.
#[derive(Debug)]
struct JwtAuthenticator {
    config: JwtConfig,
    provider: Provider,
}

// === impl JwtAuthenticators ===

impl JwtAuthenticators {
    /// Without issuers, until [`JwtAuthenticators::replace`] sets them.
    pub fn new(
        api_audiences: Vec<String>,
        signing_algorithms: Vec<String>,
        connect: ConnectProvider,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, String> {
        let is_known = |one: &&String| SIGNING_ALGORITHMS.contains(&one.as_str());
        if let Some(unknown) = signing_algorithms.iter().find(|one| !is_known(one)) {
            return Err(format!("oidc: unsupported signing alg: {unknown:?}"));
        }
        Ok(Self {
            api_audiences,
            signing_algorithms,
            connect,
            clock,
            current: RwLock::default(),
        })
    }

    /// Replaces the issuers. No provider is contacted before it is needed.
    pub fn replace(&self, configs: Vec<JwtConfig>) -> Result<(), String> {
        let all = Arc::new(self.build(configs)?);
        *self.current.write() = all;
        Ok(())
    }

    /// Replaces the issuers once all their providers respond; until then the old ones stay. Returns why one does not.
    pub async fn replace_when_healthy(&self, configs: Vec<JwtConfig>) -> Result<(), String> {
        let all = Arc::new(self.build(configs)?);
        for one in all.iter() {
            let unhealthy = |why| format!("oidc: issuer {:?}: {why}", one.config.issuer_url);
            one.provider.discover().await.map_err(unhealthy)?;
        }
        *self.current.write() = all;
        Ok(())
    }

    fn build(&self, configs: Vec<JwtConfig>) -> Result<Vec<JwtAuthenticator>, String> {
        let build = |config: JwtConfig| {
            let fetch = (self.connect)(config.certificate_authority.as_deref())?;
            let url = config.discovery_url.as_deref();
            let provider = Provider::new(&config.issuer_url, url, fetch, self.clock.clone());
            Ok(JwtAuthenticator { config, provider })
        };
        configs.into_iter().map(build).collect()
    }

    async fn authenticate(
        &self,
        text: &str,
        audiences: &[String],
    ) -> Result<Option<TokenIdentity>, AuthenticationError> {
        let Some(token) = Token::parse(text) else {
            return Ok(None);
        };
        let all = self.current.read().clone();
        let Some(one) = all.iter().find(|one| one.config.issuer_url == token.issuer()) else {
            return Ok(None);
        };
        let invalid = |why: String| AuthenticationError(format!("oidc: {why}"));
        self.verify(one, &token)
            .await
            .map_err(|why| invalid(format!("verify token: oidc: {why}")))?;
        let user = claims::user_of(&one.config, &token.claims).map_err(invalid)?;
        // The token is for this cluster, whatever the server calls itself.
        let audiences = server_audiences(&self.api_audiences, audiences);
        Ok(audiences.map(|audiences| TokenIdentity {
            user: Arc::new(user),
            audiences,
        }))
    }

    async fn verify(&self, one: &JwtAuthenticator, token: &Token<'_>) -> Result<(), String> {
        let algorithm = &token.header.alg;
        if !self.signing_algorithms.contains(algorithm) {
            return Err(format!(
                "id token signed with unsupported algorithm, expected {:?} got {algorithm:?}",
                self.signing_algorithms
            ));
        }
        one.provider.verify(token).await?;
        let (expected, found) = (&one.config.audiences, token.audiences());
        if !found
            .iter()
            .any(|audience| expected.iter().any(|own| own == audience))
        {
            return Err(format!("expected audience in {expected:?} got {found:?}"));
        }
        let now = self.clock.now().as_second();
        if token.seconds("exp").is_none_or(|expiry| expiry < now) {
            return Err("token is expired".to_owned());
        }
        if token
            .seconds("nbf")
            .is_some_and(|from| now + LEEWAY_SECONDS < from)
        {
            return Err("current time before the nbf (not before) time".to_owned());
        }
        Ok(())
    }
}

impl RemoteTokenAuthenticator for Arc<JwtAuthenticators> {
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [String],
    ) -> BoxFuture<'a, Result<Option<TokenIdentity>, AuthenticationError>> {
        Box::pin(self.authenticate(token, audiences))
    }
}

impl fmt::Debug for JwtAuthenticators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.current.read().iter()).finish()
    }
}

#[cfg(test)]
mod tests;
