//! DefaultBinder: posts the Binding of the pod.

use std::sync::Arc;
use std::time::Duration;

use compact_str::CompactString;
use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod};
use serde::Deserialize;
use setpoint_api::Status;
use setpoint_runtime::Api;

use super::{PluginArgs, PluginError};
use crate::framework::{Bind, BindError, BindRequest, BoxFuture, Handle, Plugin, Registration};
use crate::pod_info::PodInfo;

/// The delays before the attempts to post a binding again that had no definite response.
const RETRY_DELAYS: [Duration; 6] = [
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

/// The reason of the cause in a conflict about the node.
const NODE_CHANGED: &str = "NodeChanged";

#[derive(Debug)]
pub(super) struct DefaultBinder;

/// The node of a pod.
#[derive(Default, Deserialize)]
#[serde(default)]
struct BoundPod {
    spec: BoundSpec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BoundSpec {
    node_name: CompactString,
}

pub(super) fn build(_: &PluginArgs, _: &Handle) -> Result<Registration, PluginError> {
    Ok(Registration {
        bind: Some(Arc::new(DefaultBinder)),
        ..Registration::new(DefaultBinder.name())
    })
}

impl Plugin for DefaultBinder {
    fn name(&self) -> &'static str {
        "DefaultBinder"
    }
}

impl Bind for DefaultBinder {
    fn bind<'a>(&'a self, request: &'a BindRequest) -> BoxFuture<'a, Option<Result<(), BindError>>> {
        Box::pin(async move { Some(post_binding(request).await) })
    }
}

/// Posts the binding with the uid and the resource version that the decision is based on, so that neither a later pod of the
/// same name nor a changed pod is bound, and with the version of the pods by which the node was selected, so that the API
/// server rejects the binding if another scheduler has used the node since (OC10; kube-apiserver ignores that version).
///
/// Without a definite response the pod may be bound or not. The same binding is then posted again, while the pod stays
/// assumed: if its node were given to another pod, the node would be over-committed.
async fn post_binding(request: &BindRequest) -> Result<(), BindError> {
    let (pod, node) = (&request.pod, &request.node);
    let pods = request.binding_client.namespaced::<Pod>(pod.key.namespace());
    let binding = binding_of(request);
    let mut delays = RETRY_DELAYS.iter();
    let mut is_uncertain = false;
    loop {
        let posted = pods.create_subresource(pod.key.name(), "binding", &binding).await;
        match posted {
            Ok(_) => return Ok(()),
            Err(status) if status.is_conflict() && is_uncertain => {
                return find_binding(&pods, pod, node).await;
            }
            Err(status) if is_node_conflict(&status) => return Err(BindError::NodeChanged),
            Err(status) if status.is_conflict() || status.is_not_found() => {
                return Err(BindError::Superseded);
            }
            Err(status) => {
                let Some(delay) = delays.next().filter(|_| is_indefinite(&status)) else {
                    return Err(BindError::Failed(Box::new(status)));
                };
                is_uncertain = true;
                request.clock.sleep(*delay).await;
            }
        }
    }
}

fn binding_of(request: &BindRequest) -> Binding {
    let pod = &request.pod;
    let mut binding = Binding::default();
    binding.metadata.name = Some(pod.key.name().to_owned());
    binding.metadata.namespace = Some(pod.key.namespace().to_owned());
    binding.metadata.uid = Some(pod.uid.to_string());
    binding.metadata.resource_version = Some(pod.resource_version.to_string());
    binding.target = ObjectReference {
        kind: Some("Node".to_owned()),
        name: Some(request.node.to_string()),
        resource_version: Some(request.observed.to_string()),
        ..ObjectReference::default()
    };
    binding
}

/// Whether the conflict is about the node rather than the pod.
fn is_node_conflict(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_conflict() && causes.into_iter().any(|cause| cause.reason == NODE_CHANGED)
}

/// Whether the request may have been executed although it failed.
fn is_indefinite(status: &Status) -> bool {
    status.code >= 500
}

/// Whether an earlier request, whose response was lost, bound the pod.
async fn find_binding(pods: &Api<Pod>, pod: &PodInfo, node: &str) -> Result<(), BindError> {
    let found = pods.get(pod.key.name()).await;
    let found = found.map_err(|status| BindError::Failed(Box::new(status)))?;
    let bound: BoundPod = found
        .decode()
        .map_err(|error| BindError::Failed(Box::new(Status::internal(error))))?;
    match found.uid() == pod.uid && bound.spec.node_name == node {
        true => Ok(()),
        false => Err(BindError::Superseded),
    }
}

#[cfg(test)]
mod tests;
