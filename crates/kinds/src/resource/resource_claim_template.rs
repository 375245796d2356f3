//! ResourceClaimTemplate: what the claims of pods are made from. Never changes.

use setpoint_schema::Tree;

use super::{GROUP, claim};
use crate::at::At;
use crate::meta;
use crate::strategy::{Names, Rules, Strategy};

#[derive(Debug)]
pub struct ResourceClaimTemplate;

impl Strategy for ResourceClaimTemplate {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "ResourceClaimTemplate");
    const NAMES: Names = Names::new("resourceclaimtemplates", "resourceclaimtemplate");
    const RULES: Rules = Rules {
        returns_deleted: true,
        ..Rules::DEFAULT
    };

    fn default_fields(template: &mut Tree) {
        claim::fill(template.child("spec").child("spec"));
    }

    fn validate(template: &At<'_>) {
        let spec = template.at("spec");
        meta::validate_annotations(&spec.at("metadata").at("annotations"));
        meta::validate_labels(&spec.at("metadata").at("labels"));
        claim::validate(&spec.at("spec"));
    }

    fn validate_again(_template: &At<'_>, _old: &At<'_>) {}

    fn validate_update(template: &At<'_>, old: &At<'_>) {
        template.at("spec").immutable(&old.at("spec"));
    }
}
