//! A server behind this one, as its registration names it, and who is told of it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;

use super::figures::Figures;
use super::plan::{AVAILABLE, DEFAULT_PORT};

/// One version of one group that a server behind this one serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Behind {
    /// As it is registered: `v1beta1.metrics.k8s.io`.
    pub name: String,
    pub group: String,
    pub version: String,
    /// The service that leads to it.
    pub namespace: String,
    pub service: String,
    pub port: u16,
    /// The authorities that its certificate may be of, in PEM.
    pub authorities: Vec<u8>,
    /// Whether any certificate will do.
    pub insecure: bool,
    /// Whether it answered when it was last asked.
    pub available: bool,
    pub group_priority: i32,
    pub version_priority: i32,
}

/// How other servers are told of, and asked whether they answer.
#[derive(Clone)]
pub struct Aggregation {
    tell: Arc<dyn Fn(Vec<Behind>) + Send + Sync>,
    probe: Arc<dyn Fn(Behind) -> Probing + Send + Sync>,
    pub(super) figures: Arc<Figures>,
}

/// Whether a server answers; if not, why.
pub type Probing = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

// === impl Behind ===

impl Behind {
    /// Who serves a version, if it is not this server itself.
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
            authorities: bundle.map(|bundle| bundle.0.clone()).unwrap_or_default(),
            insecure: spec.insecure_skip_tls_verify.unwrap_or_default(),
            available: conditions.any(|one| one.type_ == AVAILABLE && one.status == "True"),
            group_priority: spec.group_priority_minimum,
            version_priority: spec.version_priority,
        })
    }
}

// === impl Aggregation ===

impl Aggregation {
    /// Tells `tell` of all servers whenever one of them changes, and asks `probe` whether one answers.
    pub fn new(
        figures: Arc<Figures>,
        tell: impl Fn(Vec<Behind>) + Send + Sync + 'static,
        probe: impl Fn(Behind) -> Probing + Send + Sync + 'static,
    ) -> Self {
        Self {
            tell: Arc::new(tell),
            probe: Arc::new(probe),
            figures,
        }
    }

    pub(super) fn tell(&self, all: Vec<Behind>) {
        (self.tell)(all);
    }

    pub(super) async fn probe(&self, one: Behind) -> Result<(), String> {
        (self.probe)(one).await
    }
}

/// Nobody is told, and nobody answers.
impl Default for Aggregation {
    fn default() -> Self {
        let nobody = |_| -> Probing {
            Box::pin(async { Err("requests are not passed on to other servers".to_owned()) })
        };
        Self::new(Arc::default(), drop, nobody)
    }
}

impl fmt::Debug for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aggregation").finish_non_exhaustive()
    }
}
