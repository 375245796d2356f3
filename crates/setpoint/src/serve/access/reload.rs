//! Configuration files of authentication and authorization, read again when they change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use setpoint_api::Clock;
use setpoint_auth::authenticate::{AuthenticationConfig, JwtAuthenticators};
use setpoint_auth::authorize::ReloadableAuthorizer;
use setpoint_auth::authorize::config::{self, AuthorizerConfig};
use tokio_util::sync::CancellationToken;

use super::authorizers;

/// How often the files are read.
const INTERVAL: Duration = Duration::from_secs(5);

/// The files, and the authenticators and authorizers that they configure.
pub(in crate::serve) struct Reload {
    clock: Arc<dyn Clock>,
    authorization: Option<AuthorizationFile>,
    authentication: Option<AuthenticationFile>,
}

/// A file, and its text when it was last used, valid or not.
struct WatchedFile {
    path: PathBuf,
    text: String,
}

struct AuthorizationFile {
    file: WatchedFile,
    /// The configuration at start, whose types must stay.
    first: Vec<AuthorizerConfig>,
    authorizer: Arc<ReloadableAuthorizer>,
}

struct AuthenticationFile {
    file: WatchedFile,
    /// The configuration at start, whose anonymous section must stay.
    first: AuthenticationConfig,
    jwt: Arc<JwtAuthenticators>,
    disallowed_issuers: Vec<String>,
}

// === impl Reload ===

impl Reload {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            authorization: None,
            authentication: None,
        }
    }

    pub(super) fn watch_authorization(
        &mut self,
        path: &Path,
        first: Vec<AuthorizerConfig>,
        authorizer: Arc<ReloadableAuthorizer>,
    ) {
        self.authorization = Some(AuthorizationFile {
            file: WatchedFile::open(path),
            first,
            authorizer,
        });
    }

    pub(super) fn watch_authentication(
        &mut self,
        path: &Path,
        first: AuthenticationConfig,
        jwt: Arc<JwtAuthenticators>,
        disallowed_issuers: Vec<String>,
    ) {
        self.authentication = Some(AuthenticationFile {
            file: WatchedFile::open(path),
            first,
            jwt,
            disallowed_issuers,
        });
    }

    /// Reads the files at intervals until stopped.
    pub(in crate::serve) async fn run(mut self, stop: CancellationToken) -> Result<()> {
        if self.authorization.is_none() && self.authentication.is_none() {
            stop.cancelled().await;
        }
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = self.clock.sleep(INTERVAL) => {}
            }
            if let Some(authorization) = &mut self.authorization {
                log("authorization", authorization.reload(&self.clock));
            }
            if let Some(authentication) = &mut self.authentication {
                log("authentication", authentication.reload().await);
            }
        }
    }
}

fn log(what: &str, reloaded: Result<bool>) {
    match reloaded {
        Ok(false) => {}
        Ok(true) => tracing::info!("reloaded {what} config"),
        Err(error) => tracing::error!(error = format!("{error:#}"), "reloading {what} config"),
    }
}

// === impl WatchedFile ===

impl WatchedFile {
    fn open(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            text: std::fs::read_to_string(path).unwrap_or_default(),
        }
    }

    /// The text of the file, if it has changed.
    fn changed(&self) -> Result<Option<String>> {
        let text = std::fs::read_to_string(&self.path)?;
        Ok((text != self.text).then_some(text))
    }
}

// === impl AuthorizationFile ===

impl AuthorizationFile {
    /// Returns whether the file has changed and is in use. An invalid file is reported once.
    fn reload(&mut self, clock: &Arc<dyn Clock>) -> Result<bool> {
        let Some(text) = self.file.changed()? else {
            return Ok(false);
        };
        self.file.text.clone_from(&text);
        let configs = config::parse(&text)?;
        config::check_reload(&self.first, &configs).map_err(anyhow::Error::msg)?;
        self.authorizer.replace(authorizers::build(&configs, clock)?);
        Ok(true)
    }
}

// === impl AuthenticationFile ===

impl AuthenticationFile {
    /// Returns whether the file has changed and is in use. An invalid file is reported once; a provider that does not
    /// respond is tried again.
    async fn reload(&mut self) -> Result<bool> {
        let Some(text) = self.file.changed()? else {
            return Ok(false);
        };
        let parsed = AuthenticationConfig::parse(&text, &self.disallowed_issuers);
        let config = parsed.inspect_err(|_| self.file.text.clone_from(&text))?;
        if config.anonymous != self.first.anonymous {
            self.file.text = text;
            bail!("anonymous: Forbidden: changed from initial configuration file");
        }
        let replaced = self.jwt.replace_when_healthy(config.jwt).await;
        replaced.map_err(anyhow::Error::msg)?;
        self.file.text = text;
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
