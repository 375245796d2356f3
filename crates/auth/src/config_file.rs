//! Configuration files of the group `apiserver.config.k8s.io`: strict decoding and the errors of validation.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use setpoint_api::field::Errors;
use setpoint_codec::{from_tree, yaml};

const GROUP: &str = "apiserver.config.k8s.io";
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];

/// A configuration file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigFileError {
    #[error("{0}")]
    Unreadable(String),
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    Kind { api_version: String, kind: String },
    #[error("{0}")]
    Invalid(String),
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TypeMeta {
    api_version: String,
    kind: String,
}

/// Decodes a file in YAML or JSON, which must be of this kind. Unknown and duplicate fields are errors.
pub(crate) fn parse<T: DeserializeOwned>(text: &str, kind: &str) -> Result<T, ConfigFileError> {
    let unreadable = |error: &dyn ToString| ConfigFileError::Unreadable(error.to_string());
    let parsed = yaml::parse_with_duplicates(text.as_bytes()).map_err(|error| unreadable(&error))?;
    if let Some(duplicate) = parsed.duplicates.first() {
        return Err(ConfigFileError::Unreadable(format!("yaml: {duplicate}")));
    }
    let meta: TypeMeta = from_tree(&parsed.tree).map_err(|error| unreadable(&error))?;
    let (group, version) = meta.api_version.split_once('/').unwrap_or_default();
    if group != GROUP || !VERSIONS.contains(&version) || meta.kind != kind {
        return Err(ConfigFileError::Kind {
            api_version: meta.api_version,
            kind: meta.kind,
        });
    }
    from_tree(&parsed.tree).map_err(|error| unreadable(&error))
}

/// The errors of validation as one error.
pub(crate) fn finish(errors: Errors) -> Result<(), ConfigFileError> {
    let messages: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
    match messages.as_slice() {
        [] => Ok(()),
        [one] => Err(ConfigFileError::Invalid(one.clone())),
        many => Err(ConfigFileError::Invalid(format!("[{}]", many.join(", ")))),
    }
}
