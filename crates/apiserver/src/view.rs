//! [`View`]: one API as clients see it under a path prefix: its `Serve`, its filters and what they share.
//!
//! A server has one view for the cluster that it serves, and further ones for the clusters that it hosts. A view does not
//! know its prefix: [`crate::Server`] finds the view of a request by its path and removes the prefix before the filters
//! see it. Where a response contains a URL of this server, `Exchange::base_path` is put before it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use jiff::Timestamp;
use setpoint_api::{Clock, Serve, Status, User};
use setpoint_auth::{Authenticate, Authorize, Issuer};
use setpoint_registry_api::AdmitConnect;
use setpoint_strategy::Kinds;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::aggregate::Aggregator;
use crate::connect::Connect;
use crate::discovery::Discovery;
use crate::filters::audit::Audit;
use crate::filters::audit_id::AuditIds;
use crate::filters::bodies_in_flight::BodiesInFlight;
use crate::filters::flow_control::{FlowControl, FlowControlConfig};
use crate::filters::memory::MemoryLimit;
use crate::filters::request_header::RequestHeaders;
use crate::health::Check;
use crate::metrics::{Metrics, MetricsSource};
use crate::non_resource::CustomRoute;
use crate::openapi::OpenApi;
use crate::tls::{ClientAuthorities, Peer};

/// How long requests may continue after shutdown begins.
pub(crate) const SHUTDOWN_GRACE: Duration = Duration::from_millis(700);

/// Returns the kinds served now.
pub type KindsProvider = Box<dyn Fn() -> Arc<Kinds> + Send + Sync>;

/// Configuration of a view.
pub struct Config {
    /// The API itself.
    pub serve: Arc<dyn Serve>,
    /// The kinds served now. A `Kinds` is immutable; a CRD change replaces it.
    pub kinds: KindsProvider,
    pub authenticate: Box<dyn Authenticate>,
    pub authorize: Box<dyn Authorize>,
    /// Issuer of ServiceAccount tokens, for OpenID discovery.
    pub issuer: Option<Arc<Issuer>>,
    pub clock: Arc<dyn Clock>,
    /// The CAs of client certificates; they may be replaced while the server runs.
    pub client_authorities: Arc<ClientAuthorities>,
    /// The headers in which authenticating proxies name the user, if there are any.
    pub request_headers: Option<RequestHeaders>,
    /// The audit log, if there is one.
    pub audit: Option<Arc<Audit>>,
    /// Connects to nodes, pods and services.
    pub connect: Box<dyn Connect>,
    /// The aggregated API servers.
    pub aggregator: Arc<Aggregator>,
    /// Admission of connects; without it all are admitted.
    pub admit_connect: Option<Arc<dyn AdmitConnect>>,
    /// Limits on the requests that execute at once.
    pub flow_control: FlowControlConfig,
    pub checks: Vec<Check>,
    /// Further metrics for `/metrics`.
    pub metrics_sources: Vec<Arc<dyn MetricsSource>>,
    /// Non-resource paths of the binary.
    pub custom_routes: Vec<CustomRoute>,
    /// Resident memory above which expensive requests are rejected, in bytes; zero is no limit.
    pub max_memory: u64,
    /// The address that the server listens on.
    pub address: SocketAddr,
    /// A view of the same kinds, such as the one that this is a fork of: its discovery and OpenAPI are not built again.
    pub origin: Option<Arc<View>>,
}

/// The views of a server. This is the only function that gives the beginning of a path a meaning of its own.
pub trait Views: Send + Sync {
    /// The view that serves a path, and the length of the prefix that names it. The error is the response if there is
    /// no such view.
    fn find(&self, path: &str) -> Result<(Arc<View>, usize), Box<Status>>;
}

/// One API with its filters, and the state that its requests share.
pub struct View {
    pub(crate) serve: Arc<dyn Serve>,
    pub(crate) kinds: KindsProvider,
    pub(crate) authenticate: Box<dyn Authenticate>,
    pub(crate) authorize: Box<dyn Authorize>,
    pub(crate) issuer: Option<Arc<Issuer>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) client_authorities: Arc<ClientAuthorities>,
    pub(crate) request_headers: Option<RequestHeaders>,
    pub(crate) audit: Option<Arc<Audit>>,
    pub(crate) connect: Box<dyn Connect>,
    pub(crate) aggregator: Arc<Aggregator>,
    pub(crate) admit_connect: Option<Arc<dyn AdmitConnect>>,
    pub(crate) checks: Vec<Check>,
    pub(crate) metrics_sources: Vec<Arc<dyn MetricsSource>>,
    pub(crate) custom_routes: Vec<CustomRoute>,
    pub(crate) metrics: Metrics,
    pub(crate) memory: MemoryLimit,
    pub(crate) bodies: BodiesInFlight,
    pub(crate) flow_control: FlowControl,
    pub(crate) audit_ids: AuditIds,
    pub(crate) discovery: Discovery,
    pub(crate) openapi: OpenApi,
    /// The address that the server listens on.
    pub(crate) address: SocketAddr,
    /// Cancelled when the view stops: its watches end.
    pub(crate) stop: CancellationToken,
    /// Tasks that outlive their request.
    tasks: TaskTracker,
}

impl View {
    pub fn new(config: Config) -> Arc<Self> {
        let flow_control = FlowControl::new(config.flow_control, &config.clock);
        let origin = config.origin.as_deref();
        Arc::new(Self {
            serve: config.serve,
            kinds: config.kinds,
            authenticate: config.authenticate,
            authorize: config.authorize,
            issuer: config.issuer,
            clock: config.clock,
            client_authorities: config.client_authorities,
            request_headers: config.request_headers,
            audit: config.audit,
            connect: config.connect,
            aggregator: config.aggregator,
            admit_connect: config.admit_connect,
            checks: config.checks,
            metrics_sources: config.metrics_sources,
            custom_routes: config.custom_routes,
            metrics: Metrics::default(),
            memory: MemoryLimit::new(config.max_memory),
            bodies: BodiesInFlight::default(),
            flow_control,
            audit_ids: AuditIds::default(),
            discovery: origin.map(|view| view.discovery.clone()).unwrap_or_default(),
            openapi: origin.map(|view| view.openapi.clone()).unwrap_or_default(),
            address: config.address,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        })
    }

    /// Keeps flow control up to date until stopped; then ends the watches, and waits for tasks that outlive their
    /// request.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let following = self.flow_control.run(self.serve.clone(), self.stop.clone());
        tokio::select! {
            () = stop.cancelled() => {}
            () = async { following.await; std::future::pending().await } => {}
        }
        self.stop.cancel();
        self.tasks.close();
        tokio::select! {
            () = self.tasks.wait() => {}
            () = self.clock.sleep(SHUTDOWN_GRACE) => {}
        }
    }

    /// The user that an authenticating proxy names in the request's headers.
    pub(crate) fn proxied_user(&self, peer: &Peer, headers: &HeaderMap, now: Timestamp) -> Option<Arc<User>> {
        let proxy = peer.proxy_certificate.as_ref()?;
        let headers_of_proxy = self.request_headers.as_ref().filter(|_| !peer.is_expired(now))?;
        headers_of_proxy.user(proxy, headers)
    }

    /// Tracker of tasks that outlive their request.
    pub(crate) fn tasks(&self) -> TaskTracker {
        self.tasks.clone()
    }

    /// Spawns a task that outlives its request; shutdown waits for it.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }
}

/// A server of one view serves it at every path.
impl Views for Arc<View> {
    fn find(&self, _: &str) -> Result<(Arc<View>, usize), Box<Status>> {
        Ok((self.clone(), 0))
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("kinds", &(self.kinds)().len())
            .finish_non_exhaustive()
    }
}
