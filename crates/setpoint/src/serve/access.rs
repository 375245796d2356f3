//! Authentication and authorization: the keys of service account tokens, and the `AccessControl` built on it.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use setpoint_api::{Clock, Stored};
use setpoint_auth::authenticate::TokenFile;
use setpoint_auth::token::issuer::DEFAULT_URL;
use setpoint_auth::{AccessControl, Issuer};
use setpoint_controllers::serviceaccount_tokens::TokenUses;
use setpoint_runtime::Caches;

use super::service_account_keys::ServiceAccountKeys;

/// Builds the access control on the server's caches.
pub(super) fn open(
    pki: &Path,
    token_file: Option<&Path>,
    caches: &Arc<dyn Caches>,
    clock: &Arc<dyn Clock>,
    uses: &TokenUses,
) -> Result<AccessControl> {
    let (key, retired) = ServiceAccountKeys::new(pki).read(clock.now())?;
    let issuer = Arc::new(Issuer::new(DEFAULT_URL, key, retired));
    let tokens = token_file.map(read_tokens).transpose()?;
    let (uses, now) = (uses.clone(), clock.clone());
    let note = Arc::new(move |secret: &Stored| uses.note(secret, now.now()));
    Ok(AccessControl::new(caches, clock, issuer, tokens, note))
}

fn read_tokens(file: &Path) -> Result<TokenFile> {
    let text = std::fs::read_to_string(file);
    let text = text.with_context(|| format!("cannot read the token file {}", file.display()))?;
    TokenFile::parse(&text, vec![DEFAULT_URL.to_owned()])
        .with_context(|| format!("cannot use the token file {}", file.display()))
}
