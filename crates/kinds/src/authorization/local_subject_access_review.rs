//! LocalSubjectAccessReview: whether someone may do something in one namespace.

use super::GROUP;
use crate::at::At;
use crate::strategy::{Names, Rules, Strategy};

#[derive(Debug)]
pub struct LocalSubjectAccessReview;

impl Strategy for LocalSubjectAccessReview {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "LocalSubjectAccessReview");
    const NAMES: Names = Names::new("localsubjectaccessreviews", "localsubjectaccessreview");
    const RULES: Rules = Rules::ANSWERED;

    fn validate(_review: &At<'_>) {}
}
