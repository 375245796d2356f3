//! [`PulledImage`]: what is known of an image that the agent pulled: pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use setpoint_container_runtime::PullCredentials;
use sha2::{Digest, Sha256};

/// The most Secrets that are added to a record without a pull. Namespaces that come and go would let it grow without end.
const MAX_SECRETS: usize = 100;

/// An image that the agent pulled, and who may use it without another pull.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PulledImage {
    /// The runtime's id of the image.
    pub(super) image_ref: String,
    pub(super) last_updated_time: Timestamp,
    /// By the repository that the image was pulled from. An image without an entry was pulled under circumstances that
    /// are not known: nothing grants access to it.
    #[serde(default)]
    pub(super) credential_mapping: BTreeMap<String, RepositoryAccess>,
}

/// What grants access to an image of a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RepositoryAccess {
    /// Whether it was pulled without credentials, so that every pod may use it.
    node_pods_accessible: bool,
    /// The Secrets with which it was pulled.
    kubernetes_secrets: Vec<PullSecret>,
}

/// A Secret with credentials of a registry. Of the credentials only a hash is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PullSecret {
    pub(crate) uid: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) credential_hash: String,
}

/// The credentials with which an image was pulled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PulledWith {
    /// None: the image is public.
    NoCredentials,
    /// Those of a Secret.
    Secret(PullSecret),
}

// === impl PulledImage ===

impl PulledImage {
    /// An image of which it is not known how it was pulled.
    pub(super) fn new(image_ref: &str, now: Timestamp) -> Self {
        Self {
            image_ref: image_ref.to_owned(),
            last_updated_time: now,
            credential_mapping: BTreeMap::new(),
        }
    }

    /// Adds how the image was pulled from a repository. Returns whether that is new.
    pub(super) fn add(&mut self, repository: &str, pulled_with: PulledWith, now: Timestamp) -> bool {
        let access = self.credential_mapping.entry(repository.to_owned()).or_default();
        let changed = match pulled_with {
            _ if access.node_pods_accessible => false,
            PulledWith::NoCredentials => {
                *access = RepositoryAccess {
                    node_pods_accessible: true,
                    kubernetes_secrets: Vec::new(),
                };
                true
            }
            PulledWith::Secret(secret) => access.add_secret(secret),
        };
        if changed {
            self.last_updated_time = now;
        }
        changed
    }

    /// Whether every pod may use the image by a name in this repository.
    pub(super) fn is_open(&self, repository: &str) -> bool {
        let access = self.credential_mapping.get(repository);
        access.is_some_and(|access| access.node_pods_accessible)
    }

    /// The first of a pod's Secrets that grants access to the image: one with the same credentials as a recorded one, or a
    /// recorded one whose credentials have changed since.
    pub(super) fn find_granting<'a>(
        &self,
        repository: &str,
        secrets: &'a [PullSecret],
    ) -> Option<&'a PullSecret> {
        let recorded = &self.credential_mapping.get(repository)?.kubernetes_secrets;
        let grants = |secret: &&PullSecret| {
            let is_same = |one: &PullSecret| {
                one.credential_hash == secret.credential_hash || one.is_same_object(secret)
            };
            recorded.iter().any(is_same)
        };
        secrets.iter().find(grants)
    }

    /// Whether another Secret may be added that was not used for a pull.
    pub(super) fn has_capacity(&self, repository: &str) -> bool {
        let access = self.credential_mapping.get(repository);
        access.is_some_and(|access| access.kubernetes_secrets.len() < MAX_SECRETS)
    }
}

impl RepositoryAccess {
    fn add_secret(&mut self, secret: PullSecret) -> bool {
        let mut recorded = self.kubernetes_secrets.iter_mut();
        match recorded.find(|one| one.is_same_object(&secret)) {
            Some(known) if *known == secret => return false,
            Some(known) => *known = secret,
            None => self.kubernetes_secrets.push(secret),
        }
        true
    }
}

// === impl PullSecret ===

impl PullSecret {
    fn is_same_object(&self, other: &Self) -> bool {
        (&self.uid, &self.namespace, &self.name) == (&other.uid, &other.namespace, &other.name)
    }
}

/// The hash of credentials, by which they are recognized.
pub(crate) fn credential_hash(credentials: &PullCredentials) -> String {
    let fields = [
        &credentials.username,
        &credentials.password,
        &credentials.auth,
        &credentials.server_address,
        &credentials.identity_token,
        &credentials.registry_token,
    ];
    let mut hasher = Sha256::new();
    for field in fields {
        hasher.update((field.len() as u64).to_be_bytes());
        hasher.update(field.as_bytes());
    }
    hexadecimal(&hasher.finalize())
}

/// The name of the file of a record or an intent: names of images have characters that file names cannot have.
pub(super) fn file_name(image: &str) -> String {
    format!("sha256-{}", hexadecimal(&Sha256::digest(image.as_bytes())))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPOSITORY: &str = "registry.example/team/app";

    fn secret(uid: &str, hash: &str) -> PullSecret {
        PullSecret {
            uid: uid.to_owned(),
            namespace: "team".to_owned(),
            name: "keys".to_owned(),
            credential_hash: hash.to_owned(),
        }
    }

    /// The uid of the Secret that grants access to an image that was pulled with the Secret `u1` and the credentials `h1`.
    #[track_caller]
    fn check(secrets: &[PullSecret], repository: &str, expected: Option<&str>) {
        let mut image = PulledImage::new("sha256:1", Timestamp::UNIX_EPOCH);
        let pulled_with = PulledWith::Secret(secret("u1", "h1"));
        assert!(image.add(REPOSITORY, pulled_with, Timestamp::UNIX_EPOCH));
        assert!(!image.is_open(REPOSITORY));
        let found = image.find_granting(repository, secrets);
        assert_eq!(found.map(|secret| secret.uid.as_str()), expected);
    }

    #[test]
    fn the_same_credentials_or_the_same_secret_grant_access() {
        check(&[secret("u1", "h1")], REPOSITORY, Some("u1"));
        check(&[secret("u2", "h1")], REPOSITORY, Some("u2"));
        check(&[secret("u1", "changed")], REPOSITORY, Some("u1"));
        check(&[secret("u2", "h2")], REPOSITORY, None);
        check(&[], REPOSITORY, None);
        check(&[secret("u1", "h1")], "registry.example/other", None);
    }

    #[test]
    fn an_image_that_was_pulled_without_credentials_is_open_to_all() {
        let now = Timestamp::UNIX_EPOCH;
        let mut image = PulledImage::new("sha256:1", now);
        image.add(REPOSITORY, PulledWith::Secret(secret("u1", "h1")), now);
        assert!(image.add(REPOSITORY, PulledWith::NoCredentials, now));
        assert!(image.is_open(REPOSITORY));
        assert!(!image.add(REPOSITORY, PulledWith::Secret(secret("u2", "h2")), now));
        assert!(!image.is_open("registry.example/other"));
    }

    #[test]
    fn a_record_is_the_same_after_it_was_written() {
        let now = Timestamp::UNIX_EPOCH;
        let mut image = PulledImage::new("sha256:1", now);
        image.add(REPOSITORY, PulledWith::Secret(secret("u1", "h1")), now);
        let text = serde_json::to_string(&image).unwrap();
        assert_eq!(serde_json::from_str::<PulledImage>(&text).unwrap(), image);
    }
}
