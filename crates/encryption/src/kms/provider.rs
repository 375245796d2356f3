//! [`KmsProvider`]: the seed that seals, the seeds that were seen, and the health of the plugin.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use parking_lot::Mutex;
use prost::Message;

use setpoint_api::Clock;

use super::data_key::{DataKey, SEED_BYTES};
use super::messages::{DecryptRequest, EncryptedObject, SEED, StatusResponse, check_key_id};
use super::service::KmsService;
use crate::cipher::random;
use crate::provider::Fingerprint;

/// How long a seed may seal after the plugin was last healthy.
const WRITE_TTL: Duration = Duration::from_secs(3 * 60);

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
    /// The decrypted keys, by their encrypted form.
    sources: Mutex<HashMap<Vec<u8>, Arc<DataKey>>>,
    /// The result of the last probe.
    health: Mutex<Result<(), String>>,
    /// The version that the plugin reported first; it must not change.
    version: Mutex<String>,
}

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

    /// The fingerprint of values that are sealed now.
    pub(crate) fn write_fingerprint(&self) -> Fingerprint {
        let write_key = self.write_key.load();
        write_key.as_ref().map_or(Fingerprint::default(), |write_key| {
            self.fingerprint(&write_key.template)
        })
    }

    pub(crate) fn seal(&self, value: &[u8], authenticated: &[u8]) -> Result<Vec<u8>, String> {
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
        Ok(object.encode_to_vec())
    }

    /// Opens a value. Calls the plugin, and blocks, if the value's key is new to this process.
    pub(crate) fn open(&self, sealed: &[u8], authenticated: &[u8]) -> Result<(Vec<u8>, Fingerprint), String> {
        let object = EncryptedObject::decode(sealed).map_err(|error| error.to_string())?;
        object.check()?;
        let key = self.source(&object)?;
        let value = key.decrypt(&object.encrypted_data, authenticated)?;
        Ok((value, self.fingerprint(&object)))
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
        self.remember(&template, key.clone());
        Ok(WriteKey {
            key,
            template,
            expires,
        })
    }

    /// The decrypted key of an object.
    fn source(&self, object: &EncryptedObject) -> Result<Arc<DataKey>, String> {
        if let Some(known) = self.sources.lock().get(&source_id(object)) {
            return Ok(known.clone());
        }
        let decrypted = self.service.decrypt(DecryptRequest {
            ciphertext: object.encrypted_dek_source.clone(),
            uid: uuid::Uuid::new_v4().to_string(),
            key_id: object.key_id.clone(),
            annotations: object.annotations.clone(),
        });
        let source = decrypted.map_err(|error| format!("failed to decrypt DEK, error: {error}"))?;
        let key = Arc::new(DataKey::new(&source, object.encrypted_dek_source_type)?);
        self.remember(object, key.clone());
        Ok(key)
    }

    fn remember(&self, object: &EncryptedObject, key: Arc<DataKey>) {
        let mut sources = self.sources.lock();
        if sources.len() >= MAX_SOURCES {
            sources.clear();
        }
        sources.insert(source_id(object), key);
    }

    fn fingerprint(&self, object: &EncryptedObject) -> Fingerprint {
        let source_type = object.encrypted_dek_source_type.to_le_bytes();
        Fingerprint::of(&[self.prefix.as_bytes(), object.key_id.as_bytes(), &source_type])
    }
}

/// Everything of an object that determines its key, in an unambiguous form.
fn source_id(object: &EncryptedObject) -> Vec<u8> {
    let mut annotations: Vec<_> = object.annotations.iter().collect();
    annotations.sort();
    let mut id = object.encrypted_dek_source_type.to_le_bytes().to_vec();
    let annotations = annotations
        .into_iter()
        .flat_map(|(key, value)| [key.as_bytes(), value.as_slice()]);
    for part in [object.encrypted_dek_source.as_slice(), object.key_id.as_bytes()]
        .into_iter()
        .chain(annotations)
    {
        id.extend_from_slice(&(part.len() as u64).to_le_bytes());
        id.extend_from_slice(part);
    }
    id
}

#[cfg(test)]
mod tests;
