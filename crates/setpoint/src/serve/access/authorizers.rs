//! The authorizers that the flags or the configuration file name.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use setpoint_api::Clock;
use setpoint_auth::authorize::config::{self, AuthorizerConfig, MODES, WebhookConfig};
use setpoint_auth::authorize::{
    ConfiguredAuthorizer, FailurePolicy, MatchConditions, WebhookAuthorizer, WebhookOptions,
};

use super::{WEBHOOK_TIMEOUT, remote};
use crate::args::AuthorizationFlags;

const DEFAULT_AUTHORIZED_TTL: Duration = Duration::from_secs(300);
const DEFAULT_UNAUTHORIZED_TTL: Duration = Duration::from_secs(30);

/// The configuration of the authorizers, in order.
pub(super) fn configs(flags: &AuthorizationFlags) -> Result<Vec<AuthorizerConfig>> {
    if let Some(path) = &flags.authorization_config {
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        return config::parse(&text).with_context(|| {
            format!(
                "failed to load AuthorizationConfiguration from {}",
                path.display()
            )
        });
    }
    let modes = &flags.authorization_mode;
    let mut seen = HashSet::new();
    ensure!(
        modes.iter().all(|mode| seen.insert(mode)),
        "authorization-mode {modes:?} has mode specified more than once"
    );
    ensure!(
        flags.authorization_webhook_config_file.is_none() || modes.iter().any(|mode| mode == "Webhook"),
        "cannot specify --authorization-webhook-config-file without mode Webhook"
    );
    match modes.is_empty() {
        true => Ok(vec![AuthorizerConfig::Node, AuthorizerConfig::Rbac]),
        false => modes.iter().map(|mode| from_mode(mode, flags)).collect(),
    }
}

/// Whether the flags name the mode AlwaysAllow, with which anonymous requests are not accepted.
pub(super) fn always_allow(flags: &AuthorizationFlags) -> bool {
    flags.authorization_mode.iter().any(|mode| mode == "AlwaysAllow")
}

fn from_mode(mode: &str, flags: &AuthorizationFlags) -> Result<AuthorizerConfig> {
    if let Some(config) = AuthorizerConfig::from_mode(mode) {
        return Ok(config);
    }
    match mode {
        "Webhook" => webhook(flags).map(AuthorizerConfig::Webhook),
        mode if MODES.contains(&mode) => bail!("authorization-mode {mode:?} is not supported; use RBAC"),
        mode => bail!("authorization-mode {mode:?} is not a valid mode"),
    }
}

fn webhook(flags: &AuthorizationFlags) -> Result<WebhookConfig> {
    let kubeconfig = flags.authorization_webhook_config_file.clone();
    let version = flags.authorization_webhook_version.as_deref();
    let (authorized, unauthorized) = (
        flags.authorization_webhook_cache_authorized_ttl,
        flags.authorization_webhook_cache_unauthorized_ttl,
    );
    Ok(WebhookConfig {
        name: "default".to_owned(),
        options: WebhookOptions {
            version: version.unwrap_or("v1beta1").to_owned(),
            authorized_ttl: authorized.unwrap_or(DEFAULT_AUTHORIZED_TTL),
            unauthorized_ttl: unauthorized.unwrap_or(DEFAULT_UNAUTHORIZED_TTL),
            failure_policy: FailurePolicy::NoOpinion,
            match_conditions: MatchConditions::default(),
        },
        timeout: WEBHOOK_TIMEOUT,
        kubeconfig: kubeconfig
            .context("authorization-mode Webhook's authorization config file not passed")?,
    })
}

/// The authorizers of a configuration. Webhooks are not called before the first request.
pub(super) fn build(
    configs: &[AuthorizerConfig],
    clock: &Arc<dyn Clock>,
) -> Result<Vec<ConfiguredAuthorizer>> {
    let build = |config: &AuthorizerConfig| {
        Ok(match config {
            AuthorizerConfig::AlwaysAllow => ConfiguredAuthorizer::AlwaysAllow,
            AuthorizerConfig::AlwaysDeny => ConfiguredAuthorizer::AlwaysDeny,
            AuthorizerConfig::Node => ConfiguredAuthorizer::Node,
            AuthorizerConfig::Rbac => ConfiguredAuthorizer::Rbac,
            AuthorizerConfig::Webhook(webhook) => {
                let client = remote::webhook(&webhook.kubeconfig, webhook.timeout, clock)?;
                let options = webhook.options.clone();
                let authorizer = WebhookAuthorizer::new(options, Box::new(client), clock.clone());
                ConfiguredAuthorizer::Webhook {
                    name: webhook.name.clone(),
                    webhook: Arc::new(authorizer.map_err(anyhow::Error::msg)?),
                }
            }
        })
    };
    configs.iter().map(build).collect()
}

#[cfg(test)]
mod tests;
