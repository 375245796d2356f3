//! The nodes from which a persistent volume can be reached, by their labels: pure.

use std::collections::BTreeMap;

use serde::Deserialize;
use setpoint_values::node_selector;

/// The node affinity of a volume.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct VolumeNodeAffinity {
    pub(super) required: Option<NodeSelector>,
}

/// Terms of which one must match.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct NodeSelector {
    node_selector_terms: Vec<NodeSelectorTerm>,
}

/// Requirements of which all must hold; a term without any matches no node.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeSelectorTerm {
    match_expressions: Vec<Requirement>,
    match_fields: Vec<Requirement>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Requirement {
    key: String,
    operator: String,
    values: Vec<String>,
}

/// The labels of a Node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeView {
    pub(super) metadata: NodeMetadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeMetadata {
    pub(super) labels: BTreeMap<String, String>,
}

impl NodeSelector {
    /// Whether a node with these labels matches. Fields of nodes match none: kubelets compare labels alone.
    pub(super) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let is_met = |one: &Requirement| {
            node_selector::is_met(
                &one.operator,
                &one.values,
                labels.get(&one.key).map(String::as_str),
            )
        };
        let matches = |term: &NodeSelectorTerm| {
            !term.match_expressions.is_empty()
                && term.match_fields.is_empty()
                && term.match_expressions.iter().all(is_met)
        };
        self.node_selector_terms.iter().any(matches)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(terms: Value, expected: bool) {
        let selector: NodeSelector = serde_json::from_value(json!({ "nodeSelectorTerms": terms })).unwrap();
        let labels = BTreeMap::from([("kubernetes.io/hostname".to_owned(), "n1".to_owned())]);
        assert_eq!(selector.matches(&labels), expected);
    }

    #[test]
    fn a_volume_is_reached_from_nodes_that_match_one_of_its_terms() {
        let host = |name: &str| json!({ "matchExpressions": [{ "key": "kubernetes.io/hostname", "operator": "In", "values": [name] }] });
        check(json!([host("n1")]), true);
        check(json!([host("n2")]), false);
        check(json!([host("n2"), host("n1")]), true);
        check(json!([{}]), false);
        check(json!([]), false);
    }
}
