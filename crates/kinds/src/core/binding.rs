//! Binding: assigns a pod to a node. A create delegates to the pod's `binding` subresource; nothing is stored.

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Strategy, name};

#[derive(Debug)]
pub struct Binding;

impl Strategy for Binding {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "Binding");
    const NAMES: Names = Names::new("bindings", "binding");
    const RULES: Rules = Rules::VIRTUAL.delegates_to("pods", "binding");

    fn validate(binding: &FieldRef<'_>, _facts: &RequestFacts) {
        let target = binding.at(fields::TARGET);
        let (kind, name) = (target.at(fields::KIND), target.at(fields::NAME));
        let to_node = matches!(kind.str(), "" | "Node");
        if !to_node {
            kind.not_supported(&["Node", "<empty>"]);
        }
        if name.require() && to_node {
            name::check(&name, name::check_dns1123_subdomain);
        }
    }
}
