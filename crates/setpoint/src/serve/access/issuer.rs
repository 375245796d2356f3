//! The issuer of service account tokens: its URLs, and the audiences of the server.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use jiff::Timestamp;
use setpoint_auth::Issuer;
use setpoint_auth::token::issuer::DEFAULT_URL;

use crate::args::ServiceAccountFlags;
use crate::serve::service_account_keys::ServiceAccountKeys;

const MIN_MAX_EXPIRATION: Duration = Duration::from_secs(3600);
const MAX_MAX_EXPIRATION: Duration = Duration::from_secs(1 << 32);

/// The issuer that the flags describe.
pub(in crate::serve) fn open(flags: &ServiceAccountFlags, pki: &Path, now: Timestamp) -> Result<Issuer> {
    check(flags)?;
    let (signing, others) = ServiceAccountKeys::new(pki, flags).read(now)?;
    let issuers = &flags.service_account_issuer;
    let url = issuers.first().map_or(DEFAULT_URL, String::as_str);
    let mut issuer = Issuer::new(url, signing, others);
    issuer.accepted_urls = issuers.iter().skip(1).cloned().collect();
    issuer.jwks_uri.clone_from(&flags.service_account_jwks_uri);
    issuer.extend_expiration = flags.service_account_extend_token_expiration;
    issuer.audiences = match (flags.api_audiences.is_empty(), issuers.is_empty()) {
        (false, _) => flags.api_audiences.clone(),
        (true, false) => issuers.clone(),
        (true, true) => vec![url.to_owned()],
    };
    let max = flags.service_account_max_token_expiration;
    issuer.max_expiration_seconds = max.map(|max| i64::try_from(max.as_secs()).unwrap_or(i64::MAX));
    Ok(issuer)
}

fn check(flags: &ServiceAccountFlags) -> Result<()> {
    let mut seen = HashSet::new();
    for issuer in &flags.service_account_issuer {
        ensure!(
            !issuer.is_empty(),
            "service-account-issuer should not be an empty string"
        );
        ensure!(
            seen.insert(issuer),
            "service-account-issuer {issuer:?} is already specified"
        );
    }
    if let Some(uri) = &flags.service_account_jwks_uri {
        ensure!(
            uri.starts_with("https://"),
            "service-account-jwks-uri requires https scheme, parsed as: {uri}"
        );
    }
    if let Some(max) = flags.service_account_max_token_expiration {
        ensure!(
            (MIN_MAX_EXPIRATION..=MAX_MAX_EXPIRATION).contains(&max),
            "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds"
        );
    }
    Ok(())
}
