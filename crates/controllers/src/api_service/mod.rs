//! Says of every APIService whether who serves it can be reached: this server always, a server behind it if its service
//! is there and it answers. It is one of the API server's own, so it runs whatever controllers are asked for.
//!
//! How a server is asked is not known here: [`Aggregation`] is handed in. It is also told who there is
//! ([`mod@registration`]); where a service is, [`Places`] finds out.

mod behind;
mod figures;
mod places;
mod plan;
pub mod registration;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{
    APIService, APIServiceCondition, ServiceReference,
};
use serde_json::json;
use setpoint_api::{Change, Clock, Key};
use setpoint_runtime::queue::Limits;
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Patch, Reconcile, Typed};
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::api_service::plan::Found;

pub use behind::{Aggregation, Behind, Probing};
pub use figures::Figures;
pub use places::Places;

pub const NAME: &str = "apiservice-availability-controller";

/// Who is noted as the one who wrote the status.
const MANAGER: &str = "kube-apiserver";
/// The label that names the service of a slice.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// As many as kube-aggregator has.
const WORKERS: usize = 5;
/// How often a server is asked again whether it answers. What happens to it is not always written anywhere.
const RECHECK: Duration = Duration::from_secs(30);
/// One that does not answer is asked again soon, then ever more slowly.
const LIMITS: Limits = Limits {
    base: Duration::from_millis(5),
    cap: RECHECK,
    overall: None,
};

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = ApiServices {
        all: context.lister()?,
        services: context.lister()?,
        slices: context.lister()?,
        client: context.client.clone(),
        clock: context.clock.clone(),
        aggregation: config.aggregation,
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
        .workers(WORKERS)
        .limits(LIMITS)
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
    aggregation: Aggregation,
}

/// Those that are served by this service.
fn behind(all: &Lister<APIService>, service: &Key) -> Vec<Key> {
    let served = |one: &Typed<APIService>| reference(one).is_some_and(|own| key_of(&own) == *service);
    let found = all.list().into_iter().filter(served);
    found.map(|one| one.key().clone()).collect()
}

fn reference(service: &Typed<APIService>) -> Option<ServiceReference> {
    service.shared().ok()?.spec.as_ref()?.service.clone()
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
            self.aggregation.figures.forget(key.name());
            return Ok(Next::Done);
        };
        let document = service.shared()?;
        let Some(behind) = Behind::of(&document) else {
            self.report(&service, &document, Found::local()).await?;
            return Ok(Next::Done);
        };
        let blocked = self.look(&document)?;
        let found = match blocked {
            Some(blocked) => blocked,
            None => match self.aggregation.probe(behind).await {
                Ok(()) => Found::passed(),
                Err(why) => {
                    self.report(&service, &document, Found::failed(why.clone()))
                        .await?;
                    return Err(Error::failed(why));
                }
            },
        };
        self.report(&service, &document, found).await?;
        Ok(Next::After(RECHECK))
    }
}

impl ApiServices {
    /// What keeps the server from being asked.
    fn look(&self, service: &APIService) -> Result<Option<Found>, Error> {
        let Some(reference) = service.spec.as_ref().and_then(|spec| spec.service.as_ref()) else {
            return Ok(None);
        };
        let key = key_of(reference);
        let service = self.services.find(&key);
        let service = service.map(|service| service.shared()).transpose()?;
        let mut slices = Vec::new();
        for slice in self.slices.in_namespace(key.namespace()) {
            if slice.label(SERVICE_NAME) == Some(key.name()) {
                slices.push(slice.to_owned()?);
            }
        }
        Ok(plan::remote(reference, service.as_deref(), &slices))
    }

    /// Writes what was found, if it says something new.
    async fn report(
        &self,
        service: &Typed<APIService>,
        document: &APIService,
        found: Found,
    ) -> Result<(), Error> {
        let (name, available, reason) = (service.key().name(), found.is_available(), found.reason);
        self.aggregation.figures.found(name, available);
        let before = document
            .status
            .as_ref()
            .and_then(|status| status.conditions.as_deref());
        let before = before.unwrap_or_default();
        let now = Time(self.clock.now());
        let Some(conditions) = plan::conditions(before, found, &now) else {
            return Ok(());
        };
        let patch = json!({
            "metadata": {"resourceVersion": service.resource_version().to_string()},
            "status": {"conditions": conditions},
        });
        let patch = Patch::merge(&patch)?.managed_by(MANAGER);
        let handle = self.client.all::<APIService>();
        match handle.patch_status(name, &patch).await {
            Err(status) if status.is_not_found() => return Ok(()),
            written => written?,
        };
        let was_available = |one: &APIServiceCondition| one.type_ == plan::AVAILABLE && one.status == "True";
        if !available && before.iter().any(was_available) {
            self.aggregation.figures.lost(name, reason);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
