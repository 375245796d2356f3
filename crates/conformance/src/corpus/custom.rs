//! The custom kind of `corpus/custom.yaml`.

use serde::Deserialize;
use serde_json::{Value, json};

use super::Entry;

/// A CustomResourceDefinition, with a valid object of its kind and a valid status.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomKind {
    pub definition: Value,
    pub object: Value,
    pub status: Value,
}

const FILE: &str = include_str!("../../corpus/custom.yaml");

impl CustomKind {
    /// The kind in the source tree.
    pub fn of_corpus() -> Self {
        serde_saphyr::from_str(FILE).expect("the corpus in the source tree is valid")
    }

    /// The path of the collection.
    pub fn collection(namespace: &str) -> String {
        format!("/apis/mutation.example.com/v1/namespaces/{namespace}/gadgets")
    }

    /// Its small object, as those of the built-in kinds.
    pub fn entry(&self, namespace: &str) -> Entry {
        let entry = json!({"at": Self::collection(namespace), "object": self.object, "scale": true});
        serde_json::from_value(entry).expect("the fields are those of an entry")
    }
}
