//! Parameters of an OperatorVersion.

use serde::{Deserialize, Serialize};

/// A parameter: its type, its default and the plan that a change of its value starts.
#[allow(missing_docs, reason = "the fields are those of the API")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Parameter {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub trigger: String,
    #[serde(rename = "value-type", skip_serializing_if = "Option::is_none")]
    pub value_type: Option<ParameterType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub immutable: Option<bool>,
    #[serde(rename = "enum", skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Vec<String>>,
}

/// The type of a parameter's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ParameterType {
    /// Any text.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A YAML list.
    Array,
    /// A YAML map.
    Map,
}

impl Parameter {
    /// Whether its value cannot change after the installation.
    pub fn is_immutable(&self) -> bool {
        self.immutable == Some(true)
    }

    /// Whether an Instance must have a value if there is no default.
    pub fn is_required(&self) -> bool {
        self.required == Some(true)
    }
}

impl ParameterType {
    /// The name, as messages show it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Array => "array",
            Self::Map => "map",
        }
    }
}
