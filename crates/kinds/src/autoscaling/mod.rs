//! The `autoscaling` group: how many pods there should be, by how busy they are.

use std::sync::Arc;

use crate::builtin::Builtin;
use crate::kind::Kind;
use crate::spoke::Spoke;

pub mod horizontal_pod_autoscaler;

use horizontal_pod_autoscaler::{HorizontalPodAutoscaler, v1};

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(Builtin::<HorizontalPodAutoscaler>::new()),
        Arc::new(Spoke::<v1::HorizontalPodAutoscaler>::new()),
    ]
}
