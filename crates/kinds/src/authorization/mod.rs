//! The `authorization.k8s.io` group: who may do what.
//!
//! These resources are create-only reviews: the server responds with a status and stores nothing, so the code that
//! computes the response validates them.

use std::sync::Arc;

use setpoint_strategy::{BuiltinKind, Kind};

pub mod local_subject_access_review;
pub mod self_subject_access_review;
pub mod self_subject_rules_review;
pub mod subject_access_review;

const GROUP: &str = "authorization.k8s.io";

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(BuiltinKind::<local_subject_access_review::LocalSubjectAccessReview>::new()),
        Arc::new(BuiltinKind::<self_subject_access_review::SelfSubjectAccessReview>::new()),
        Arc::new(BuiltinKind::<self_subject_rules_review::SelfSubjectRulesReview>::new()),
        Arc::new(BuiltinKind::<subject_access_review::SubjectAccessReview>::new()),
    ]
}
