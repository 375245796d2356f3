//! The `autoscaling` group: scaling workloads by metrics.

use std::sync::Arc;

use crate::builtin::BuiltinKind;
use crate::converted::ConvertedKind;
use crate::kind::Kind;

pub mod horizontal_pod_autoscaler;

use horizontal_pod_autoscaler::{HorizontalPodAutoscaler, v1};

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(BuiltinKind::<HorizontalPodAutoscaler>::new()),
        Arc::new(ConvertedKind::<v1::HorizontalPodAutoscaler>::new()),
    ]
}
