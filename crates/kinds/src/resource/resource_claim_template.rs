//! ResourceClaimTemplate: the template of pods' resource claims. Immutable.

use setpoint_schema::{Tree, fields};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Strategy, meta};

use super::selector::Expressions;
use super::{GROUP, claim};

#[derive(Debug)]
pub struct ResourceClaimTemplate;

impl Strategy for ResourceClaimTemplate {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "ResourceClaimTemplate");
    const NAMES: Names = Names::new("resourceclaimtemplates", "resourceclaimtemplate");
    const RULES: Rules = Rules::DEFAULT.returns_deleted();

    fn default_fields(template: &mut Tree) {
        claim::set_defaults(template.child(fields::SPEC).child(fields::SPEC));
    }

    fn validate(template: &FieldRef<'_>, _facts: &RequestFacts) {
        let spec = template.at(fields::SPEC);
        meta::validate_annotations(&spec.at(fields::METADATA).at(fields::ANNOTATIONS));
        meta::validate_labels(&spec.at(fields::METADATA).at(fields::LABELS));
        claim::validate(&spec.at(fields::SPEC), Expressions::New);
    }

    fn validate_for_update(_template: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {}

    /// The spec is immutable; declarative validation reports a changed one that is invalid, too.
    fn validate_update(template: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        let (spec, before) = (template.at(fields::SPEC), old.at(fields::SPEC));
        if !spec.is_same(&before) {
            claim::validate(&spec.at(fields::SPEC), Expressions::Stored);
        }
        spec.immutable(&before);
    }
}
