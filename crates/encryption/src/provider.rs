//! Providers: what seals and opens the values of a resource. The first one seals; of the others, the first whose prefix
//! matches and whose key fits opens. A value names its provider: `k8s:enc:aescbc:v1:<key>:<bytes>`.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest;

use setpoint_store::SealId;

use crate::cipher::{Cipher, GcmKey};
use crate::config::{KeysConfiguration, ProviderConfiguration};
use crate::kms::KmsProvider;

/// The prefix of every sealed value. JSON starts with a brace, protobuf with `k8s\0`.
pub(crate) const SEALED_PREFIX: &[u8] = b"k8s:enc:";

/// The providers of a resource, in the order of the configuration.
#[derive(Debug, Default)]
pub(crate) struct Providers(Vec<Arc<Provider>>);

/// One provider.
#[derive(Debug)]
pub(crate) enum Provider {
    /// Does not seal.
    Identity,
    /// Keys from the configuration.
    Keys(Keys),
    /// Keys that a plugin encrypts.
    Kms(Box<KmsProvider>),
}

/// Keys of one cipher, of which the first one seals.
pub(crate) struct Keys {
    prefix: &'static str,
    /// By the name with a colon.
    keys: Vec<(String, Cipher, SealId)>,
    no_match: &'static str,
}

/// Bytes, and what sealed them.
pub(crate) type WithSeal = (Vec<u8>, SealId);

/// The hash of these parts.
pub(crate) fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part);
    }
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

/// The seal of a provider and its key: equal on all servers.
pub(crate) fn seal_id(parts: &[&[u8]]) -> SealId {
    let mut first = [0; 8];
    first.copy_from_slice(&digest(parts)[..8]);
    SealId::new(u64::from_le_bytes(first))
}

impl Providers {
    pub(crate) fn new(providers: Vec<Arc<Provider>>) -> Self {
        Self(providers)
    }

    /// These providers, then the others.
    pub(crate) fn joined(&self, others: &Providers) -> Self {
        Self(self.0.iter().chain(&others.0).cloned().collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Provider>> {
        self.0.iter()
    }

    /// Seals a value with the first provider; `None` if that does not seal.
    pub(crate) fn seal(&self, value: &[u8], authenticated: &[u8]) -> Result<Option<WithSeal>, String> {
        match self.0.first().map(|provider| &**provider) {
            None | Some(Provider::Identity) => Ok(None),
            Some(Provider::Keys(keys)) => keys.seal(value, authenticated).map(Some),
            Some(Provider::Kms(provider)) => {
                let (sealed, seal) = provider.seal(value, authenticated)?;
                Ok(Some(([provider.prefix().as_bytes(), &sealed].concat(), seal)))
            }
        }
    }

    /// What [`Providers::seal`] would seal with now.
    pub(crate) fn current_seal(&self) -> SealId {
        match self.0.first().map(|provider| &**provider) {
            None | Some(Provider::Identity) => SealId::NONE,
            Some(Provider::Keys(keys)) => keys.keys.first().map(|key| key.2).unwrap_or_default(),
            Some(Provider::Kms(provider)) => provider.current_seal(),
        }
    }

    /// Opens a value with the first provider that can; `None` if it is not sealed.
    pub(crate) fn open(&self, value: &[u8], authenticated: &[u8]) -> Result<Option<WithSeal>, String> {
        let mut errors = Vec::new();
        for provider in &self.0 {
            let opened = match &**provider {
                Provider::Identity if value.starts_with(SEALED_PREFIX) => continue,
                Provider::Identity => return Ok(None),
                Provider::Keys(keys) => value
                    .strip_prefix(keys.prefix.as_bytes())
                    .map(|sealed| keys.open(sealed, authenticated)),
                Provider::Kms(provider) => value
                    .strip_prefix(provider.prefix().as_bytes())
                    .map(|sealed| provider.open(sealed, authenticated)),
            };
            match opened {
                Some(Ok(opened)) => return Ok(Some(opened)),
                Some(Err(error)) => errors.push(error),
                None => {}
            }
        }
        Err(aggregate(errors, "no matching prefix found"))
    }
}

impl Keys {
    pub(crate) fn gcm(configuration: &KeysConfiguration) -> Result<Self, String> {
        const NO_MATCH: &str = "no matching key was found for the provided AES transformer";
        let new = |key: &[u8]| GcmKey::new(key).map(Cipher::Gcm);
        Self::new("k8s:enc:aesgcm:v1:", configuration, NO_MATCH, new)
    }

    pub(crate) fn cbc(configuration: &KeysConfiguration) -> Result<Self, String> {
        const NO_MATCH: &str = "no matching key was found for the provided AES transformer";
        Self::new("k8s:enc:aescbc:v1:", configuration, NO_MATCH, Cipher::cbc)
    }

    pub(crate) fn secretbox(configuration: &KeysConfiguration) -> Result<Self, String> {
        const NO_MATCH: &str = "no matching key was found for the provided Secretbox transformer";
        Self::new(
            "k8s:enc:secretbox:v1:",
            configuration,
            NO_MATCH,
            Cipher::secretbox,
        )
    }

    fn new(
        prefix: &'static str,
        configuration: &KeysConfiguration,
        no_match: &'static str,
        new: impl Fn(&[u8]) -> Result<Cipher, String>,
    ) -> Result<Self, String> {
        let build = |key: &crate::config::Key| {
            let secret = STANDARD.decode(&key.secret).map_err(|error| error.to_string())?;
            let seal = seal_id(&[prefix.as_bytes(), key.name.as_bytes(), &secret]);
            Ok((format!("{}:", key.name), new(&secret)?, seal))
        };
        let keys: Result<Vec<_>, String> = configuration.keys.iter().map(build).collect();
        Ok(Self {
            prefix,
            keys: keys?,
            no_match,
        })
    }

    fn seal(&self, value: &[u8], authenticated: &[u8]) -> Result<WithSeal, String> {
        let (name, cipher, seal) = self.keys.first().ok_or(self.no_match)?;
        let encrypted = cipher.encrypt(value, authenticated)?;
        let sealed = [self.prefix.as_bytes(), name.as_bytes(), &encrypted].concat();
        Ok((sealed, *seal))
    }

    fn open(&self, sealed: &[u8], authenticated: &[u8]) -> Result<WithSeal, String> {
        let mut errors = Vec::new();
        for (name, cipher, seal) in &self.keys {
            let Some(encrypted) = sealed.strip_prefix(name.as_bytes()) else {
                continue;
            };
            match cipher.decrypt(encrypted, authenticated) {
                Ok(value) => return Ok((value, *seal)),
                Err(error) => errors.push(error),
            }
        }
        Err(aggregate(errors, self.no_match))
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.keys.iter().map(|(name, ..)| name.as_str()).collect();
        f.debug_struct("Keys")
            .field("prefix", &self.prefix)
            .field("names", &names)
            .finish()
    }
}

impl ProviderConfiguration {
    /// The provider of a valid configuration, except for KMS.
    pub(crate) fn keys_or_identity(&self) -> Result<Provider, String> {
        if let Some(keys) = &self.aesgcm {
            return Keys::gcm(keys).map(Provider::Keys);
        }
        if let Some(keys) = &self.aescbc {
            return Keys::cbc(keys).map(Provider::Keys);
        }
        if let Some(keys) = &self.secretbox {
            return Keys::secretbox(keys).map(Provider::Keys);
        }
        Ok(Provider::Identity)
    }
}

/// Several errors as one, as upstream prints them.
fn aggregate(errors: Vec<String>, none: &str) -> String {
    match errors.as_slice() {
        [] => none.to_owned(),
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
