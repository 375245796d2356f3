//! The format of the published data. Every column is declared; an unknown one is an error.

use serde::Deserialize;
use serde_json::{Map, Value};

/// The whole file. Maps keep the order of the file, which is the order of the pack.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Source {
    pub kubernetes: String,
    #[serde(rename = "groupVersions")]
    pub group_versions: Map<String, Value>,
    pub enums: Map<String, Value>,
    #[serde(deserialize_with = "in_order")]
    pub types: Vec<(String, Type)>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupVersion {
    pub package: String,
    pub on: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Type {
    pub openapi: Option<String>,
    pub proto: Option<String>,
    pub gvk: Option<[String; 3]>,
    #[serde(default)]
    pub any_group: u8,
    #[serde(default)]
    pub type_meta: u8,
    pub special: Option<String>,
    #[serde(default)]
    pub wrap: u8,
    pub map_type: Option<String>,
    pub unions: Option<Value>,
    pub fields: Vec<Field>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Field {
    pub name: String,
    pub num: Option<u32>,
    pub card: Option<String>,
    #[serde(rename = "type")]
    pub of: String,
    #[serde(default)]
    pub inline: u8,
    #[serde(default)]
    pub wrap: u8,
    #[serde(rename = "ref")]
    pub raw: Option<String>,
    #[serde(default)]
    pub ptr: u8,
    #[serde(default, deserialize_with = "present")]
    pub zero: Option<Value>,
    #[serde(default)]
    pub req: u8,
    #[serde(default, deserialize_with = "present")]
    pub def: Option<Value>,
    pub list_type: Option<String>,
    #[serde(default)]
    pub list_keys: Vec<String>,
    pub map_type: Option<String>,
    pub patch: Option<String>,
    pub merge_key: Option<String>,
    #[serde(rename = "enum")]
    pub enumeration: Option<String>,
    pub gate: Option<String>,
    pub one_of: Option<String>,
    /// The Go type name, from `names.tsv`: the published data does not have it.
    #[serde(skip)]
    pub named: Option<String>,
    #[serde(default)]
    pub check: Vec<String>,
}

/// Distinguishes a key with the value null from an absent key.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn in_order<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, Type)>, D::Error> {
    let map = Map::deserialize(deserializer)?;
    let typed = |(id, value)| {
        Ok((
            id,
            serde_json::from_value(value).map_err(serde::de::Error::custom)?,
        ))
    };
    map.into_iter().map(typed).collect()
}
