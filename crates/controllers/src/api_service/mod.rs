//! Availability of APIServices: writes the `Available` condition. A local APIService is always available, a remote one
//! if its Service has endpoints and the server behind it responds. It belongs to the API server, so it runs regardless
//! of `--controllers`.
//!
//! How a remote server is probed is not known here: the process passes [`AggregatorHooks`] in, which also receive the
//! registered APIServices ([`mod@registration`]). [`ServiceResolver`] resolves a Service to an endpoint.

mod metrics;
mod plan;
pub mod registration;
mod remote;
mod service_resolver;

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
use setpoint_runtime::queue::RateLimits;
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Patch, Reconcile, TypedObject,
};
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::api_service::plan::Availability;

pub use metrics::AvailabilityMetrics;
pub use remote::{AggregatorHooks, ProbeFuture, RemoteApiService};
pub use service_resolver::ServiceResolver;

pub const NAME: &str = "apiservice-availability-controller";

/// The label with which an EndpointSlice names its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// As many workers as kube-aggregator has.
const WORKERS: usize = 5;
/// How often a remote server is probed again: its failure need not change any object.
const RECHECK: Duration = Duration::from_secs(30);
/// Backoff for a server that fails its probe.
const LIMITS: RateLimits = RateLimits {
    base_delay: Duration::from_millis(5),
    max_delay: RECHECK,
    overall: None,
};

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = ApiServiceAvailability {
        all: context.lister()?,
        services: context.lister()?,
        slices: context.lister()?,
        clock: context.clock.clone(),
        aggregator: config.aggregator,
    };
    let (of_services, of_slices) = (reconciler.all.clone(), reconciler.all.clone());
    Controller::new(NAME, reconciler)
        .reconciles::<APIService>()
        .watches(Service::resource().group_resource(), move |change| {
            api_services_of(&of_services, change.key())
        })
        .watches(EndpointSlice::resource().group_resource(), move |change| {
            let service = service_of(change);
            service.map_or_else(Vec::new, |service| api_services_of(&of_slices, &service))
        })
        .workers(WORKERS)
        .rate_limits(LIMITS)
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct ApiServiceAvailability {
    all: Lister<APIService>,
    services: Lister<Service>,
    slices: Lister<EndpointSlice>,
    clock: Arc<dyn Clock>,
    aggregator: AggregatorHooks,
}

/// The APIServices that this Service serves.
fn api_services_of(all: &Lister<APIService>, service: &Key) -> Vec<Key> {
    let served = |one: &TypedObject<APIService>| reference(one).is_some_and(|own| key_of(&own) == *service);
    let selected = all.list().into_iter().filter(served);
    selected.map(|one| one.key().clone()).collect()
}

fn reference(service: &TypedObject<APIService>) -> Option<ServiceReference> {
    service.shared().ok()?.spec.as_ref()?.service.clone()
}

fn key_of(reference: &ServiceReference) -> Key {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    Key::new(&text(&reference.namespace), &text(&reference.name))
}

/// The Service of an EndpointSlice.
fn service_of(change: &Change) -> Option<Key> {
    let name = change.object().label(SERVICE_NAME)?;
    Some(Key::new(change.key().namespace(), name))
}

impl Reconcile for ApiServiceAvailability {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(service) = self.all.find(key) else {
            self.aggregator.metrics.forget(key.name());
            return Ok(Next::Done);
        };
        let api_service = service.shared()?;
        let Some(remote) = RemoteApiService::of(&api_service) else {
            self.report(client, &service, &api_service, Availability::local())
                .await?;
            return Ok(Next::Done);
        };
        let blocked = self.check_service(&api_service)?;
        let availability = match blocked {
            Some(blocked) => blocked,
            None => match self.aggregator.probe(remote).await {
                Ok(()) => Availability::passed(),
                Err(why) => {
                    self.report(client, &service, &api_service, Availability::failed(why.clone()))
                        .await?;
                    return Err(Error::failed(why));
                }
            },
        };
        self.report(client, &service, &api_service, availability).await?;
        Ok(Next::After(RECHECK))
    }
}

impl ApiServiceAvailability {
    /// Why the server cannot be probed; `None` if it can.
    fn check_service(&self, service: &APIService) -> Result<Option<Availability>, Error> {
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
        Ok(plan::check_service(reference, service.as_deref(), &slices))
    }

    /// Writes the condition if it changed.
    async fn report(
        &self,
        client: &Client,
        service: &TypedObject<APIService>,
        api_service: &APIService,
        availability: Availability,
    ) -> Result<(), Error> {
        let (name, available, reason) = (
            service.key().name(),
            availability.is_available(),
            availability.reason,
        );
        self.aggregator.metrics.set_available(name, available);
        let before = api_service
            .status
            .as_ref()
            .and_then(|status| status.conditions.as_deref());
        let before = before.unwrap_or_default();
        let now = Time(self.clock.now());
        let Some(conditions) = plan::conditions(before, availability, &now) else {
            return Ok(());
        };
        let patch = json!({
            "metadata": {"resourceVersion": service.resource_version().to_string()},
            "status": {"conditions": conditions},
        });
        let patch = Patch::merge(&patch)?;
        let handle = client.all::<APIService>();
        match handle.patch_status(name, &patch).await {
            Err(status) if status.is_not_found() => return Ok(()),
            written => written?,
        };
        let was_available = |one: &APIServiceCondition| one.type_ == plan::AVAILABLE && one.status == "True";
        if !available && before.iter().any(was_available) {
            self.aggregator.metrics.count_lost(name, reason);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
