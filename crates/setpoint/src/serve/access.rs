//! Authentication and authorization, from the flags: `AccessControl`, and the configuration files that are read again
//! when they change.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use setpoint_api::{Clock, Stored};
use setpoint_auth::authenticate::jwt::AnonymousConfig;
use setpoint_auth::authenticate::{
    AuthenticationConfig, JwtAuthenticators, RemoteTokenAuthenticator, TokenFile, WebhookTokenOptions,
    WebhookTokens,
};
use setpoint_auth::{AccessControl, AccessOptions, Issuer};
use setpoint_controllers::serviceaccount_tokens::TokenUses;
use setpoint_runtime::Caches;

use super::credentials::Credentials;
use crate::args::{AuthenticationFlags, Up};

mod authorizers;
mod issuer;
mod jwt;
mod reload;
mod remote;

pub(super) use issuer::open as open_issuer;
pub(super) use reload::Reload;

/// The timeout of webhook calls, if no other is configured.
const WEBHOOK_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// Builds the access control on the server's caches.
pub(super) fn open(
    args: &Up,
    credentials: &mut Credentials,
    caches: &Arc<dyn Caches>,
    clock: &Arc<dyn Clock>,
    uses: &TokenUses,
) -> Result<(AccessControl, Reload)> {
    let flags = &args.authentication_flags;
    let issuer = credentials.issuer.clone();
    let authentication = jwt::config(flags, &issuer)?;
    let jwt = jwt::authenticators(flags, &authentication, &issuer, clock)?;
    let authorizers = authorizers::configs(&args.authorization_flags)?;
    let (uses, now) = (uses.clone(), clock.clone());
    let options = AccessOptions {
        token_file: credentials.token_file.take(),
        service_account_lookup: args.service_account_flags.service_account_lookup,
        on_token_use: Arc::new(move |secret: &Stored| uses.note(secret, now.now())),
        remote_tokens: remote_tokens(flags, jwt.clone(), &issuer, clock)?,
        anonymous: anonymous(
            flags,
            &authentication,
            authorizers::always_allow(&args.authorization_flags),
        )?,
        authorizers: authorizers::build(&authorizers, clock)?,
        reload_authorizers: args.authorization_flags.authorization_config.is_some(),
        ..AccessOptions::new(issuer.clone())
    };
    let access = AccessControl::new(caches, clock, options);
    let mut reload = Reload::new(clock.clone());
    if let (Some(path), Some(current)) = (&args.authorization_flags.authorization_config, &access.reloadable)
    {
        reload.watch_authorization(path, authorizers, current.clone());
    }
    if let (Some(path), Some(jwt)) = (&flags.authentication_config, jwt) {
        reload.watch_authentication(path, authentication, jwt, jwt::disallowed_issuers(&issuer));
    }
    Ok((access, reload))
}

/// The authenticators of tokens that call remote servers: OpenID providers, then the webhook.
fn remote_tokens(
    flags: &AuthenticationFlags,
    jwt: Option<Arc<JwtAuthenticators>>,
    issuer: &Issuer,
    clock: &Arc<dyn Clock>,
) -> Result<Vec<Box<dyn RemoteTokenAuthenticator>>> {
    let mut all: Vec<Box<dyn RemoteTokenAuthenticator>> = Vec::new();
    all.extend(jwt.map(|jwt| Box::new(jwt) as Box<dyn RemoteTokenAuthenticator>));
    if let Some(kubeconfig) = &flags.authentication_token_webhook_config_file {
        let client = remote::webhook(kubeconfig, WEBHOOK_TIMEOUT, clock)?;
        let options = WebhookTokenOptions {
            version: flags.authentication_token_webhook_version.clone(),
            cache_ttl: flags.authentication_token_webhook_cache_ttl,
            api_audiences: issuer.audiences.clone(),
        };
        let webhook = WebhookTokens::new(options, Box::new(client), clock.clone());
        all.push(Box::new(webhook.map_err(anyhow::Error::msg)?));
    }
    Ok(all)
}

/// The paths that may be requested anonymously, all if there are none; `None` if anonymous requests are rejected.
fn anonymous(
    flags: &AuthenticationFlags,
    config: &AuthenticationConfig,
    always_allow: bool,
) -> Result<Option<Vec<String>>> {
    let paths = |config: &AnonymousConfig| config.conditions.iter().map(|one| one.path.clone()).collect();
    match (&config.anonymous, flags.anonymous_auth) {
        (Some(_), Some(_)) => bail!(
            "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in \
             authentication configuration file"
        ),
        (Some(config), None) => Ok(config.enabled.then(|| paths(config))),
        (None, Some(false)) => Ok(None),
        (None, flag) if always_allow => {
            if flag == Some(true) {
                tracing::warn!("--anonymous-auth is false with the authorization mode AlwaysAllow");
            }
            Ok(None)
        }
        (None, _) => Ok(Some(Vec::new())),
    }
}

/// Reads the tokens of `--token-auth-file`.
pub(super) fn read_tokens(file: Option<&Path>, issuer: &Issuer) -> Result<Option<TokenFile>> {
    let Some(file) = file else {
        return Ok(None);
    };
    let text = std::fs::read_to_string(file);
    let text = text.with_context(|| format!("cannot read the token file {}", file.display()))?;
    TokenFile::parse(&text, issuer.audiences.clone())
        .map(Some)
        .with_context(|| format!("cannot use the token file {}", file.display()))
}
