//! SubjectAccessReview: whether someone may do something.

use super::GROUP;
use crate::at::At;
use crate::strategy::{Names, Rules, Scope, Strategy};

#[derive(Debug)]
pub struct SubjectAccessReview;

impl Strategy for SubjectAccessReview {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "SubjectAccessReview");
    const NAMES: Names = Names::new("subjectaccessreviews", "subjectaccessreview");
    const SCOPE: Scope = Scope::Cluster;
    const RULES: Rules = Rules::ANSWERED;

    fn validate(_review: &At<'_>) {}
}
