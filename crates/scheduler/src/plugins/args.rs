//! [`PluginArgs`]: the arguments of a plugin, as the configuration file has them.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The `args` of a plugin; empty for the defaults.
#[derive(Debug, Clone, Default)]
pub struct PluginArgs(pub Value);

/// Why a plugin rejects its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginError(pub String);

impl PluginArgs {
    /// Decodes the arguments; absent ones are the default.
    pub fn decode<T: DeserializeOwned + Default>(&self) -> Result<T, PluginError> {
        if self.0.is_null() {
            return Ok(T::default());
        }
        serde_json::from_value(self.0.clone()).map_err(|error| PluginError(error.to_string()))
    }
}

impl std::fmt::Display for PluginError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PluginError {}
