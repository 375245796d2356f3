//! The versions of OpenAPI, as far as schemas differ.

use serde_json::{Map, Value, json};

use super::SCHEMAS;

/// The prefix of a reference to a schema in version 2.
pub const DEFINITIONS: &str = "#/definitions/";

/// A version of OpenAPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenApiVersion {
    V2,
    V3,
}

impl OpenApiVersion {
    /// A property with the schema of a name. In version 3 no keyword may be beside a reference, so it is wrapped in
    /// `allOf`.
    pub fn reference_property(self, name: &str) -> Map<String, Value> {
        let (key, value) = match self {
            Self::V2 => ("$ref", format!("{DEFINITIONS}{name}").into()),
            Self::V3 => ("allOf", json!([{"$ref": format!("{SCHEMAS}{name}")}])),
        };
        [(key.to_owned(), value)].into_iter().collect()
    }
}
