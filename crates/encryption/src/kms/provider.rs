//! [`KmsProvider`]: the seed that seals, the seeds that were seen, and the health of the plugin.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use parking_lot::Mutex;
use prost::Message;

use setpoint_api::Clock;
use setpoint_store::SealId;

use super::data_key::{DataKey, SEED_BYTES};
use super::messages::{DecryptRequest, EncryptedObject, SEED, StatusResponse, check_key_id};
use super::service::KmsService;
use crate::cipher::random;
use crate::provider::{WithSeal, digest, seal_id};

/// How long a seed may seal after the plugin was last healthy.
const WRITE_TTL: Duration = Duration::from_secs(3 * 60);

/// How long the plugin is not called again for a key that it has failed to decrypt.
const DECRYPT_PAUSE: Duration = Duration::from_secs(5);

/// Decrypted sources that are kept; upstream keeps them for a day. There are about as many as starts of servers.
const MAX_SOURCES: usize = 10_000;

/// One plugin.
#[derive(Debug)]
pub(crate) struct KmsProvider {
    name: String,
    prefix: String,
    service: Box<dyn KmsService>,
    clock: Arc<dyn Clock>,
    write_key: ArcSwapOption<WriteKey>,
    /// The keys that the plugin has decrypted, or failed to, by the hash of their encrypted form.
    sources: Mutex<HashMap<SourceId, Source>>,
    /// The result of the last probe.
    health: Mutex<Result<(), String>>,
    /// The version that the plugin reported first; it must not change.
    version: Mutex<String>,
}

/// A key that was sent to the plugin.
#[derive(Debug, Clone)]
enum Source {
    /// The plugin has decrypted it.
    Key(Arc<DataKey>),
    /// The plugin has failed. Until this time it is not called again: many values may have this key.
    Failed { error: String, until: Timestamp },
}

type SourceId = [u8; 32];

/// The key that seals.
#[derive(Debug)]
struct WriteKey {
    key: Arc<DataKey>,
    /// The stored form, without data.
    template: EncryptedObject,
    expires: Timestamp,
}

impl KmsProvider {
    pub(crate) fn new(name: &str, service: Box<dyn KmsService>, clock: Arc<dyn Clock>) -> Self {
        Self {
            name: name.to_owned(),
            prefix: format!("k8s:enc:kms:v2:{name}:"),
            service,
            clock,
            write_key: ArcSwapOption::empty(),
            sources: Mutex::default(),
            health: Mutex::new(Err("not probed yet".to_owned())),
            version: Mutex::default(),
        }
    }

    /// The prefix of the values that it seals.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The result of the last probe.
    pub(crate) fn health(&self) -> Result<(), String> {
        self.health.lock().clone()
    }

    /// What seals values now.
    pub(crate) fn current_seal(&self) -> SealId {
        let write_key = self.write_key.load();
        let write_key = write_key.as_ref();
        write_key.map_or(SealId::NONE, |write_key| self.seal_of(&write_key.template))
    }

    pub(crate) fn seal(&self, value: &[u8], authenticated: &[u8]) -> Result<WithSeal, String> {
        let write_key = self.write_key.load();
        let write_key = write_key.as_ref().ok_or("got unexpected nil transformer")?;
        let now = self.clock.now();
        if now > write_key.expires {
            let expired = write_key.expires;
            return Err(format!(
                "encryptedDEKSource expired at {expired} (current time is {now})"
            ));
        }
        let object = EncryptedObject {
            encrypted_data: write_key.key.encrypt(value, authenticated)?,
            ..write_key.template.clone()
        };
        object.check()?;
        Ok((object.encode_to_vec(), self.seal_of(&object)))
    }

    /// Opens a value. Calls the plugin, and blocks, if the value's key is new to this process.
    pub(crate) fn open(&self, sealed: &[u8], authenticated: &[u8]) -> Result<WithSeal, String> {
        let object = EncryptedObject::decode(sealed).map_err(|error| error.to_string())?;
        object.check()?;
        let key = self.source(&object)?;
        let value = key.decrypt(&object.encrypted_data, authenticated)?;
        Ok((value, self.seal_of(&object)))
    }

    /// Requests the plugin's status, and has it encrypt a new seed if its key has changed.
    pub(crate) fn probe(&self) -> Result<(), String> {
        let status = self.service.status().map_err(|error| {
            let name = &self.name;
            format!(
                "failed to perform status section of the healthz check for KMS Provider {name}, error: {error}"
            )
        });
        let probed = status.and_then(|status| {
            let name = &self.name;
            self.follow(&status)
                .map_err(|error| format!("kmsv2 Provider {name} is not healthy, error: {error}"))
        });
        self.health.lock().clone_from(&probed);
        probed
    }

    fn follow(&self, status: &StatusResponse) -> Result<(), String> {
        if status.healthz != "ok" {
            return Err(format!("got unexpected healthz status: {}", status.healthz));
        }
        self.check_version(&status.version)?;
        check_key_id(&status.key_id).map_err(|error| format!("got invalid KMSv2 KeyID: {error}"))?;
        let expires = self.clock.now() + WRITE_TTL;
        let current = self.write_key.load_full();
        let write_key = match current {
            Some(current) if current.template.key_id == status.key_id => WriteKey {
                key: current.key.clone(),
                template: current.template.clone(),
                expires,
            },
            _ => self.generate(&status.key_id, expires)?,
        };
        self.write_key.store(Some(Arc::new(write_key)));
        Ok(())
    }

    fn check_version(&self, version: &str) -> Result<(), String> {
        if version != "v2" && version != "v2beta1" {
            return Err(format!("expected KMSv2 API version v2, got {version}"));
        }
        let mut first = self.version.lock();
        if first.is_empty() {
            version.clone_into(&mut first);
        }
        match *first == version {
            true => Ok(()),
            false => Err(format!(
                "KMSv2 API version should not change after the initial status response version {first}, got {version}"
            )),
        }
    }

    /// A new seed, encrypted by the plugin with the key that its status names.
    fn generate(&self, key_id: &str, expires: Timestamp) -> Result<WriteKey, String> {
        let seed: [u8; SEED_BYTES] = random()?;
        let encrypted = self
            .service
            .encrypt(&seed)
            .map_err(|error| format!("failed to encrypt DEK, error: {error}"))?;
        if encrypted.key_id != key_id {
            return Err(
                "failed to rotate DEK: the plugin encrypted with another key than its status names"
                    .to_owned(),
            );
        }
        let template = EncryptedObject {
            encrypted_data: Vec::new(),
            key_id: encrypted.key_id,
            encrypted_dek_source: encrypted.ciphertext,
            annotations: encrypted.annotations,
            encrypted_dek_source_type: SEED,
        };
        template.check_source()?;
        let key = Arc::new(DataKey::new(&seed, SEED)?);
        self.remember(&template, Source::Key(key.clone()));
        Ok(WriteKey {
            key,
            template,
            expires,
        })
    }

    /// The decrypted key of an object.
    fn source(&self, object: &EncryptedObject) -> Result<Arc<DataKey>, String> {
        match self.sources.lock().get(&source_id(object)).cloned() {
            Some(Source::Key(key)) => return Ok(key),
            Some(Source::Failed { error, until }) if self.clock.now() < until => return Err(error),
            _ => {}
        }
        let decrypted = self.decrypt(object).inspect_err(|error| {
            let failed = Source::Failed {
                error: error.clone(),
                until: self.clock.now() + DECRYPT_PAUSE,
            };
            self.remember(object, failed);
        });
        let key = decrypted?;
        self.remember(object, Source::Key(key.clone()));
        Ok(key)
    }

    /// Has the plugin decrypt the key of an object.
    fn decrypt(&self, object: &EncryptedObject) -> Result<Arc<DataKey>, String> {
        let decrypted = self.service.decrypt(DecryptRequest {
            ciphertext: object.encrypted_dek_source.clone(),
            uid: uuid::Uuid::new_v4().to_string(),
            key_id: object.key_id.clone(),
            annotations: object.annotations.clone(),
        });
        let source = decrypted.map_err(|error| format!("failed to decrypt DEK, error: {error}"))?;
        DataKey::new(&source, object.encrypted_dek_source_type).map(Arc::new)
    }

    fn remember(&self, object: &EncryptedObject, source: Source) {
        let mut sources = self.sources.lock();
        if sources.len() >= MAX_SOURCES {
            sources.clear();
        }
        sources.insert(source_id(object), source);
    }

    fn seal_of(&self, object: &EncryptedObject) -> SealId {
        let source_type = object.encrypted_dek_source_type.to_le_bytes();
        seal_id(&[self.prefix.as_bytes(), object.key_id.as_bytes(), &source_type])
    }
}

/// The hash of everything of an object that determines its key; the annotations alone may have 32 kB.
fn source_id(object: &EncryptedObject) -> SourceId {
    let source_type = object.encrypted_dek_source_type.to_le_bytes();
    let mut annotations: Vec<_> = object.annotations.iter().collect();
    annotations.sort();
    let annotations = annotations
        .into_iter()
        .flat_map(|(key, value)| [key.as_bytes(), value.as_slice()]);
    let parts = [
        &source_type[..],
        object.encrypted_dek_source.as_slice(),
        object.key_id.as_bytes(),
    ];
    digest(&parts.into_iter().chain(annotations).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests;
