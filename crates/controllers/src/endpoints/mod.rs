//! Keeps the Endpoints object of each Service with a selector, for clients that do not read slices.
//!
//! [`mod@plan`] builds the object. It is deleted with its Service.

mod plan;

use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use setpoint_api::Key;
use setpoint_api::options::DeleteOptions;
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Reconcile};
use tokio_util::sync::CancellationToken;

use crate::endpoints::plan::{MANAGED_BY, MANAGER, desired};
use crate::{Config, endpoint_pods};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "endpoints-controller";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = EndpointsReconciler {
        services: context.lister()?,
        endpoints: context.lister()?,
        pods: context.lister()?,
    };
    let services = reconciler.services.clone();
    Controller::new(NAME, reconciler)
        .reconciles::<Service>()
        .reconciles::<Endpoints>()
        .watches(Pod::resource().group_resource(), move |change| {
            endpoint_pods::services_of(&services, change)
        })
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler. Its keys are those of Services and of their Endpoints, which are the same.
#[derive(Debug)]
struct EndpointsReconciler {
    services: Lister<Service>,
    endpoints: Lister<Endpoints>,
    pods: Lister<Pod>,
}

impl Reconcile for EndpointsReconciler {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(object) = self.services.find(key) else {
            return self.remove(client, key).await;
        };
        let service = object.to_owned()?;
        let is_ours = service
            .spec
            .as_ref()
            .is_some_and(|spec| spec.selector.is_some() && spec.type_.as_deref() != Some("ExternalName"));
        if object.header().deleting || !is_ours {
            return Ok(Next::Done);
        }
        let current = self
            .endpoints
            .find(key)
            .map(|found| found.to_owned())
            .transpose()?;
        let pods = endpoint_pods::selected_by(&self.pods, key.namespace(), &service);
        let desired = desired(&service, &pods, current.as_ref());
        let handle = client.namespaced::<Endpoints>(key.namespace());
        match current {
            None => drop(handle.create(&desired).await?),
            Some(current) if current != desired => drop(handle.update(&desired).await?),
            Some(_) => {}
        }
        Ok(Next::Done)
    }
}

impl EndpointsReconciler {
    /// Deletes the Endpoints object of a deleted Service, unless a user wrote it.
    async fn remove(&self, client: &Client, key: &Key) -> Result<Next, Error> {
        let Some(left) = self.endpoints.find(key) else {
            return Ok(Next::Done);
        };
        if left.label(MANAGED_BY) != Some(MANAGER) {
            return Ok(Next::Done);
        }
        let options = DeleteOptions::with_uid(left.uid());
        let handle = client.namespaced::<Endpoints>(key.namespace());
        match handle.delete(key.name(), options).await {
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(Next::Done),
            deleted => Ok(deleted.map(|_| Next::Done)?),
        }
    }
}

#[cfg(test)]
mod tests;
