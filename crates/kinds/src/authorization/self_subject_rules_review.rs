//! SelfSubjectRulesReview: what the caller may do in one namespace.

use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy};

use super::GROUP;

#[derive(Debug)]
pub struct SelfSubjectRulesReview;

impl Strategy for SelfSubjectRulesReview {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "SelfSubjectRulesReview");
    const NAMES: Names = Names::new("selfsubjectrulesreviews", "selfsubjectrulesreview");
    const SCOPE: Scope = Scope::Cluster;
    const RULES: Rules = Rules::VIRTUAL;

    fn validate(_review: &FieldRef<'_>, _facts: &RequestFacts) {}
}
