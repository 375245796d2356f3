//! [`NodeProperties`]: the fields of a Node object that the plugins use.

use std::collections::BTreeMap;

use compact_str::CompactString;
use serde::Deserialize;
use setpoint_api::Stored;

use crate::pod_info::Toleration;
use crate::resources::{ResourceList, Resources};

/// A decoded Node object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawNode")]
pub struct NodeProperties {
    pub allocatable: Resources,
    pub max_pods: i64,
    pub unschedulable: bool,
    pub taints: Vec<Toleration>,
    /// Sorted by name.
    pub labels: BTreeMap<CompactString, CompactString>,
    pub annotations: BTreeMap<CompactString, CompactString>,
    /// The size of each image on the node by each of its names.
    pub images: BTreeMap<CompactString, i64>,
    /// Its `status.declaredFeatures`, sorted.
    pub declared_features: Vec<CompactString>,
}

impl NodeProperties {
    /// Decodes a Node; one that cannot be decoded has no resources.
    pub fn read(object: &Stored) -> Self {
        object.decode().unwrap_or_default()
    }

    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(CompactString::as_str)
    }
}

impl From<RawNode> for NodeProperties {
    fn from(node: RawNode) -> Self {
        let images = node.status.images.into_iter();
        let images = images.flat_map(|image| {
            image
                .names
                .into_iter()
                .flatten()
                .map(move |name| (name, image.size_bytes))
        });
        let mut declared_features = node.status.declared_features;
        declared_features.sort();
        Self {
            max_pods: node.status.allocatable.find("pods").unwrap_or(0),
            allocatable: node.status.allocatable.to_resources(),
            unschedulable: node.spec.unschedulable,
            taints: node.spec.taints,
            labels: node.metadata.labels,
            annotations: node.metadata.annotations,
            images: images.collect(),
            declared_features,
        }
    }
}

// The JSON of a Node, as far as it matters here.

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawNode {
    metadata: RawMeta,
    spec: RawSpec,
    status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawMeta {
    labels: BTreeMap<CompactString, CompactString>,
    annotations: BTreeMap<CompactString, CompactString>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawSpec {
    unschedulable: bool,
    taints: Vec<Toleration>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawStatus {
    allocatable: ResourceList,
    images: Vec<RawImage>,
    declared_features: Vec<CompactString>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawImage {
    /// `null` of an image without a name, such as one whose name another image has taken.
    names: Option<Vec<CompactString>>,
    size_bytes: i64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::node_from;

    #[test]
    fn a_node_with_an_image_without_a_name_has_its_resources() {
        let status = json!({
            "allocatable": { "pods": "110" },
            "images": [{ "names": null, "sizeBytes": 1 }, { "names": ["app:1"], "sizeBytes": 2 }],
        });
        let node = node_from("n1", json!({ "status": status }));
        let properties = NodeProperties::read(&node);
        assert_eq!(properties.max_pods, 110);
        assert_eq!(properties.images, BTreeMap::from([("app:1".into(), 2)]));
    }
}
