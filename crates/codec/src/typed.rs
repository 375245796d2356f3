//! Typed values: from a tree, from JSON, and back to a tree.

use serde::de::DeserializeOwned;

pub use setpoint_schema::tree::{Error, from_tree, to_tree};

/// The typed value that JSON bytes describe.
pub fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(bytes)
}
