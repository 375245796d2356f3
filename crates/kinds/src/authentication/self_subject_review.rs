//! SelfSubjectReview: the server's view of the caller's own identity.

use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy};

use super::GROUP;

#[derive(Debug)]
pub struct SelfSubjectReview;

impl Strategy for SelfSubjectReview {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "SelfSubjectReview");
    const NAMES: Names = Names::new("selfsubjectreviews", "selfsubjectreview");
    const SCOPE: Scope = Scope::Cluster;
    const RULES: Rules = Rules::VIRTUAL;

    fn validate(_review: &FieldRef<'_>, _facts: &RequestFacts) {}
}
