//! A pod fits only nodes that match its node selector and its required node affinity.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};
use setpoint_values::node_selector;

use crate::framework::Filter;
use crate::node_info::{NodeInfo, NodeProperties};
use crate::pod_info::PodInfo;

#[derive(Debug)]
pub(super) struct NodeAffinity;

impl Filter for NodeAffinity {
    fn name(&self) -> &'static str {
        "NodeAffinity"
    }

    fn fits(&self, pod: &PodInfo, node: &NodeInfo, properties: &NodeProperties) -> bool {
        let mut selected = pod.node_selector.iter();
        selected.all(|(name, value)| properties.labels.get(name) == Some(value))
            && pod.node_affinity.as_ref().is_none_or(|affinity| {
                let terms = &affinity.node_selector_terms;
                terms.iter().any(|term| holds(term, node, properties))
            })
    }

    fn reasons(&self, _: &PodInfo, _: &NodeInfo, _: &NodeProperties) -> Vec<Cow<'static, str>> {
        vec!["node(s) didn't match Pod's node affinity/selector".into()]
    }
}

/// A term holds if all its requirements do; one without any holds for no node.
fn holds(term: &NodeSelectorTerm, node: &NodeInfo, properties: &NodeProperties) -> bool {
    let labels = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let label = |name: &str| properties.labels.get(name).map(|value| value.as_str());
    let field = |name: &str| (name == "metadata.name").then_some(node.name.as_str());
    (!labels.is_empty() || !fields.is_empty())
        && labels.iter().all(|one| is_met(one, label(&one.key)))
        && fields.iter().all(|one| is_met(one, field(&one.key)))
}

fn is_met(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    node_selector::is_met(&requirement.operator, values, value)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::NodeSelector;
    use serde_json::{Value, json};

    use super::*;

    /// The node is called `n1` and has the labels `zone=a` and `size=8`.
    #[track_caller]
    fn check(terms: Value, expected: bool) {
        let selector: NodeSelector = serde_json::from_value(json!({"nodeSelectorTerms": terms})).unwrap();
        let mut pod = crate::fixtures::pod("p", "");
        pod.node_affinity = Some(Box::new(selector));
        assert_eq!(
            NodeAffinity.fits(&pod, &NodeInfo::new("n1"), &properties()),
            expected
        );
    }

    fn properties() -> NodeProperties {
        let labels = [("zone", "a"), ("size", "8")];
        NodeProperties {
            labels: labels.map(|(name, value)| (name.into(), value.into())).into(),
            ..NodeProperties::default()
        }
    }

    #[track_caller]
    fn check_expression(key: &str, operator: &str, values: &[&str], expected: bool) {
        let expression = json!({"key": key, "operator": operator, "values": values});
        check(json!([{"matchExpressions": [expression]}]), expected);
    }

    #[test]
    fn each_operator_judges_the_label() {
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
    fn one_term_of_several_is_enough_and_an_empty_one_is_none() {
        let field =
            |name| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
        check(json!([field("n2"), field("n1")]), true);
        check(json!([field("n2")]), false);
        check(json!([{}]), false);
    }

    #[test]
    fn the_node_selector_names_labels_that_must_be_there() {
        let mut pod = crate::fixtures::pod("p", "");
        pod.node_selector = [("zone".into(), "a".into())].into();
        assert!(NodeAffinity.fits(&pod, &NodeInfo::new("n1"), &properties()));
        pod.node_selector = [("zone".into(), "b".into())].into();
        assert!(!NodeAffinity.fits(&pod, &NodeInfo::new("n1"), &properties()));
    }
}
