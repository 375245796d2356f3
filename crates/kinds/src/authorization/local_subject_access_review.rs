//! LocalSubjectAccessReview: whether a user may perform an action in one namespace.

use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Strategy};

use super::GROUP;

#[derive(Debug)]
pub struct LocalSubjectAccessReview;

impl Strategy for LocalSubjectAccessReview {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "LocalSubjectAccessReview");
    const NAMES: Names = Names::new("localsubjectaccessreviews", "localsubjectaccessreview");
    const RULES: Rules = Rules::VIRTUAL;

    fn validate(_review: &FieldRef<'_>, _facts: &RequestFacts) {}
}
