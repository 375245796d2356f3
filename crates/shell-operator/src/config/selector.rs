//! Selectors of a kubernetes binding: which objects, in which namespaces.

use std::fmt::Write as _;

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use serde::Deserialize;
use setpoint_api::selector::{FieldSelector, LabelSelector};
use setpoint_client::label_selector;

/// The objects of a binding.
#[derive(Debug, Clone, Default)]
pub struct ObjectSelector {
    /// Group and version; empty for the preferred ones.
    pub api_version: String,
    /// The kind, or a name of its resource, in any case.
    pub kind: String,
    /// Only these names; empty for all.
    pub names: Vec<String>,
    /// Only objects with such labels.
    pub labels: LabelSelector,
    /// The field selector as it is in a query; empty for all.
    pub fields: String,
    /// Only objects in these namespaces; `None` for all.
    pub namespaces: Option<NamespaceSelector>,
}

/// The namespaces of a binding: those with a name, and those with labels.
#[derive(Debug, Clone, Default)]
pub struct NamespaceSelector {
    /// Namespaces by name.
    pub names: Vec<String>,
    /// Namespaces by label, which may start and stop to match at any time.
    pub labels: Option<LabelSelector>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawNames {
    pub(super) match_names: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawFields {
    match_expressions: Vec<RawFieldExpression>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFieldExpression {
    field: String,
    operator: String,
    value: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawNamespaces {
    name_selector: Option<RawNames>,
    label_selector: Option<RawLabels>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawLabels {
    match_labels: Option<std::collections::BTreeMap<String, String>>,
    match_expressions: Option<Vec<meta::LabelSelectorRequirement>>,
}

impl ObjectSelector {
    /// The field selector for objects with this name, or for all.
    pub fn fields_for(&self, name: Option<&str>) -> Result<FieldSelector, String> {
        let mut text = self.fields.clone();
        if let Some(name) = name {
            let comma = if text.is_empty() { "" } else { "," };
            let _ = write!(text, "{comma}metadata.name={name}");
        }
        text.parse()
            .map_err(|error| format!("fieldSelector is invalid: {error}"))
    }
}

impl RawLabels {
    pub(super) fn convert(self) -> Result<LabelSelector, String> {
        label_selector(&self.into_meta()?).map_err(|error| format!("labelSelector is invalid: {error}"))
    }

    /// The selector as it is in objects of Kubernetes, once it is known to be valid.
    pub(super) fn into_checked(self) -> Result<meta::LabelSelector, String> {
        let selector = self.into_meta()?;
        let checked = label_selector(&selector);
        checked.map_err(|error| format!("labelSelector is invalid: {error}"))?;
        Ok(selector)
    }

    fn into_meta(self) -> Result<meta::LabelSelector, String> {
        if self.match_labels.is_none() && self.match_expressions.is_none() {
            return Err("labelSelector should have at least 1 property".to_owned());
        }
        Ok(meta::LabelSelector {
            match_labels: self.match_labels,
            match_expressions: self.match_expressions,
        })
    }
}

impl RawFields {
    /// The selector as it is in a query. `names` forbids one by name.
    pub(super) fn convert(self, has_names: bool) -> Result<String, String> {
        let mut terms = Vec::new();
        for RawFieldExpression {
            field,
            operator,
            value,
        } in self.match_expressions
        {
            if has_names && field == "metadata.name" {
                return Err(
                    "fieldSelector 'metadata.name' and nameSelector.matchNames are mutually exclusive"
                        .to_owned(),
                );
            }
            let sign = match operator.as_str() {
                "=" | "==" | "Equals" => "=",
                "!=" | "NotEquals" => "!=",
                _ => {
                    return Err(format!(
                        "fieldSelector is invalid: {field}{operator}{value}: operator '{operator}' is not recognized"
                    ));
                }
            };
            terms.push(format!("{field}{sign}{}", escape(&value)));
        }
        let text = terms.join(",");
        text.parse::<FieldSelector>()
            .map_err(|error| format!("fieldSelector is invalid: {error}"))?;
        Ok(text)
    }
}

impl RawNamespaces {
    pub(super) fn convert(self) -> Result<NamespaceSelector, String> {
        if self.name_selector.is_none() && self.label_selector.is_none() {
            return Err("namespace should have at least 1 property".to_owned());
        }
        let labels = self.label_selector.map(RawLabels::convert).transpose()?;
        let names = self.name_selector.map(|names| names.match_names);
        Ok(NamespaceSelector {
            names: names.unwrap_or_default(),
            labels,
        })
    }
}

/// Escapes a value of a field selector.
fn escape(value: &str) -> String {
    let mut escaped = String::new();
    for letter in value.chars() {
        if matches!(letter, '\\' | ',' | '=') {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}
