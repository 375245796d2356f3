//! The ciphers with keys from the configuration, and the AES-GCM of data encryption keys. Formats:
//!
//! | cipher | bytes | authenticated data |
//! |---|---|---|
//! | AES-GCM | nonce (12), ciphertext, tag (16) | yes |
//! | AES-CBC | initialization vector (16), ciphertext with PKCS #7 padding | no |
//! | secretbox (XSalsa20, Poly1305) | nonce (24), tag (16), ciphertext | no |

use std::fmt;

use aes::cipher::block_padding::Pkcs7;
use aes::cipher::{BlockDecryptMut, BlockEncryptMut, KeyIvInit};
use aes::{Aes128, Aes192, Aes256};
use aes_gcm::aead::consts::U12;
use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes128Gcm, Aes256Gcm, AesGcm};
use crypto_secretbox::XSalsa20Poly1305;
use ring::rand::{SecureRandom, SystemRandom};

type Aes192Gcm = AesGcm<Aes192, U12>;

const GCM_NONCE_BYTES: usize = 12;
const CBC_BLOCK_BYTES: usize = 16;
const SECRETBOX_NONCE_BYTES: usize = 24;
const SECRETBOX_TAG_BYTES: usize = 16;

const TOO_SHORT: &str = "the stored data was shorter than the required size";

/// A cipher with its key.
pub(crate) enum Cipher {
    Gcm(GcmKey),
    Cbc(Vec<u8>),
    Secretbox(Box<XSalsa20Poly1305>),
}

/// AES-GCM with a key of one of the three lengths.
pub(crate) enum GcmKey {
    Aes128(Box<Aes128Gcm>),
    Aes192(Box<Aes192Gcm>),
    Aes256(Box<Aes256Gcm>),
}

impl Cipher {
    /// AES-CBC with a key of one of the three lengths.
    pub(crate) fn cbc(key: &[u8]) -> Result<Self, String> {
        check_aes_key(key)?;
        Ok(Cipher::Cbc(key.to_vec()))
    }

    pub(crate) fn secretbox(key: &[u8]) -> Result<Self, String> {
        let cipher = XSalsa20Poly1305::new_from_slice(key);
        let cipher =
            cipher.map_err(|_| format!("expected key size 32 for secretbox provider, got {}", key.len()))?;
        Ok(Cipher::Secretbox(Box::new(cipher)))
    }

    pub(crate) fn encrypt(&self, value: &[u8], authenticated: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Cipher::Gcm(key) => key.encrypt(value, authenticated),
            Cipher::Cbc(key) => {
                let vector: [u8; CBC_BLOCK_BYTES] = random()?;
                let encrypted = match key.len() {
                    16 => cbc_encrypt::<Aes128>(key, &vector, value),
                    24 => cbc_encrypt::<Aes192>(key, &vector, value),
                    _ => cbc_encrypt::<Aes256>(key, &vector, value),
                };
                Ok([&vector[..], &encrypted?].concat())
            }
            Cipher::Secretbox(cipher) => {
                let nonce: [u8; SECRETBOX_NONCE_BYTES] = random()?;
                let encrypted = cipher.encrypt(&nonce.into(), value).map_err(|_| FAILED)?;
                Ok([&nonce[..], &encrypted].concat())
            }
        }
    }

    pub(crate) fn decrypt(&self, stored: &[u8], authenticated: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Cipher::Gcm(key) => key.decrypt(stored, authenticated),
            Cipher::Cbc(key) => {
                let (vector, encrypted) = stored.split_at_checked(CBC_BLOCK_BYTES).ok_or(TOO_SHORT)?;
                if encrypted.len() % CBC_BLOCK_BYTES != 0 {
                    return Err("the stored data is not a multiple of the block size".to_owned());
                }
                match key.len() {
                    16 => cbc_decrypt::<Aes128>(key, vector, encrypted),
                    24 => cbc_decrypt::<Aes192>(key, vector, encrypted),
                    _ => cbc_decrypt::<Aes256>(key, vector, encrypted),
                }
            }
            Cipher::Secretbox(cipher) => {
                if stored.len() < SECRETBOX_NONCE_BYTES + SECRETBOX_TAG_BYTES {
                    return Err(TOO_SHORT.to_owned());
                }
                let (nonce, encrypted) = stored.split_at(SECRETBOX_NONCE_BYTES);
                let decrypted = cipher.decrypt(nonce.into(), encrypted);
                // Upstream's words for a tag that does not match.
                decrypted.map_err(|_| "output array was not large enough for encryption".to_owned())
            }
        }
    }
}

impl GcmKey {
    pub(crate) fn new(key: &[u8]) -> Result<Self, String> {
        check_aes_key(key)?;
        let invalid = |_| "invalid key".to_owned();
        Ok(match key.len() {
            16 => GcmKey::Aes128(Box::new(Aes128Gcm::new_from_slice(key).map_err(invalid)?)),
            24 => GcmKey::Aes192(Box::new(Aes192Gcm::new_from_slice(key).map_err(invalid)?)),
            _ => GcmKey::Aes256(Box::new(Aes256Gcm::new_from_slice(key).map_err(invalid)?)),
        })
    }

    /// Encrypts with a random nonce.
    pub(crate) fn encrypt(&self, value: &[u8], authenticated: &[u8]) -> Result<Vec<u8>, String> {
        let nonce: [u8; GCM_NONCE_BYTES] = random()?;
        let payload = Payload {
            msg: value,
            aad: authenticated,
        };
        let encrypted = match self {
            GcmKey::Aes128(cipher) => cipher.encrypt(&nonce.into(), payload),
            GcmKey::Aes192(cipher) => cipher.encrypt(&nonce.into(), payload),
            GcmKey::Aes256(cipher) => cipher.encrypt(&nonce.into(), payload),
        };
        Ok([&nonce[..], &encrypted.map_err(|_| FAILED)?].concat())
    }

    pub(crate) fn decrypt(&self, stored: &[u8], authenticated: &[u8]) -> Result<Vec<u8>, String> {
        let (nonce, encrypted) = stored.split_at_checked(GCM_NONCE_BYTES).ok_or(TOO_SHORT)?;
        let payload = Payload {
            msg: encrypted,
            aad: authenticated,
        };
        let decrypted = match self {
            GcmKey::Aes128(cipher) => cipher.decrypt(nonce.into(), payload),
            GcmKey::Aes192(cipher) => cipher.decrypt(nonce.into(), payload),
            GcmKey::Aes256(cipher) => cipher.decrypt(nonce.into(), payload),
        };
        decrypted.map_err(|_| "cipher: message authentication failed".to_owned())
    }
}

const FAILED: &str = "encryption failed";

fn check_aes_key(key: &[u8]) -> Result<(), String> {
    match key.len() {
        16 | 24 | 32 => Ok(()),
        length => Err(format!("crypto/aes: invalid key size {length}")),
    }
}

fn cbc_encrypt<C>(key: &[u8], vector: &[u8], value: &[u8]) -> Result<Vec<u8>, String>
where
    cbc::Encryptor<C>: KeyIvInit + BlockEncryptMut,
    C: BlockEncryptMut + aes::cipher::BlockCipher,
{
    let cipher = cbc::Encryptor::<C>::new_from_slices(key, vector).map_err(|_| FAILED)?;
    Ok(cipher.encrypt_padded_vec_mut::<Pkcs7>(value))
}

fn cbc_decrypt<C>(key: &[u8], vector: &[u8], encrypted: &[u8]) -> Result<Vec<u8>, String>
where
    cbc::Decryptor<C>: KeyIvInit + BlockDecryptMut,
    C: BlockDecryptMut + aes::cipher::BlockCipher,
{
    let cipher = cbc::Decryptor::<C>::new_from_slices(key, vector).map_err(|_| FAILED)?;
    let decrypted = cipher.decrypt_padded_vec_mut::<Pkcs7>(encrypted);
    decrypted.map_err(|_| "invalid padding on input".to_owned())
}

/// Random bytes of the operating system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| "unable to read sufficient random bytes".to_owned())?;
    Ok(bytes)
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cipher::Gcm(_) => "aesgcm",
            Cipher::Cbc(_) => "aescbc",
            Cipher::Secretbox(_) => "secretbox",
        })
    }
}

impl fmt::Debug for GcmKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GcmKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cipher: &Cipher) {
        let encrypted = cipher.encrypt(b"value", b"/registry/secrets/a/b").unwrap();
        assert_ne!(
            encrypted,
            cipher.encrypt(b"value", b"/registry/secrets/a/b").unwrap()
        );
        let decrypted = cipher.decrypt(&encrypted, b"/registry/secrets/a/b");
        assert_eq!(decrypted.unwrap(), b"value");
        assert_eq!(cipher.decrypt(&encrypted[..5], b"").unwrap_err(), TOO_SHORT);
    }

    #[test]
    fn every_cipher_reverts_itself() {
        for length in [16, 24, 32] {
            let key: Vec<u8> = (0..length).collect();
            check(&Cipher::Gcm(GcmKey::new(&key).unwrap()));
            check(&Cipher::cbc(&key).unwrap());
        }
        check(&Cipher::secretbox(&[7; 32]).unwrap());
    }

    #[test]
    fn another_key_or_other_data_is_an_error() {
        let key = GcmKey::new(&[1; 32]).unwrap();
        let encrypted = key.encrypt(b"value", b"a").unwrap();
        assert!(key.decrypt(&encrypted, b"b").is_err());
        let other = GcmKey::new(&[2; 32]).unwrap();
        assert_eq!(
            other.decrypt(&encrypted, b"a").unwrap_err(),
            "cipher: message authentication failed"
        );
        let boxed = Cipher::secretbox(&[1; 32])
            .unwrap()
            .encrypt(b"value", b"")
            .unwrap();
        assert!(Cipher::secretbox(&[2; 32]).unwrap().decrypt(&boxed, b"").is_err());
    }
}
