//! The binding cycle: the wait for a permission, PreBind, Bind and PostBind of an assumed pod, through the API.

use std::sync::Arc;

use compact_str::CompactString;
use jiff::Timestamp;
use setpoint_api::{Key, ResourceVersion};

use crate::framework::{BindError, BindRequest, Code, Profile, Rejection};
use crate::metrics::{ExtensionPoint, StatusCode};
use crate::report;
use crate::scheduler::planner::unreserve;

/// Result of a binding cycle.
#[derive(Debug)]
pub(crate) enum BindResult {
    Bound,
    /// Another scheduler bound the pod first, or it was changed or deleted: the normal end of a race.
    Superseded,
    /// Another scheduler has bound pods to the node since it was observed.
    NodeChanged,
    /// A Permit plugin that let the pod wait, or a PreBind plugin, rejected it.
    Rejected(Rejection),
    /// It can be tried again; the message is for the status of the pod.
    Failed(String),
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
    let prepared = match wait_for_permit(&profile, &request).await {
        Ok(()) => timed_pre_bind(&profile, &mut request).await,
        Err(rejection) => Err(rejection),
    };
    let result = match prepared {
        Ok(()) => timed_bind(&profile, &request).await,
        Err(rejection) => BindResult::Rejected(rejection),
    };
    let (pod, node) = (&request.pod, &request.node);
    match &result {
        BindResult::Bound => {
            profile
                .recorder
                .timed(ExtensionPoint::PostBind, StatusCode::success, || {
                    let plugins = profile.post_bind.iter();
                    plugins.for_each(|plugin| plugin.post_bind(&request.cycle, pod, node));
                });
        }
        result => {
            unreserve(&profile, &mut (*request.cycle).clone(), pod, node);
            if !matches!(result, BindResult::Superseded) {
                revert(&profile, &request).await;
            }
        }
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

/// Takes back what the PreBind plugins wrote, the last one first.
async fn revert(profile: &Profile, request: &BindRequest) {
    for plugin in profile.reserve.iter().rev() {
        plugin.revert(request).await;
    }
}

/// Waits for the permission, if a Permit plugin lets the pod wait.
async fn wait_for_permit(profile: &Profile, request: &BindRequest) -> Result<(), Rejection> {
    let uid = &request.pod.uid;
    let is_waiting = profile.waiting_pods.find(uid).is_some();
    let began = profile.recorder.start_if(is_waiting);
    let permitted = profile.waiting_pods.wait(uid, &*request.clock).await;
    profile
        .recorder
        .observe_permit_wait(StatusCode::of(&permitted), began);
    permitted
}

async fn timed_pre_bind(profile: &Profile, request: &mut BindRequest) -> Result<(), Rejection> {
    let began = profile.recorder.start();
    let result = pre_bind(profile, request).await;
    let (point, status) = (ExtensionPoint::PreBind, StatusCode::of(&result));
    profile.recorder.observe_point(point, status, began);
    result
}

async fn timed_bind(profile: &Profile, request: &BindRequest) -> BindResult {
    let began = profile.recorder.start();
    let result = bind(profile, request).await;
    let status = match &result {
        BindResult::Bound => StatusCode::Success,
        _ => StatusCode::Rejected(Code::Error),
    };
    profile
        .recorder
        .observe_point(ExtensionPoint::Bind, status, began);
    result
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
    for plugin in needed {
        let began = profile.recorder.start_if(request.cycle.is_sampled());
        let result = plugin.pre_bind(&*request).await;
        let (point, status) = (ExtensionPoint::PreBind, StatusCode::of(&result));
        profile
            .recorder
            .observe_plugin(point, plugin.name(), status, began);
        let written = result.map_err(|rejection| {
            let name = plugin.name();
            rejection
                .with_prefix(|| format!("running PreBind plugin \"{name}\""))
                .by(name)
        })?;
        if let Some(version) = written {
            Arc::make_mut(&mut request.pod).resource_version = version;
        }
    }
    Ok(())
}

/// Runs the Bind plugins until one takes the pod. An extender that binds comes first.
async fn bind(profile: &Profile, request: &BindRequest) -> BindResult {
    let (pod, node) = (&request.pod, &request.node);
    let mut extenders = profile.extenders.iter();
    if let Some(extender) = extenders.find(|one| one.is_binder() && one.is_interested(pod)) {
        match extender.bind(pod, node).await {
            Ok(()) => return BindResult::Bound,
            Err(error) if extender.is_ignorable() => {
                tracing::info!(pod = %pod.key, error, "the extender cannot bind the pod, and is ignored");
            }
            Err(error) => return BindResult::Failed(error),
        }
    }
    for plugin in &profile.bind {
        let began = profile.recorder.start_if(request.cycle.is_sampled());
        let result = plugin.bind(request).await;
        let status = match &result {
            None => StatusCode::Skip,
            Some(Ok(())) => StatusCode::Success,
            Some(Err(_)) => StatusCode::Rejected(Code::Error),
        };
        let point = ExtensionPoint::Bind;
        profile
            .recorder
            .observe_plugin(point, plugin.name(), status, began);
        match result {
            None => {}
            Some(Ok(())) => return BindResult::Bound,
            Some(Err(BindError::Superseded)) => return BindResult::Superseded,
            Some(Err(BindError::NodeChanged)) => return BindResult::NodeChanged,
            Some(Err(BindError::Failed(status))) => {
                let message = format!("running Bind plugin {:?}: {status}", plugin.name());
                return BindResult::Failed(message);
            }
        }
    }
    BindResult::Failed("no Bind plugin binds the pod".to_owned())
}

#[cfg(test)]
mod tests;
