//! The binding cycle: PreBind, Bind and PostBind of an assumed pod, through the API.

use std::sync::Arc;

use compact_str::CompactString;
use jiff::Timestamp;
use setpoint_api::{Key, ResourceVersion, Status};

use crate::framework::{BindError, BindRequest, Profile, Rejection};
use crate::report;
use crate::scheduler::planner::unreserve;

/// Result of a binding cycle.
#[derive(Debug)]
pub(crate) enum BindResult {
    Bound,
    /// Another scheduler bound the pod first, or it was changed or deleted: the normal end of a race.
    Superseded,
    /// A PreBind plugin rejected the pod.
    Rejected(Rejection),
    /// It can be tried again.
    Failed(Box<Status>),
}

/// A finished binding cycle.
#[derive(Debug)]
pub(crate) struct BindOutcome {
    pub(crate) key: Key,
    pub(crate) uid: CompactString,
    pub(crate) node: CompactString,
    pub(crate) scheduler: CompactString,
    /// The version of the pod that was to be bound.
    pub(crate) resource_version: ResourceVersion,
    pub(crate) result: BindResult,
    pub(crate) attempts: u32,
    pub(crate) first_attempt: Timestamp,
}

/// The attempts of the pod so far, for the metrics.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttemptInfo {
    pub(crate) attempts: u32,
    pub(crate) first_attempt: Timestamp,
}

/// Binds the pod; takes its reservations back if that fails.
pub(crate) async fn run_binding_cycle(
    profile: Arc<Profile>,
    mut request: BindRequest,
    info: AttemptInfo,
) -> BindOutcome {
    let result = match pre_bind(&profile, &mut request).await {
        Ok(()) => bind(&profile, &request).await,
        Err(rejection) => BindResult::Rejected(rejection),
    };
    let (pod, node) = (&request.pod, &request.node);
    match &result {
        BindResult::Bound => {
            let plugins = profile.post_bind.iter();
            plugins.for_each(|plugin| plugin.post_bind(&request.cycle, pod, node));
        }
        _ => unreserve(&profile, &mut (*request.cycle).clone(), pod, node),
    }
    BindOutcome {
        key: pod.key.clone(),
        uid: pod.uid.clone(),
        node: node.clone(),
        scheduler: pod.spec.scheduler.clone(),
        resource_version: pod.resource_version,
        result,
        attempts: info.attempts,
        first_attempt: info.first_attempt,
    }
}

/// Runs the PreBind plugins that have something to do. As that may take long, the chosen node is written to the status
/// first, for the cluster autoscaler and for a scheduler that takes over.
async fn pre_bind(profile: &Profile, request: &mut BindRequest) -> Result<(), Rejection> {
    let (cycle, pod, node) = (&request.cycle, &request.pod, &request.node);
    let plugins = profile.pre_bind.iter();
    let needed: Vec<_> = plugins
        .filter(|plugin| plugin.pre_bind_pre_flight(cycle, pod, node))
        .collect();
    if needed.is_empty() {
        return Ok(());
    }
    if let Some(version) = report::write_nominated_node(&request.client, pod, node).await {
        Arc::make_mut(&mut request.pod).resource_version = version;
    }
    let request = &*request;
    for plugin in needed {
        plugin.pre_bind(request).await.map_err(|rejection| {
            let name = plugin.name();
            rejection
                .with_prefix(|| format!("running PreBind plugin \"{name}\""))
                .by(name)
        })?;
    }
    Ok(())
}

/// Runs the Bind plugins until one takes the pod.
async fn bind(profile: &Profile, request: &BindRequest) -> BindResult {
    for plugin in &profile.bind {
        match plugin.bind(request).await {
            None => {}
            Some(Ok(())) => return BindResult::Bound,
            Some(Err(BindError::Superseded)) => return BindResult::Superseded,
            Some(Err(BindError::Failed(status))) => return BindResult::Failed(status),
        }
    }
    BindResult::Failed(Box::new(Status::internal("no Bind plugin binds the pod")))
}
