//! PrioritySort: pods of higher priority are tried first.

use std::sync::Arc;

use super::{PluginArgs, PluginError};
use crate::framework::{Handle, Plugin, QueueSort, Registration};
use crate::pod_info::PodInfo;

#[derive(Debug)]
pub(super) struct PrioritySort;

pub(super) fn build(_: &PluginArgs, _: &Handle) -> Result<Registration, PluginError> {
    Ok(Registration {
        queue_sort: Some(Arc::new(PrioritySort)),
        ..Registration::new(PrioritySort.name())
    })
}

impl Plugin for PrioritySort {
    fn name(&self) -> &'static str {
        "PrioritySort"
    }
}

impl QueueSort for PrioritySort {
    fn sort_key(&self, pod: &PodInfo) -> i64 {
        -i64::from(pod.priority())
    }
}
