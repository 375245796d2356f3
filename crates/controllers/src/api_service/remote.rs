//! A remote APIService as registered, and the hooks into the aggregator.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;

use super::metrics::AvailabilityMetrics;
use super::plan::{AVAILABLE, DEFAULT_PORT};

/// One group version served by an aggregated API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteApiService {
    /// The APIService's name, such as `v1beta1.metrics.k8s.io`.
    pub name: String,
    pub group: String,
    pub version: String,
    /// The Service in front of the server.
    pub namespace: String,
    pub service: String,
    pub port: u16,
    /// The CA bundle that its certificate must verify against, as PEM.
    pub ca_bundle: Vec<u8>,
    /// Whether its certificate is not verified.
    pub insecure_skip_tls_verify: bool,
    /// Whether it passed its last probe.
    pub available: bool,
    pub group_priority: i32,
    pub version_priority: i32,
}

/// Callbacks into the aggregator: publish the remote APIServices, probe one.
#[derive(Clone)]
pub struct AggregatorHooks {
    publish: Arc<dyn Fn(Vec<RemoteApiService>) + Send + Sync>,
    probe: Arc<dyn Fn(RemoteApiService) -> ProbeFuture + Send + Sync>,
    pub(super) metrics: Arc<AvailabilityMetrics>,
}

/// The result of a probe: the error text if the server is unavailable.
pub type ProbeFuture = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

// === impl RemoteApiService ===

impl RemoteApiService {
    /// The remote APIService; `None` if this server serves it locally.
    pub(super) fn of(service: &APIService) -> Option<Self> {
        let spec = service.spec.as_ref()?;
        let reference = spec.service.as_ref()?;
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        let conditions = service
            .status
            .as_ref()
            .and_then(|status| status.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        let bundle = spec.ca_bundle.as_ref();
        Some(Self {
            name: text(&service.metadata.name),
            group: text(&spec.group),
            version: text(&spec.version),
            namespace: text(&reference.namespace),
            service: text(&reference.name),
            port: u16::try_from(reference.port.unwrap_or(DEFAULT_PORT)).unwrap_or_default(),
            ca_bundle: bundle.map(|bundle| bundle.0.clone()).unwrap_or_default(),
            insecure_skip_tls_verify: spec.insecure_skip_tls_verify.unwrap_or_default(),
            available: conditions.any(|one| one.type_ == AVAILABLE && one.status == "True"),
            group_priority: spec.group_priority_minimum,
            version_priority: spec.version_priority,
        })
    }
}

// === impl AggregatorHooks ===

impl AggregatorHooks {
    /// `publish` receives all remote APIServices whenever one of them changes; `probe` checks one server.
    pub fn new(
        metrics: Arc<AvailabilityMetrics>,
        publish: impl Fn(Vec<RemoteApiService>) + Send + Sync + 'static,
        probe: impl Fn(RemoteApiService) -> ProbeFuture + Send + Sync + 'static,
    ) -> Self {
        Self {
            publish: Arc::new(publish),
            probe: Arc::new(probe),
            metrics,
        }
    }

    pub(super) fn publish(&self, all: Vec<RemoteApiService>) {
        (self.publish)(all);
    }

    pub(super) async fn probe(&self, one: RemoteApiService) -> Result<(), String> {
        (self.probe)(one).await
    }
}

/// Publishing does nothing; every probe fails.
impl Default for AggregatorHooks {
    fn default() -> Self {
        let not_configured =
            |_| -> ProbeFuture { Box::pin(async { Err("aggregation is not configured".to_owned()) }) };
        Self::new(Arc::default(), drop, not_configured)
    }
}

impl fmt::Debug for AggregatorHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AggregatorHooks").finish_non_exhaustive()
    }
}
