//! [`DataKey`]: the key that encrypts values, which the plugin has encrypted.

use std::fmt;

use ring::hkdf::{HKDF_SHA256, Prk};

use super::messages::SEED;
use crate::cipher::{GcmKey, random};

/// Bytes of a seed, of the information from which a key is derived, and of that key.
pub(crate) const SEED_BYTES: usize = 32;

/// A data encryption key.
pub(crate) enum DataKey {
    /// Encrypts values itself.
    Key(GcmKey),
    /// Each value has a key of its own, derived from the seed and 32 random bytes in front of the value.
    Seed(Prk),
}

impl DataKey {
    /// The key of a decrypted source of this type.
    pub(crate) fn new(source: &[u8], source_type: i32) -> Result<Self, String> {
        if source_type != SEED {
            return GcmKey::new(source).map(DataKey::Key);
        }
        if source.len() < SEED_BYTES {
            let length = source.len();
            return Err(format!("invalid seed length {length} used for key generation"));
        }
        Ok(DataKey::Seed(Prk::new_less_safe(HKDF_SHA256, source)))
    }

    pub(crate) fn encrypt(&self, value: &[u8], authenticated: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            DataKey::Key(key) => key.encrypt(value, authenticated),
            DataKey::Seed(seed) => {
                let info: [u8; SEED_BYTES] = random()?;
                let encrypted = derive(seed, &info)?.encrypt(value, authenticated)?;
                Ok([&info[..], &encrypted].concat())
            }
        }
    }

    pub(crate) fn decrypt(&self, stored: &[u8], authenticated: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            DataKey::Key(key) => key.decrypt(stored, authenticated),
            DataKey::Seed(seed) => {
                let (info, encrypted) = stored
                    .split_at_checked(SEED_BYTES)
                    .ok_or("the stored data was shorter than the required size")?;
                derive(seed, info)?.decrypt(encrypted, authenticated)
            }
        }
    }
}

fn derive(seed: &Prk, info: &[u8]) -> Result<GcmKey, String> {
    let mut key = [0; SEED_BYTES];
    let info = [info];
    let expanded = seed.expand(&info, HKDF_SHA256);
    let filled = expanded.and_then(|expanded| expanded.fill(&mut key));
    filled.map_err(|_| "failed to read a derived key from KDF".to_owned())?;
    GcmKey::new(&key)
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataKey")
    }
}
