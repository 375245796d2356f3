//! The `authentication.k8s.io` group: who is calling.
//!
//! Documents of this group are questions. They are answered and never kept, so their rules are those of the one who
//! answers.

use std::sync::Arc;

use crate::builtin::Builtin;
use crate::kind::Kind;

pub mod self_subject_review;
pub mod token_review;

const GROUP: &str = "authentication.k8s.io";

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(Builtin::<self_subject_review::SelfSubjectReview>::new()),
        Arc::new(Builtin::<token_review::TokenReview>::new()),
    ]
}
