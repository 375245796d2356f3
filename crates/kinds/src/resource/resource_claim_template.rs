//! ResourceClaimTemplate: the template of pods' resource claims. Immutable.

use setpoint_schema::Tree;

use super::{GROUP, claim};
use crate::field::FieldRef;
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
        claim::set_defaults(template.child("spec").child("spec"));
    }

    fn validate(template: &FieldRef<'_>) {
        let spec = template.at("spec");
        meta::validate_annotations(&spec.at("metadata").at("annotations"));
        meta::validate_labels(&spec.at("metadata").at("labels"));
        claim::validate(&spec.at("spec"));
    }

    fn validate_for_update(_template: &FieldRef<'_>, _old: &FieldRef<'_>) {}

    fn validate_update(template: &FieldRef<'_>, old: &FieldRef<'_>) {
        template.at("spec").immutable(&old.at("spec"));
    }
}
