//! The files of a package.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use setpoint_kuttl::manifest;

use crate::api::{API_VERSION, Maintainer, ParameterType, Plan, Task};

/// Contents by their path, relative to the package.
pub type Contents = BTreeMap<String, Vec<u8>>;

/// The keys whose values are no texts.
const OPERATOR_VALUES: &[&str] = &["wantErr", "fatal", "done"];
const PARAMETER_VALUES: &[&str] = &["required", "immutable", "advanced", "default", "enum", "prio"];

/// A parsed package.
#[allow(missing_docs, reason = "the fields are those of the package")]
#[derive(Debug, Clone, Default)]
pub struct PackageFiles {
    pub operator: OperatorFile,
    pub params: ParamsFile,
    /// The files of `templates/`, by their path in it.
    pub templates: BTreeMap<String, String>,
}

/// `operator.yaml`.
#[allow(missing_docs, reason = "the fields are those of the file")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorFile {
    pub api_version: String,
    pub name: String,
    pub description: String,
    pub operator_version: String,
    pub app_version: String,
    pub kudo_version: String,
    pub kubernetes_version: String,
    pub maintainers: Vec<Maintainer>,
    pub url: String,
    pub tasks: Vec<Task>,
    pub plans: BTreeMap<String, Plan>,
    pub namespace_manifest: String,
}

/// `params.yaml`.
#[allow(missing_docs, reason = "the fields are those of the file")]
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ParamsFile {
    pub api_version: String,
    pub groups: Vec<Value>,
    pub parameters: Vec<PackageParameter>,
}

/// A parameter of a package, whose default may be YAML.
#[allow(missing_docs, reason = "the fields are those of the file")]
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PackageParameter {
    pub display_name: String,
    pub name: String,
    pub description: String,
    pub required: Option<bool>,
    pub default: Option<Value>,
    pub trigger: String,
    #[serde(rename = "type")]
    pub value_type: Option<ParameterType>,
    pub immutable: Option<bool>,
    #[serde(rename = "enum")]
    pub allowed: Option<Vec<Value>>,
}

impl PackageFiles {
    /// Parses the files. Those that are no part of a package are ignored: they may belong to a dependency.
    pub fn parse(contents: &Contents) -> Result<Self> {
        let mut files = Self::default();
        let read = |name: &str| {
            contents
                .get(name)
                .with_context(|| format!("{name} file is missing"))
        };
        files.operator = parse_file("operator.yaml", read("operator.yaml")?, OPERATOR_VALUES)?;
        files.params = parse_file("params.yaml", read("params.yaml")?, PARAMETER_VALUES)?;
        check_version(&files.operator.api_version)?;
        check_version(&files.params.api_version)?;
        for parameter in &mut files.params.parameters {
            parameter.required.get_or_insert(true);
            parameter.immutable.get_or_insert(false);
        }
        for (path, bytes) in contents {
            let template = path
                .strip_prefix("templates/")
                .filter(|path| path.contains(".yaml"));
            if let Some(name) = template {
                let text =
                    String::from_utf8(bytes.clone()).with_context(|| format!("{path} is not UTF-8"))?;
                files.templates.insert(name.to_owned(), text);
            }
        }
        Ok(files)
    }
}

/// The files below a directory.
pub fn read_dir(dir: &Path) -> Result<Contents> {
    let mut contents = Contents::new();
    let mut open = vec![dir.to_owned()];
    while let Some(current) = open.pop() {
        for entry in
            std::fs::read_dir(&current).with_context(|| format!("cannot read {}", current.display()))?
        {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let name = path.strip_prefix(dir)?.to_string_lossy().into_owned();
            let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            contents.insert(name, bytes);
        }
    }
    Ok(contents)
}

/// Parses a file. Numbers and truth values are texts, except under these keys.
fn parse_file<T: DeserializeOwned>(name: &str, bytes: &[u8], values: &[&str]) -> Result<T> {
    let parsed = manifest::parse_value(&String::from_utf8_lossy(bytes));
    let mut value = parsed.map_err(|error| anyhow!("failed to unmarshal {name}: {error}"))?;
    if value.is_null() {
        bail!("failed to parse yaml into valid {name}");
    }
    remove_nulls(&mut value);
    stringify(&mut value, values);
    serde_json::from_value(value).map_err(|error| anyhow!("failed to unmarshal {name}: {error}"))
}

/// Authors write versions without quotes: `1.13` is a text where one is expected.
fn stringify(value: &mut Value, values: &[&str]) {
    match value {
        Value::Number(number) => *value = number.to_string().into(),
        Value::Bool(boolean) => *value = boolean.to_string().into(),
        Value::Array(items) => items.iter_mut().for_each(|item| stringify(item, values)),
        Value::Object(entries) => {
            let texts = entries
                .iter_mut()
                .filter(|(key, _)| !values.contains(&key.as_str()));
            texts.for_each(|(_, value)| stringify(value, values));
        }
        _ => {}
    }
}

/// A key without a value is an absent one.
fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(entries) => {
            entries.retain(|_, value| !value.is_null());
            entries.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}

fn check_version(version: &str) -> Result<()> {
    match version.is_empty() || version == API_VERSION {
        true => Ok(()),
        false => bail!("expecting supported API version {API_VERSION} but got {version}"),
    }
}
