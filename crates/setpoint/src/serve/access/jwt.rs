//! JWT authenticators, from the configuration file or the `--oidc-*` flags.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use setpoint_api::Clock;
use setpoint_auth::Issuer;
use setpoint_auth::authenticate::jwt::{PrefixedClaim, SIGNING_ALGORITHMS};
use setpoint_auth::authenticate::{AuthenticationConfig, JwtAuthenticators, JwtConfig};

use super::remote;
use crate::args::{AuthenticationFlags, OidcFlags};

/// The authentication configuration of the file, or else of the flags.
pub(super) fn config(flags: &AuthenticationFlags, issuer: &Issuer) -> Result<AuthenticationConfig> {
    let disallowed = disallowed_issuers(issuer);
    if let Some(path) = &flags.authentication_config {
        let text = read(path)?;
        let what = || format!("failed to load authentication configuration from file {path:?}");
        return AuthenticationConfig::parse(&text, &disallowed).with_context(what);
    }
    let config = AuthenticationConfig {
        jwt: from_flags(&flags.oidc)?.into_iter().collect(),
        anonymous: None,
    };
    config
        .check(&disallowed)
        .context("invalid authentication configuration")
}

/// The issuers of service account tokens, which no OpenID provider may have.
pub(super) fn disallowed_issuers(issuer: &Issuer) -> Vec<String> {
    let mut all = vec![issuer.url.clone()];
    all.extend(issuer.accepted_urls.iter().cloned());
    all
}

/// The authenticators of the configuration; none if neither a file nor a flag configures them.
pub(super) fn authenticators(
    flags: &AuthenticationFlags,
    config: &AuthenticationConfig,
    issuer: &Issuer,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Arc<JwtAuthenticators>>> {
    let algorithms = match (&flags.authentication_config, config.jwt.is_empty()) {
        (Some(_), _) => SIGNING_ALGORITHMS.iter().map(ToString::to_string).collect(),
        (None, false) => flags.oidc.oidc_signing_algs.clone(),
        (None, true) => return Ok(None),
    };
    let connect = remote::connect_providers(clock);
    let all = JwtAuthenticators::new(issuer.audiences.clone(), algorithms, connect, clock.clone());
    let all = all.map_err(anyhow::Error::msg)?;
    all.replace(config.jwt.clone()).map_err(anyhow::Error::msg)?;
    Ok(Some(Arc::new(all)))
}

fn from_flags(flags: &OidcFlags) -> Result<Option<JwtConfig>> {
    let (Some(issuer_url), Some(client_id)) = (&flags.oidc_issuer_url, &flags.oidc_client_id) else {
        return Ok(None);
    };
    let username_prefix = match flags.oidc_username_prefix.as_deref() {
        Some("-") => String::new(),
        None | Some("") if flags.oidc_username_claim == "email" => String::new(),
        None | Some("") => format!("{issuer_url}#"),
        Some(prefix) => prefix.to_owned(),
    };
    let groups = flags.oidc_groups_claim.as_ref().map(|claim| PrefixedClaim {
        claim: claim.clone(),
        prefix: flags.oidc_groups_prefix.clone().unwrap_or_default(),
    });
    Ok(Some(JwtConfig {
        issuer_url: issuer_url.clone(),
        certificate_authority: flags.oidc_ca_file.as_deref().map(read).transpose()?,
        audiences: vec![client_id.clone()],
        username: PrefixedClaim {
            claim: flags.oidc_username_claim.clone(),
            prefix: username_prefix,
        },
        groups,
        required_claims: flags.oidc_required_claim.clone(),
        ..JwtConfig::default()
    }))
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests;
