//! The objects of `corpus/kinds.yaml`.

use serde::Deserialize;
use serde_json::{Value, json};

use super::steps;
use crate::transcript::{Case, Step};

/// A kind's small object and what may be done with it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The collection's path.
    pub at: String,
    pub object: Value,
    /// A merge patch that must be accepted.
    #[serde(default)]
    pub change: Option<Value>,
    /// Present for kinds that are asked and not kept.
    #[serde(default)]
    only: Option<String>,
    /// Whether it has a `scale` subresource.
    #[serde(default)]
    pub scale: bool,
    /// Group, version and kind, to name cases by.
    #[serde(default)]
    pub id: String,
}

const FILE: &str = include_str!("../../corpus/kinds.yaml");

pub(super) fn all(namespace: &str) -> Vec<Entry> {
    let text = FILE.replace("{ns}", namespace);
    let mut entries: Vec<Entry> =
        serde_saphyr::from_str(&text).expect("the corpus in the source tree is well formed");
    for entry in &mut entries {
        let word = |name: &str| entry.object[name].as_str().unwrap_or_default().replace('/', "-");
        entry.id = format!("{}-{}", word("apiVersion"), word("kind"));
    }
    entries
}

impl Entry {
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub fn is_kept(&self) -> bool {
        self.only.is_none()
    }

    /// The object's own path.
    pub fn path(&self) -> String {
        format!("{}/{}", self.at, self.name())
    }

    /// The object under another name, so that cases do not meet.
    #[must_use]
    pub(super) fn renamed(&self, ending: &str) -> Self {
        let mut entry = self.clone();
        if let Some(group) = self.group_in_name() {
            let other = format!("{ending}.{group}");
            entry.object["metadata"]["name"] = json!(self.name().replace(group, &other));
            entry.object["spec"]["group"] = json!(other);
        } else if self.has_free_name() {
            entry.object["metadata"]["name"] = json!(format!("{}-{ending}", self.name()));
        }
        entry
    }

    /// The API group that a definition's name ends with.
    fn group_in_name(&self) -> Option<&str> {
        let group = self.object["spec"]["group"].as_str()?;
        self.name().ends_with(&format!(".{group}")).then_some(group)
    }

    /// Some names are made of other fields.
    fn has_free_name(&self) -> bool {
        !self.name().is_empty()
            && !self.name().contains("example.com")
            && self.name().parse::<std::net::IpAddr>().is_err()
    }

    /// A case of this kind, which begins in a namespace that is there and leaves nothing behind.
    pub(super) fn case(&self, area: &str, name: &str, steps: Vec<Step>) -> Case {
        let cleanup = match self.is_kept() {
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
