//! TokenReview: which user a bearer token belongs to.

use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy};

use super::GROUP;

#[derive(Debug)]
pub struct TokenReview;

impl Strategy for TokenReview {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "TokenReview");
    const NAMES: Names = Names::new("tokenreviews", "tokenreview");
    const SCOPE: Scope = Scope::Cluster;
    const RULES: Rules = Rules::VIRTUAL;

    fn validate(_review: &FieldRef<'_>, _facts: &RequestFacts) {}
}
