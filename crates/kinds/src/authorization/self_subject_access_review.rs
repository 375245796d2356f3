//! SelfSubjectAccessReview: whether the caller may do something.

use super::GROUP;
use crate::at::At;
use crate::strategy::{Names, Rules, Scope, Strategy};

#[derive(Debug)]
pub struct SelfSubjectAccessReview;

impl Strategy for SelfSubjectAccessReview {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "SelfSubjectAccessReview");
    const NAMES: Names = Names::new("selfsubjectaccessreviews", "selfsubjectaccessreview");
    const SCOPE: Scope = Scope::Cluster;
    const RULES: Rules = Rules::ANSWERED;

    fn validate(_review: &At<'_>) {}
}
