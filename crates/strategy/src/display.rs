//! JSON values as error messages show them.

use serde::ser::Error;
use setpoint_schema::Tree;

/// A JSON text that is serialized as it is.
#[derive(Debug)]
pub struct RawJson(String);

impl RawJson {
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// A value without a shape: its fields in their own order.
    pub fn from_tree(tree: &Tree) -> Self {
        let mut text = Vec::new();
        setpoint_schema::write::write_tree(tree, &mut text);
        Self(String::from_utf8_lossy(&text).into_owned())
    }
}

impl serde::Serialize for RawJson {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw = serde_json::value::RawValue::from_string(self.0.clone()).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}
