//! Messages of `k8s.io/kms/apis/v2` and of the stored envelope.

use std::collections::HashMap;

/// A sealed value as it is stored, after the provider's prefix.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct EncryptedObject {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) encrypted_data: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(crate) key_id: String,
    /// The data encryption key or the seed, encrypted by the plugin.
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) encrypted_dek_source: Vec<u8>,
    #[prost(map = "string, bytes", tag = "4")]
    pub(crate) annotations: HashMap<String, Vec<u8>>,
    /// [`AES_GCM_KEY`] or [`SEED`].
    #[prost(int32, tag = "5")]
    pub(crate) encrypted_dek_source_type: i32,
}

/// The source is the key itself.
pub(crate) const AES_GCM_KEY: i32 = 0;
/// The source is a seed, from which HKDF derives the key of each value.
pub(crate) const SEED: i32 = 1;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StatusRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StatusResponse {
    #[prost(string, tag = "1")]
    pub(crate) version: String,
    #[prost(string, tag = "2")]
    pub(crate) healthz: String,
    #[prost(string, tag = "3")]
    pub(crate) key_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DecryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(crate) uid: String,
    #[prost(string, tag = "3")]
    pub(crate) key_id: String,
    #[prost(map = "string, bytes", tag = "4")]
    pub(crate) annotations: HashMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DecryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) plaintext: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct EncryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) plaintext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(crate) uid: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct EncryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(crate) key_id: String,
    #[prost(map = "string, bytes", tag = "3")]
    pub(crate) annotations: HashMap<String, Vec<u8>>,
}

const KEY_ID_MAX_BYTES: usize = 1024;
const DEK_SOURCE_MAX_BYTES: usize = 1024;
const ANNOTATIONS_MAX_BYTES: usize = 32 * 1024;

impl EncryptedObject {
    /// Checks everything but the data, which is empty in the template of a seed.
    pub(crate) fn check_source(&self) -> Result<(), String> {
        let source_type = self.encrypted_dek_source_type;
        if source_type != AES_GCM_KEY && source_type != SEED {
            return Err(format!("unknown encryptedDEKSourceType: {source_type}"));
        }
        check_dek_source(&self.encrypted_dek_source)
            .map_err(|error| format!("failed to validate encrypted DEK source: {error}"))?;
        check_key_id(&self.key_id).map_err(|error| format!("failed to validate key id: {error}"))?;
        check_annotations(&self.annotations)
            .map_err(|error| format!("failed to validate annotations: {error}"))
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        match self.encrypted_data.is_empty() {
            true => Err("encrypted data is empty".to_owned()),
            false => self.check_source(),
        }
    }
}

pub(crate) fn check_key_id(key_id: &str) -> Result<(), String> {
    match key_id.len() {
        0 => Err("keyID is empty".to_owned()),
        length if length > KEY_ID_MAX_BYTES => Err(format!(
            "keyID is {length} bytes, which exceeds the max size of {KEY_ID_MAX_BYTES}"
        )),
        _ => Ok(()),
    }
}

fn check_dek_source(source: &[u8]) -> Result<(), String> {
    match source.len() {
        0 => Err("encrypted DEK source is empty".to_owned()),
        length if length > DEK_SOURCE_MAX_BYTES => Err(format!(
            "encrypted DEK source is {length} bytes, which exceeds the max size of {DEK_SOURCE_MAX_BYTES}"
        )),
        _ => Ok(()),
    }
}

fn check_annotations(annotations: &HashMap<String, Vec<u8>>) -> Result<(), String> {
    let bytes: usize = annotations
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    match bytes > ANNOTATIONS_MAX_BYTES {
        true => Err(format!(
            "total size of annotations is {bytes}, which exceeds the max size of {ANNOTATIONS_MAX_BYTES}"
        )),
        false => Ok(()),
    }
}
