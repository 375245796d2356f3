//! The `authorization.k8s.io` group: who may do what.
//!
//! Documents of this group are questions. They are answered and never kept, so their rules are those of the one who
//! answers.

use std::sync::Arc;

use crate::builtin::Builtin;
use crate::kind::Kind;

pub mod local_subject_access_review;
pub mod self_subject_access_review;
pub mod self_subject_rules_review;
pub mod subject_access_review;

const GROUP: &str = "authorization.k8s.io";

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(Builtin::<local_subject_access_review::LocalSubjectAccessReview>::new()),
        Arc::new(Builtin::<self_subject_access_review::SelfSubjectAccessReview>::new()),
        Arc::new(Builtin::<self_subject_rules_review::SelfSubjectRulesReview>::new()),
        Arc::new(Builtin::<subject_access_review::SubjectAccessReview>::new()),
    ]
}
