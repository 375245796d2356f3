//! Wiring of the aggregator: which controller registers aggregated API servers with it, how it connects to them, and
//! how the controllers of this process send requests to them.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use setpoint_api::{ApiVerb, Clock, Serve};
use setpoint_apiserver::Aggregator;
use setpoint_apiserver::aggregate::{ProxyClientIdentity, Remote, Router, ServiceReference, TlsTrust};
use setpoint_apiserver::connect::BackendAddress;
use setpoint_client::Http;
use setpoint_controllers::Resource;
use setpoint_controllers::api_service::{
    AggregatorHooks, AvailabilityMetrics, RemoteApiService, ServiceResolver,
};
use setpoint_registry::Registry;
use setpoint_runtime::Caches;
use tokio_util::sync::CancellationToken;

/// The aggregator and the handles that other components have of it.
pub(super) struct Aggregation {
    pub(super) aggregator: Arc<Aggregator>,
    /// The API of this server and of all aggregated API servers, for the controllers' clients.
    pub(super) serve: Arc<dyn Serve>,
    pub(super) metrics: Arc<AvailabilityMetrics>,
}

impl Aggregation {
    pub(super) fn open(
        identity: ProxyClientIdentity,
        registry: &Arc<Registry>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self> {
        let aggregator = Aggregator::new(Some(identity), clock.clone(), service_resolver(&**registry)?);
        let remote = Http::with_transport(aggregator.transport(), clock.clone());
        let serve = Router {
            aggregator: aggregator.clone(),
            local: registry.clone(),
            remote: Arc::new(remote.context("cannot create the client of aggregated API servers")?),
        };
        Ok(Self {
            aggregator,
            serve: Arc::new(serve),
            metrics: Arc::default(),
        })
    }

    /// What the APIService controllers call: one registers all remote APIServices, the other probes one of them.
    pub(super) fn hooks(&self) -> AggregatorHooks {
        let (registering, probing) = (self.aggregator.clone(), self.aggregator.clone());
        AggregatorHooks::new(
            self.metrics.clone(),
            move |all| registering.register(all.into_iter().map(remote).collect()),
            move |one| {
                let aggregator = probing.clone();
                Box::pin(async move { aggregator.probe(&remote(one)).await })
            },
        )
    }
}

/// Resolves Services to their endpoints, as the caches have them.
pub(super) fn service_resolver(
    caches: &dyn Caches,
) -> Result<setpoint_apiserver::aggregate::ServiceResolver> {
    let resolver = ServiceResolver::new(caches).context("there is no cache of Services")?;
    Ok(Box::new(move |service: &ServiceReference| {
        let endpoint = resolver.resolve_endpoint(&service.namespace, &service.name, service.port);
        endpoint.map(|(host, port)| BackendAddress {
            secure: true,
            host,
            port,
            resolved: Vec::new(),
            node: None,
        })
    }))
}

/// Refreshes the discovery of aggregated API servers until stopped.
pub(super) async fn run(aggregator: Arc<Aggregator>, stop: CancellationToken) -> Result<()> {
    aggregator.run(stop).await;
    Ok(())
}

/// The resources of aggregated API servers that can be listed and deleted.
pub(super) fn resources(aggregator: &Aggregator) -> impl Iterator<Item = Resource> {
    let has = |verbs: &[String], verb: ApiVerb| verbs.iter().any(|one| one == verb.as_str());
    let listed = aggregator.resources().into_iter();
    let deletable =
        listed.filter(move |one| has(&one.verbs, ApiVerb::List) && has(&one.verbs, ApiVerb::Delete));
    deletable.map(|one| Resource {
        gvk: one.gvk,
        gvr: one.gvr,
        namespaced: one.namespaced,
    })
}

/// Converts from the controllers' type to the API server's.
fn remote(api_service: RemoteApiService) -> Remote {
    Remote {
        name: api_service.name,
        group: api_service.group.into(),
        version: api_service.version.into(),
        service: ServiceReference {
            namespace: api_service.namespace,
            name: api_service.service,
            port: api_service.port,
        },
        trust: match api_service.insecure_skip_tls_verify {
            true => TlsTrust::InsecureSkipTlsVerify,
            false => TlsTrust::CaBundle(api_service.ca_bundle),
        },
        available: api_service.available,
        group_priority: api_service.group_priority,
        version_priority: api_service.version_priority,
    }
}
