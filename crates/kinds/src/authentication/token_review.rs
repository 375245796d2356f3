//! TokenReview: which user a bearer token belongs to.

use super::GROUP;
use crate::field::FieldRef;
use crate::strategy::{Names, RequestFacts, Rules, Scope, Strategy};

#[derive(Debug)]
pub struct TokenReview;

impl Strategy for TokenReview {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "TokenReview");
    const NAMES: Names = Names::new("tokenreviews", "tokenreview");
    const SCOPE: Scope = Scope::Cluster;
    const RULES: Rules = Rules::VIRTUAL;

    fn validate(_review: &FieldRef<'_>, _facts: &RequestFacts) {}
}
