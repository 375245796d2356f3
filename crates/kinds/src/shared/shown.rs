//! Documents as messages show them.

use serde::ser::Error;
use setpoint_schema::Tree;

/// A text that is JSON already, to be shown as it is.
#[derive(Debug)]
pub(crate) struct Json(String);

impl Json {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }

    /// A document without a shape: its fields in the order they have.
    pub(crate) fn of(tree: &Tree) -> Self {
        let mut text = Vec::new();
        setpoint_schema::write::write_tree(tree, &mut text);
        Self(String::from_utf8_lossy(&text).into_owned())
    }
}

impl serde::Serialize for Json {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw = serde_json::value::RawValue::from_string(self.0.clone()).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}
