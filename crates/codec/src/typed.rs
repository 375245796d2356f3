//! Conversion of typed values: from a tree, from JSON, and back to a tree.

use serde::de::DeserializeOwned;

pub use setpoint_schema::tree::{Error, from_tree, to_tree};

/// Deserializes a typed value from JSON.
pub fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    setpoint_api::json::from_slice(bytes)
}
