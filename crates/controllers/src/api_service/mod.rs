//! Says of every APIService whether who serves it can be reached: this server always, a service behind it if it is
//! there. It is one of the API server's own, so it runs whatever controllers are asked for.

mod plan;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{APIService, ServiceReference};
use serde_json::json;
use setpoint_api::{Change, Clock, Key};
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Patch, Reconcile, Typed};
use tokio_util::sync::CancellationToken;

use crate::api_service::plan::Found;

pub const NAME: &str = "apiservice-availability-controller";

/// Who is noted as the one who wrote the status.
const MANAGER: &str = "kube-apiserver";
/// The label that names the service of a slice.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Runs the controller until stopped.
pub async fn run(context: Context, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = ApiServices {
        all: context.lister()?,
        services: context.lister()?,
        slices: context.lister()?,
        client: context.client.clone(),
        clock: context.clock.clone(),
    };
    let (of_services, of_slices) = (reconciler.all.clone(), reconciler.all.clone());
    Controller::new(NAME, reconciler)
        .reconciles::<APIService>()
        .watches(Service::resource().group_resource(), move |change| {
            behind(&of_services, change.key())
        })
        .watches(EndpointSlice::resource().group_resource(), move |change| {
            let service = service_of(change);
            service.map_or_else(Vec::new, |service| behind(&of_slices, &service))
        })
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct ApiServices {
    all: Lister<APIService>,
    services: Lister<Service>,
    slices: Lister<EndpointSlice>,
    client: Client,
    clock: Arc<dyn Clock>,
}

/// Those that are served by this service.
fn behind(all: &Lister<APIService>, service: &Key) -> Vec<Key> {
    let served = |one: &Typed<APIService>| reference(one).is_some_and(|own| key_of(&own) == *service);
    let found = all.list().into_iter().filter(served);
    found.map(|one| one.key().clone()).collect()
}

fn reference(service: &Typed<APIService>) -> Option<ServiceReference> {
    service.to_owned().ok()?.spec?.service
}

fn key_of(reference: &ServiceReference) -> Key {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    Key::new(&text(&reference.namespace), &text(&reference.name))
}

/// The service whose endpoints a slice holds.
fn service_of(change: &Change) -> Option<Key> {
    let name = change.object().label(SERVICE_NAME)?;
    Some(Key::new(change.key().namespace(), name))
}

impl Reconcile for ApiServices {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(service) = self.all.find(key) else {
            return Ok(Next::Done);
        };
        let document = service.to_owned()?;
        let reference = document.spec.as_ref().and_then(|spec| spec.service.as_ref());
        let found = match reference {
            None => Found::local(),
            Some(reference) => self.look(reference)?,
        };
        let before = document
            .status
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        let now = Time(self.clock.now());
        let Some(conditions) = plan::conditions(&before, found, &now) else {
            return Ok(Next::Done);
        };
        let patch = json!({
            "metadata": {"resourceVersion": service.resource_version().to_string()},
            "status": {"conditions": conditions},
        });
        let patch = Patch::merge(&patch)?.managed_by(MANAGER);
        let written = self
            .client
            .all::<APIService>()
            .patch_status(key.name(), &patch)
            .await;
        match written {
            Err(status) if status.is_not_found() => Ok(Next::Done),
            written => Ok(written.map(|_| Next::Done)?),
        }
    }
}

impl ApiServices {
    fn look(&self, reference: &ServiceReference) -> Result<Found, Error> {
        let key = key_of(reference);
        let service = self.services.find(&key);
        let service = service.map(|service| service.to_owned()).transpose()?;
        let mut slices = Vec::new();
        for slice in self.slices.in_namespace(key.namespace()) {
            if slice.label(SERVICE_NAME) == Some(key.name()) {
                slices.push(slice.to_owned()?);
            }
        }
        Ok(plan::remote(reference, service.as_ref(), &slices))
    }
}

#[cfg(test)]
mod tests;
