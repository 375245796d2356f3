//! Binding: the wish that a pod runs on a node. It is carried out, never kept.

use crate::at::At;
use crate::shared::name;
use crate::strategy::{Names, Rules, Strategy};

#[derive(Debug)]
pub struct Binding;

impl Strategy for Binding {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "Binding");
    const NAMES: Names = Names::new("bindings", "binding");
    const RULES: Rules = Rules {
        carried_out_by: Some(("pods", "binding")),
        ..Rules::ANSWERED
    };

    fn validate(binding: &At<'_>) {
        let target = binding.at("target");
        let (kind, own) = (target.at("kind"), target.at("name"));
        let to_node = matches!(kind.str(), "" | "Node");
        if !to_node {
            kind.not_supported(&["Node", "<empty>"]);
        }
        if own.require() && to_node {
            name::check(&own, name::subdomain);
        }
    }
}
