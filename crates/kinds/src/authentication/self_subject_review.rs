//! SelfSubjectReview: who the caller is, asked by the caller.

use super::GROUP;
use crate::at::At;
use crate::strategy::{Names, Rules, Scope, Strategy};

#[derive(Debug)]
pub struct SelfSubjectReview;

impl Strategy for SelfSubjectReview {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "SelfSubjectReview");
    const NAMES: Names = Names::new("selfsubjectreviews", "selfsubjectreview");
    const SCOPE: Scope = Scope::Cluster;
    const RULES: Rules = Rules::ANSWERED;

    fn validate(_review: &At<'_>) {}
}
