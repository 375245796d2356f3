//! The keys of service account tokens in the data directory, and their rotation.
//!
//! `service-account.key` signs. The public keys of its predecessors are in `service-account-retired.pem`, each after a
//! comment with the time until which it verifies tokens. A key in that file without such a comment is never dropped.

use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use setpoint_x509::{PrivateKey, pem};

use crate::Error;
use crate::certificates::lock;
use crate::pair::{OWNER_ONLY, READABLE, read_file, write_file};

/// How long a retired key verifies tokens unless the user decides otherwise: longer than the year for which tokens of
/// pods are valid.
pub const RETENTION: SignedDuration = SignedDuration::from_hours(366 * 24);

/// What precedes the time in the comment on a retired key.
const UNTIL: &str = ", verifies until ";

/// A public key that signs no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetiredKey {
    /// The key with its comment, in PEM.
    pub text: String,
    /// Until when it verifies tokens; `None` for ever.
    pub until: Option<Timestamp>,
}

/// The file of the key that signs.
pub fn signing_key_file(pki: &Path) -> PathBuf {
    pki.join("service-account.key")
}

/// The file of the keys that only verify.
pub fn retired_keys_file(pki: &Path) -> PathBuf {
    pki.join("service-account-retired.pem")
}

/// The retired keys that still verify tokens.
pub fn retired_keys(pki: &Path, now: Timestamp) -> Result<Vec<RetiredKey>, Error> {
    let file = retired_keys_file(pki);
    if !file.exists() {
        return Ok(Vec::new());
    }
    Ok(unexpired_keys(&read_file(&file)?, now))
}

/// Replaces the signing key by a new one. The old one verifies tokens for the time of `retention`. Of the two files, that
/// of the retired keys is written first: at any time, every valid token has its key in one of them.
pub fn rotate(pki: &Path, retention: SignedDuration, now: Timestamp) -> Result<(), Error> {
    let _lock = lock(pki)?;
    let signing = signing_key_file(pki);
    let old = PrivateKey::from_pem(&read_file(&signing)?).map_err(Error::issue("service-account"))?;
    let until = now.saturating_add(retention).unwrap_or(Timestamp::MAX);
    let public = pem::encode(pem::PUBLIC_KEY, &old.public_key_info());
    let mut retired = format!("# retired {now:.0}{UNTIL}{until:.0}\n{public}");
    let before = retired_keys(pki, now)?;
    retired.extend(before.into_iter().map(|key| key.text));
    write_file(&retired_keys_file(pki), &retired, READABLE)?;
    let (_, key) = PrivateKey::generate().map_err(Error::issue("service-account"))?;
    write_file(&signing, &key, OWNER_ONLY)
}

/// The keys of a file that verify at this time.
fn unexpired_keys(text: &str, now: Timestamp) -> Vec<RetiredKey> {
    let mut keys: Vec<RetiredKey> = Vec::new();
    for line in text.lines() {
        let is_complete = |key: &RetiredKey| key.text.contains("-----END");
        if keys.last().is_none_or(is_complete) {
            let until = line.split_once(UNTIL).and_then(|(_, time)| time.parse().ok());
            let text = String::new();
            keys.push(RetiredKey { text, until });
        }
        if let Some(key) = keys.last_mut() {
            key.text.push_str(line);
            key.text.push('\n');
        }
    }
    keys.retain(|key| key.until.is_none_or(|until| now < until));
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// A directory with a signing key.
    fn directory() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let (_, key) = PrivateKey::generate().unwrap();
        write_file(&signing_key_file(dir.path()), &key, OWNER_ONLY).unwrap();
        dir
    }

    fn public_key(dir: &Path) -> String {
        let key = PrivateKey::from_pem(&read_file(&signing_key_file(dir)).unwrap()).unwrap();
        pem::encode(pem::PUBLIC_KEY, &key.public_key_info())
    }

    #[test]
    fn a_rotated_key_verifies_until_its_tokens_have_expired() {
        let dir = directory();
        let (dir, first) = (dir.path(), public_key(dir.path()));
        rotate(dir, RETENTION, at("2026-01-01T00:00:00Z")).unwrap();
        let second = public_key(dir);
        assert_ne!(first, second);
        rotate(dir, RETENTION, at("2026-07-01T00:00:00Z")).unwrap();
        let check = |now: &str, expected: &[&String]| {
            let keys = retired_keys(dir, at(now)).unwrap();
            assert_eq!(keys.len(), expected.len(), "{now}");
            for (key, expected) in keys.iter().zip(expected) {
                assert!(key.text.ends_with(expected.as_str()), "{now}: {}", key.text);
            }
        };
        check("2026-07-01T00:00:00Z", &[&second, &first]);
        check("2027-01-01T23:59:59Z", &[&second, &first]);
        check("2027-01-02T00:00:00Z", &[&second]);
        check("2027-07-02T00:00:00Z", &[]);
    }

    #[test]
    fn a_key_without_a_time_is_kept() {
        let dir = directory();
        let dir = dir.path();
        let added = public_key(directory().path());
        write_file(&retired_keys_file(dir), &added, READABLE).unwrap();
        rotate(dir, RETENTION, at("2026-01-01T00:00:00Z")).unwrap();
        let keys = retired_keys(dir, at("2099-01-01T00:00:00Z")).unwrap();
        let texts: Vec<&str> = keys.iter().map(|key| key.text.as_str()).collect();
        assert_eq!(texts, [added]);
    }
}
