//! The objects of `corpus/kinds.yaml`.

use serde::Deserialize;
use serde_json::{Value, json};

use super::steps;
use crate::transcript::{Case, Step};

/// A kind's small object and the requests it supports.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The collection's path.
    pub at: String,
    pub object: Value,
    /// A merge patch that must be accepted.
    #[serde(default)]
    pub change: Option<Value>,
    /// Set for virtual resources, which are created but not stored.
    #[serde(default)]
    only: Option<String>,
    /// Whether it has a `scale` subresource.
    #[serde(default)]
    pub scale: bool,
    /// Group, version and kind, for case ids.
    #[serde(default)]
    pub id: String,
}

const FILE: &str = include_str!("../../corpus/kinds.yaml");

pub(super) fn all(namespace: &str) -> Vec<Entry> {
    let text = FILE.replace("{ns}", namespace);
    let mut entries: Vec<Entry> =
        serde_saphyr::from_str(&text).expect("the corpus in the source tree is valid");
    for entry in &mut entries {
        let text = |name: &str| entry.object[name].as_str().unwrap_or_default().replace('/', "-");
        entry.id = format!("{}-{}", text("apiVersion"), text("kind"));
    }
    entries
}

impl Entry {
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub fn is_stored(&self) -> bool {
        self.only.is_none()
    }

    /// The object's path.
    pub fn path(&self) -> String {
        format!("{}/{}", self.at, self.name())
    }

    /// The object with another name, so that cases do not collide.
    #[must_use]
    pub(crate) fn renamed(&self, suffix: &str) -> Self {
        let mut entry = self.clone();
        if let Some(group) = self.group_in_name() {
            let other = format!("{suffix}.{group}");
            entry.object["metadata"]["name"] = json!(self.name().replace(group, &other));
            entry.object["spec"]["group"] = json!(other);
        } else if self.has_free_name() {
            entry.object["metadata"]["name"] = json!(format!("{}-{suffix}", self.name()));
        }
        entry
    }

    /// The API group at the end of a CustomResourceDefinition's name.
    fn group_in_name(&self) -> Option<&str> {
        let group = self.object["spec"]["group"].as_str()?;
        self.name().ends_with(&format!(".{group}")).then_some(group)
    }

    /// Whether the name does not have to match other fields.
    fn has_free_name(&self) -> bool {
        !self.name().is_empty()
            && !self.name().contains("example.com")
            && self.name().parse::<std::net::IpAddr>().is_err()
    }

    /// A case of this kind: the setup creates the namespace, the cleanup deletes the object.
    pub(crate) fn case(&self, area: &str, name: &str, steps: Vec<Step>) -> Case {
        let cleanup = match self.is_stored() {
            true => vec![steps::delete(&format!("{}?gracePeriodSeconds=0", self.path()))],
            false => Vec::new(),
        };
        Case {
            id: format!("{area}.{}.{name}", self.id),
            area: area.to_owned(),
            setup: steps::namespace(&self.at),
            steps,
            cleanup,
        }
    }
}
