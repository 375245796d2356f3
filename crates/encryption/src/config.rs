//! The configuration file: EncryptionConfiguration of `apiserver.config.k8s.io/v1`, decoded strictly.

use std::fmt;
use std::path::Path;

use serde::Deserialize;

use setpoint_codec::{from_tree, yaml};
use setpoint_schema::Tree;

use crate::validation;

const API_VERSION: &str = "apiserver.config.k8s.io/v1";
const KIND: &str = "EncryptionConfiguration";

/// A configuration that cannot be used, in kube-apiserver's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("error while parsing file: {0}")]
    File(String),
    #[error("error while building transformers: {0}")]
    Transformers(String),
}

/// The object in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct EncryptionConfiguration {
    pub(crate) resources: Vec<ResourceConfiguration>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ResourceConfiguration {
    pub(crate) resources: Vec<String>,
    pub(crate) providers: Vec<ProviderConfiguration>,
}

/// One provider; exactly one field is to be set.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ProviderConfiguration {
    pub(crate) aesgcm: Option<KeysConfiguration>,
    pub(crate) aescbc: Option<KeysConfiguration>,
    pub(crate) secretbox: Option<KeysConfiguration>,
    pub(crate) identity: Option<IdentityConfiguration>,
    pub(crate) kms: Option<KmsConfiguration>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct KeysConfiguration {
    pub(crate) keys: Vec<Key>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Key {
    pub(crate) name: String,
    /// In base 64.
    pub(crate) secret: String,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct IdentityConfiguration {}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct KmsConfiguration {
    #[serde(rename = "apiVersion")]
    pub(crate) api_version: String,
    pub(crate) name: String,
    pub(crate) cachesize: Option<i32>,
    pub(crate) endpoint: String,
    pub(crate) timeout: Option<String>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name: {}, Secret: [REDACTED]", self.name)
    }
}

impl EncryptionConfiguration {
    /// Reads, decodes and validates the file at `path`.
    pub(crate) fn load(path: &Path) -> Result<(Self, Vec<u8>), ConfigError> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|error| {
            let message = format!("error reading encryption provider configuration file {name:?}: {error}");
            ConfigError::File(format!("error while loading file: {message}"))
        })?;
        if bytes.is_empty() {
            let message = format!("encryption provider configuration file {name:?} is empty");
            return Err(ConfigError::File(format!("error while loading file: {message}")));
        }
        let configuration = Self::parse(&bytes).map_err(|problem| {
            ConfigError::File(format!(
                "error decoding encryption provider configuration file {name:?}: {problem}"
            ))
        })?;
        validation::validate(&configuration).map_err(ConfigError::File)?;
        Ok((configuration, bytes))
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let parsed = yaml::parse_with_duplicates(bytes).map_err(|error| error.to_string())?;
        let text = |field| parsed.tree.str_at(&[field]).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if (api_version, kind) != (API_VERSION, KIND) {
            return Err(format!(
                "no kind {kind:?} is registered for version {api_version:?}"
            ));
        }
        let mut problems: Vec<String> = parsed
            .duplicates
            .iter()
            .map(|line| format!("yaml: {line}"))
            .collect();
        unknown_fields(&parsed.tree, "", &ROOT, &mut problems);
        if !problems.is_empty() {
            return Err(format!("strict decoding error: {}", problems.join(", ")));
        }
        from_tree(&parsed.tree).map_err(|error| error.to_string())
    }
}

/// The fields of an object of the configuration, with those of their values.
struct Fields(&'static [(&'static str, Option<&'static Fields>)]);

const ROOT: Fields = Fields(&[
    ("apiVersion", None),
    ("kind", None),
    ("resources", Some(&RESOURCE)),
]);
const RESOURCE: Fields = Fields(&[("resources", None), ("providers", Some(&PROVIDER))]);
const PROVIDER: Fields = Fields(&[
    ("aesgcm", Some(&KEYS)),
    ("aescbc", Some(&KEYS)),
    ("secretbox", Some(&KEYS)),
    ("identity", Some(&Fields(&[]))),
    ("kms", Some(&KMS)),
]);
const KEYS: Fields = Fields(&[("keys", Some(&Fields(&[("name", None), ("secret", None)])))]);
const KMS: Fields = Fields(&[
    ("apiVersion", None),
    ("name", None),
    ("cachesize", None),
    ("endpoint", None),
    ("timeout", None),
]);

/// Reports the fields of `tree` that are not in `fields`.
fn unknown_fields(tree: &Tree, path: &str, fields: &Fields, problems: &mut Vec<String>) {
    match tree {
        Tree::List(items) => {
            for (index, item) in items.iter().enumerate() {
                unknown_fields(item, &format!("{path}[{index}]"), fields, problems);
            }
        }
        Tree::Map(map) => {
            for (name, value) in map.iter() {
                let path = match path {
                    "" => name.to_owned(),
                    path => format!("{path}.{name}"),
                };
                match fields.0.iter().find(|(field, _)| *field == name) {
                    Some((_, Some(fields))) => unknown_fields(value, &path, fields, problems),
                    Some((_, None)) => {}
                    None => problems.push(format!("unknown field {path:?}")),
                }
            }
        }
        _ => {}
    }
}
