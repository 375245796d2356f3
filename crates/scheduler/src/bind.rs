//! Binding a pod to the node that was chosen for it.

use std::sync::Arc;

use compact_str::CompactString;
use setpoint_api::{Key, Status};

use crate::framework::{BindError, BindRequest, Profile};

/// Result of a binding request.
#[derive(Debug)]
pub(crate) enum BindResult {
    Bound,
    /// Another scheduler bound the pod first, or it was deleted: the normal end of a race.
    Superseded,
    /// It can be tried again.
    Failed(Box<Status>),
}

/// A finished binding: the pod, the node, the result.
#[derive(Debug)]
pub(crate) struct BindOutcome {
    pub(crate) key: Key,
    pub(crate) uid: CompactString,
    pub(crate) node: CompactString,
    pub(crate) result: BindResult,
}

/// Runs the binding plugins.
pub(crate) async fn bind(profile: Arc<Profile>, request: BindRequest) -> BindOutcome {
    let mut result = BindResult::Superseded;
    for plugin in &profile.bind {
        if let Some(bound) = plugin.bind(&request).await {
            result = match bound {
                Ok(()) => BindResult::Bound,
                Err(BindError::Superseded) => BindResult::Superseded,
                Err(BindError::Failed(status)) => BindResult::Failed(status),
            };
            break;
        }
    }
    BindOutcome {
        key: request.pod.key.clone(),
        uid: request.pod.uid.clone(),
        node: request.node,
        result,
    }
}
