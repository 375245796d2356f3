//! DefaultBinder: posts the Binding of the pod.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod};

use super::{PluginArgs, PluginError};
use crate::framework::{Bind, BindError, BindRequest, BoxFuture, Handle, Plugin, Registration};

#[derive(Debug)]
pub(super) struct DefaultBinder;

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
/// same name nor a changed pod is bound.
async fn post_binding(request: &BindRequest) -> Result<(), BindError> {
    let pod = &request.pod;
    let mut binding = Binding::default();
    binding.metadata.name = Some(pod.key.name().to_owned());
    binding.metadata.namespace = Some(pod.key.namespace().to_owned());
    binding.metadata.uid = Some(pod.uid.to_string());
    binding.metadata.resource_version = Some(pod.resource_version.to_string());
    binding.target = ObjectReference {
        kind: Some("Node".to_owned()),
        name: Some(request.node.to_string()),
        ..ObjectReference::default()
    };
    let pods = request.client.namespaced::<Pod>(pod.key.namespace());
    match pods.create_subresource(pod.key.name(), "binding", &binding).await {
        Ok(_) => Ok(()),
        Err(status) if status.is_conflict() || status.is_not_found() => Err(BindError::Superseded),
        Err(status) => Err(BindError::Failed(Box::new(status))),
    }
}
