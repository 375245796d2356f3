//! [`Provider`]: an OpenID provider, its discovery document and its keys, fetched when they are needed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::RwLock;
use serde::Deserialize;
use setpoint_api::Clock;
use tokio::sync::Mutex;

use super::key_set::KeySet;
use super::token::Token;
use crate::remote::Fetch;

/// How long after a failed discovery the next one may begin. Tokens are rejected until then.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(10);

/// An OpenID provider.
pub(super) struct Provider {
    issuer: String,
    /// Where the discovery document is.
    discovery_url: String,
    fetch: Arc<dyn Fetch>,
    clock: Arc<dyn Clock>,
    keys: RwLock<CachedKeys>,
    /// One request at a time fetches; others wait for its result.
    state: Mutex<State>,
}

/// The keys that were fetched last, and how often keys were fetched.
#[derive(Debug, Default, Clone)]
struct CachedKeys {
    keys: Arc<KeySet>,
    fetches: u64,
}

/// What is known of the provider.
#[derive(Debug)]
enum State {
    /// Discovery has not been tried.
    Unknown,
    /// Discovery failed at this time.
    Failed(Timestamp, String),
    /// The keys are at this URL.
    Discovered { jwks_uri: String },
}

#[derive(Debug, Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

impl Provider {
    pub(super) fn new(
        issuer: &str,
        discovery_url: Option<&str>,
        fetch: Arc<dyn Fetch>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let well_known = || {
            let base = issuer.strip_suffix('/').unwrap_or(issuer);
            format!("{base}/.well-known/openid-configuration")
        };
        Self {
            issuer: issuer.to_owned(),
            discovery_url: discovery_url.map_or_else(well_known, str::to_owned),
            fetch,
            clock,
            keys: RwLock::default(),
            state: Mutex::new(State::Unknown),
        }
    }

    /// Fetches the discovery document, unless it is known. Returns why it is not.
    pub(super) async fn discover(&self) -> Result<(), String> {
        let mut state = self.state.lock().await;
        self.jwks_uri(&mut state).await.map(drop)
    }

    /// Verifies the signature of a token. Keys are fetched if none of those that are known signed it: the provider may
    /// have rotated them.
    pub(super) async fn verify(&self, token: &Token<'_>) -> Result<(), String> {
        let known = self.keys.read().clone();
        if known.keys.verifies(token) {
            return Ok(());
        }
        let fetched = self.fetch_newer_than(known.fetches).await?;
        match fetched.verifies(token) {
            true => Ok(()),
            false => Err("failed to verify signature: failed to verify id token signature".to_owned()),
        }
    }

    /// The keys, fetched again unless another request has done so since.
    async fn fetch_newer_than(&self, fetches: u64) -> Result<Arc<KeySet>, String> {
        let mut state = self.state.lock().await;
        let known = self.keys.read().clone();
        if known.fetches > fetches {
            return Ok(known.keys);
        }
        let jwks_uri = self.jwks_uri(&mut state).await?;
        let failed = |error: String| format!("failed to verify signature: fetching keys {error}");
        let json = self.fetch.get(&jwks_uri).await.map_err(failed)?;
        let keys = Arc::new(KeySet::parse(&json).map_err(failed)?);
        *self.keys.write() = CachedKeys {
            keys: keys.clone(),
            fetches: known.fetches + 1,
        };
        Ok(keys)
    }

    async fn jwks_uri(&self, state: &mut State) -> Result<String, String> {
        let now = self.clock.now();
        match state {
            State::Discovered { jwks_uri } => return Ok(jwks_uri.clone()),
            State::Failed(at, error) if now.duration_since(*at).unsigned_abs() < DISCOVERY_INTERVAL => {
                return Err(format!("authenticator not initialized: {error}"));
            }
            State::Failed(..) | State::Unknown => {}
        }
        match self.fetch_discovery().await {
            Ok(discovery) => {
                let jwks_uri = discovery.jwks_uri;
                *state = State::Discovered {
                    jwks_uri: jwks_uri.clone(),
                };
                Ok(jwks_uri)
            }
            Err(error) => {
                tracing::error!(issuer = %self.issuer, %error, "cannot discover the OpenID provider");
                *state = State::Failed(now, error.clone());
                Err(format!("authenticator not initialized: {error}"))
            }
        }
    }

    async fn fetch_discovery(&self) -> Result<Discovery, String> {
        let json = self.fetch.get(&self.discovery_url).await?;
        let discovery: Discovery =
            setpoint_api::json::from_slice(&json).map_err(|error| error.to_string())?;
        if discovery.issuer != self.issuer {
            return Err(format!(
                "oidc: issuer did not match the issuer returned by provider, expected {:?} got {:?}",
                self.issuer, discovery.issuer
            ));
        }
        Ok(discovery)
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}
