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

/// The regular files below a directory. As upstream, it follows no links to directories; a link to a file outside of the
/// package is an error, since an author of a package must not get at other files of its user.
pub fn read_dir(dir: &Path) -> Result<Contents> {
    let cannot_read = |path: &Path| format!("cannot read {}", path.display());
    let root = std::fs::canonicalize(dir).with_context(|| cannot_read(dir))?;
    let mut contents = Contents::new();
    let mut open = vec![root.clone()];
    while let Some(current) = open.pop() {
        for entry in std::fs::read_dir(&current).with_context(|| cannot_read(&current))? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() {
                open.push(path);
                continue;
            }
            let target = std::fs::canonicalize(&path).with_context(|| cannot_read(&path))?;
            if !target.is_file() {
                continue;
            }
            let name = path.strip_prefix(&root)?.to_string_lossy().into_owned();
            if !target.starts_with(&root) {
                bail!("{name} is a link that leads out of the package");
            }
            let bytes = std::fs::read(&target).with_context(|| cannot_read(&path))?;
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_do_not_lead_out_of_a_package() {
        let parent = tempfile::tempdir().unwrap();
        let package = parent.path().join("package");
        std::fs::create_dir_all(package.join("templates")).unwrap();
        std::fs::write(package.join("operator.yaml"), "a").unwrap();
        symlink("operator.yaml", package.join("link.yaml")).unwrap();
        symlink("..", package.join("templates/loop")).unwrap();
        let names: Vec<String> = read_dir(&package).unwrap().into_keys().collect();
        assert_eq!(names, ["link.yaml", "operator.yaml"]);
        std::fs::write(parent.path().join("secret"), "b").unwrap();
        symlink("../../secret", package.join("templates/x.yaml")).unwrap();
        let error = read_dir(&package).unwrap_err().to_string();
        assert_eq!(error, "templates/x.yaml is a link that leads out of the package");
    }
}
