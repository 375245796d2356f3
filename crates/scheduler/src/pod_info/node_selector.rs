//! [`NodeSelector`]: node affinity terms, matched against the labels and the name of a node.

use compact_str::CompactString;
use serde::Deserialize;
use setpoint_values::node_selector;

/// Terms of which one must match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelector {
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// Requirements of which all must hold; a term without any matches no node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelectorTerm {
    pub match_expressions: Vec<NodeSelectorRequirement>,
    pub match_fields: Vec<NodeSelectorRequirement>,
}

/// A requirement on a label or a field of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct NodeSelectorRequirement {
    pub key: CompactString,
    pub operator: CompactString,
    pub values: Vec<String>,
}

/// A term that adds its weight to the score of the nodes that it matches. One without requirements matches no node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct PreferredSchedulingTerm {
    pub weight: i32,
    pub preference: NodeSelectorTerm,
}

/// The labels of a node by name.
pub type LabelValue<'a> = &'a dyn Fn(&str) -> Option<&'a str>;

impl NodeSelector {
    pub fn matches(&self, node: &str, label: LabelValue<'_>) -> bool {
        self.node_selector_terms
            .iter()
            .any(|term| term.matches(node, label))
    }
}

impl NodeSelectorTerm {
    pub fn matches(&self, node: &str, label: LabelValue<'_>) -> bool {
        let field = |name: &str| (name == "metadata.name").then_some(node);
        (!self.match_expressions.is_empty() || !self.match_fields.is_empty())
            && self
                .match_expressions
                .iter()
                .all(|one| one.is_met(label(&one.key)))
            && self.match_fields.iter().all(|one| one.is_met(field(&one.key)))
    }

    /// The node names that the term is limited to; `None` if it has no requirement on the name.
    pub fn node_names(&self) -> Option<Vec<&str>> {
        let names = |one: &&NodeSelectorRequirement| one.key == "metadata.name" && one.operator == "In";
        let mut required = self.match_fields.iter().filter(names);
        let mut common: Vec<&str> = required.next()?.values.iter().map(String::as_str).collect();
        for other in required {
            common.retain(|name| other.values.iter().any(|value| value == name));
        }
        Some(common)
    }
}

impl NodeSelectorRequirement {
    fn is_met(&self, value: Option<&str>) -> bool {
        node_selector::is_met(&self.operator, &self.values, value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The node is called `n1` and has the labels `zone=a` and `size=8`.
    #[track_caller]
    fn check(terms: Value, expected: bool) {
        let selector: NodeSelector = serde_json::from_value(json!({"nodeSelectorTerms": terms})).unwrap();
        let label = |name: &str| match name {
            "zone" => Some("a"),
            "size" => Some("8"),
            _ => None,
        };
        assert_eq!(selector.matches("n1", &label), expected);
    }

    #[track_caller]
    fn check_expression(key: &str, operator: &str, values: &[&str], expected: bool) {
        let expression = json!({"key": key, "operator": operator, "values": values});
        check(json!([{"matchExpressions": [expression]}]), expected);
    }

    #[test]
    fn each_operator_tests_the_label() {
        check_expression("zone", "In", &["a", "b"], true);
        check_expression("zone", "In", &["b"], false);
        check_expression("zone", "NotIn", &["b"], true);
        check_expression("other", "NotIn", &["b"], true);
        check_expression("other", "Exists", &[], false);
        check_expression("other", "DoesNotExist", &[], true);
        check_expression("size", "Gt", &["7"], true);
        check_expression("size", "Lt", &["8"], false);
    }

    #[test]
    fn one_term_of_several_is_enough_and_an_empty_one_matches_nothing() {
        let field =
            |name| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
        check(json!([field("n2"), field("n1")]), true);
        check(json!([field("n2")]), false);
        check(json!([{}]), false);
    }

    #[test]
    fn a_term_is_limited_to_the_names_that_all_its_fields_have() {
        let field = |values: &[&str]| NodeSelectorRequirement {
            key: "metadata.name".into(),
            operator: "In".into(),
            values: values.iter().map(|name| (*name).to_owned()).collect(),
        };
        let term = |match_fields| NodeSelectorTerm {
            match_fields,
            ..NodeSelectorTerm::default()
        };
        assert_eq!(term(vec![]).node_names(), None);
        let both = term(vec![field(&["a", "b"]), field(&["b", "c"])]);
        assert_eq!(both.node_names(), Some(vec!["b"]));
    }
}
