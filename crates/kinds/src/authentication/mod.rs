//! The `authentication.k8s.io` group: who the caller is.
//!
//! These resources are create-only reviews: the server responds with a status and stores nothing, so the code that
//! computes the response validates them.

use std::sync::Arc;

use setpoint_strategy::{BuiltinKind, Kind};

pub mod self_subject_review;
pub mod token_review;

const GROUP: &str = "authentication.k8s.io";

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(BuiltinKind::<self_subject_review::SelfSubjectReview>::new()),
        Arc::new(BuiltinKind::<token_review::TokenReview>::new()),
    ]
}
