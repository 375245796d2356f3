//! SelfSubjectAccessReview: whether the caller may perform an action.

use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy};

use super::GROUP;

#[derive(Debug)]
pub struct SelfSubjectAccessReview;

impl Strategy for SelfSubjectAccessReview {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "SelfSubjectAccessReview");
    const NAMES: Names = Names::new("selfsubjectaccessreviews", "selfsubjectaccessreview");
    const SCOPE: Scope = Scope::Cluster;
    const RULES: Rules = Rules::VIRTUAL;

    fn validate(_review: &FieldRef<'_>, _facts: &RequestFacts) {}
}
