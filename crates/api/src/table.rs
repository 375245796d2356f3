//! Columns and cells of `meta.k8s.io` Tables, the form that `kubectl get` requests.

use std::borrow::Cow;

use serde::Serialize;

/// Name, type and format of one column (upstream: `TableColumnDefinition`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ColumnDefinition {
    pub name: Cow<'static, str>,
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    pub format: Cow<'static, str>,
    pub description: Cow<'static, str>,
    /// Zero is always shown; higher numbers only in wide output.
    pub priority: i32,
}

/// One value of a row.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    Text(String),
    Integer(i64),
    Boolean(bool),
    Number(f64),
    /// No value.
    Null(()),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Cell {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}
