//! The `autoscaling` group: scaling workloads by metrics.

use std::sync::Arc;

pub mod horizontal_pod_autoscaler;

use horizontal_pod_autoscaler::{HorizontalPodAutoscaler, v1};

use setpoint_strategy::ConvertedKind;
use setpoint_strategy::{BuiltinKind, Kind};

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(BuiltinKind::<HorizontalPodAutoscaler>::new()),
        Arc::new(ConvertedKind::<v1::HorizontalPodAutoscaler>::new()),
    ]
}
