//! SubjectAccessReview: whether a user may perform an action.

use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy};

use super::GROUP;

#[derive(Debug)]
pub struct SubjectAccessReview;

impl Strategy for SubjectAccessReview {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "SubjectAccessReview");
    const NAMES: Names = Names::new("subjectaccessreviews", "subjectaccessreview");
    const SCOPE: Scope = Scope::Cluster;
    const RULES: Rules = Rules::VIRTUAL;

    fn validate(_review: &FieldRef<'_>, _facts: &RequestFacts) {}
}
