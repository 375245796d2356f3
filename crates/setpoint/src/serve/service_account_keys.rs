//! The keys of service account tokens, from the files in the data directory, which `setpoint certs rotate` replaces, or
//! from those that flags name.

use std::path::Path;

use anyhow::{Context, Result};
use jiff::Timestamp;
use setpoint_auth::Issuer;
use setpoint_auth::keys::{self, PublicKey, SigningKey};
use setpoint_pki::service_account::{retired_keys, signing_key_file};

use crate::args::ServiceAccountFlags;

/// The key files of a data directory and of the flags.
#[derive(Debug)]
pub(super) struct ServiceAccountKeys<'a> {
    pki: &'a Path,
    flags: &'a ServiceAccountFlags,
}

impl<'a> ServiceAccountKeys<'a> {
    pub(super) fn new(pki: &'a Path, flags: &'a ServiceAccountFlags) -> Self {
        Self { pki, flags }
    }

    /// Reads the signing key and those that only verify. The signing key is generated if there is none.
    pub(super) fn read(&self, now: Timestamp) -> Result<(SigningKey, Vec<PublicKey>)> {
        let mut others = retired(self.pki, now)?;
        for file in &self.flags.service_account_key_file {
            let found = PublicKey::all_from_pem(&read(file)?);
            others.extend(found.with_context(|| format!("cannot use the keys in {}", file.display()))?);
        }
        Ok((self.signing_key()?, others))
    }

    fn signing_key(&self) -> Result<SigningKey> {
        let Some(file) = &self.flags.service_account_signing_key_file else {
            let signing = keys::load_or_generate(&signing_key_file(self.pki));
            return signing.context("cannot open the key that signs tokens");
        };
        SigningKey::from_pem(&read(file)?)
            .with_context(|| format!("cannot use the key in {}", file.display()))
    }

    /// Gives the issuer the keys of the files, if it has others. Those that have been retired for long enough are dropped.
    pub(super) fn refresh(&self, issuer: &Issuer, now: Timestamp) -> Result<()> {
        let (signing, others) = self.read(now)?;
        let ids = |keys: &[PublicKey]| keys.iter().map(|key| key.id.clone()).collect::<Vec<_>>();
        let current = signing.public().id.clone();
        let mut expected = ids(&others);
        expected.retain(|id| *id != current);
        expected.insert(0, current);
        if ids(&issuer.keys()) != expected {
            tracing::info!(
                signing = expected[0],
                "the keys of service account tokens were read again"
            );
            issuer.replace_keys(signing, others);
        }
        Ok(())
    }
}

fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

fn retired(pki: &Path, now: Timestamp) -> Result<Vec<PublicKey>> {
    let mut keys = Vec::new();
    for key in retired_keys(pki, now)? {
        let parsed = PublicKey::all_from_pem(&key.text);
        keys.extend(parsed.context("cannot read the retired keys of service account tokens")?);
    }
    Ok(keys)
}
