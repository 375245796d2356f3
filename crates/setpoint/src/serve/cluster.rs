//! [`Cluster`]: one cluster as a value: its registry, access control, admission, aggregation and controllers, built from
//! flags, caches and credentials. A process has one, and further ones if it hosts clusters; none has state outside.
//!
//! Start reading at [`Cluster::open`], which is the list of its parts in the order in which they depend on each other.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use setpoint_admission::{AccessChecker, Chain, Webhooks};
use setpoint_api::{Clock, User};
use setpoint_apiserver::health::Check;
use setpoint_apiserver::metrics::{MetricsSource, ProcessMetrics};
use setpoint_apiserver::resource_metrics::{ResourceMetrics, Scraper};
use setpoint_apiserver::{Aggregator, Audit, CustomRoute, HttpsWebhookClient, View};
use setpoint_auth::{AccessControl, Issuer};
use setpoint_controllers::serviceaccount_tokens::TokenUses;
use setpoint_kinds::bootstrap::{self, ServerInfo};
use setpoint_node::RuntimeConfig;
use setpoint_registry::{Registry, WatchCaches};
use setpoint_registry_api::VirtualResource;
use setpoint_runtime::{Caches, Manager};
use setpoint_strategy::BootstrapObject;
use tokio_util::sync::CancellationToken;

use super::access::{self, Reload};
use super::aggregation::{self, Aggregation};
use super::component_statuses::VirtualResources;
use super::components::Components;
use super::control_plane::{self, NODE_PREFIX, Selection};
use super::controller_config::controller_config;
use super::credentials::Credentials;
use super::kubelet::NodeConnector;
use super::metrics_api::{self, MetricsApi};
use super::{access_checker, checks, flow_control, kubelet, memory, scheduling, webhooks};
use crate::args::Up;
use crate::nodes::{self, NodeChoice};

/// What a cluster is built from.
pub(super) struct ClusterConfig<'a> {
    pub(super) args: &'a Up,
    /// The store and the caches of its objects.
    pub(super) caches: Arc<WatchCaches>,
    pub(super) credentials: Credentials,
    /// The address that the server listens on.
    pub(super) address: SocketAddr,
    pub(super) audit: Option<Arc<Audit>>,
    /// Further metrics and non-resource paths.
    pub(super) metrics_sources: Vec<Arc<dyn MetricsSource>>,
    pub(super) custom_routes: Vec<CustomRoute>,
    pub(super) clock: Arc<dyn Clock>,
    /// Cancelled when the cluster stops.
    pub(super) stop: CancellationToken,
    /// Whether the objects are those of another cluster, the bootstrap objects among them.
    pub(super) is_fork: bool,
    /// A view of the same kinds, such as that of the cluster that this one is a fork of.
    pub(super) origin: Option<Arc<View>>,
    /// Further checks of health.
    pub(super) checks: Vec<Check>,
}

/// A cluster whose components are built and not yet started.
pub(super) struct Cluster {
    pub(super) registry: Arc<Registry>,
    pub(super) view: Arc<View>,
    pub(super) aggregator: Arc<Aggregator>,
    pub(super) issuer: Arc<Issuer>,
    /// What runs the containers of its nodes and why, for the user.
    pub(super) nodes: String,
    webhook_client: Arc<HttpsWebhookClient>,
    manager: Manager,
    reload: Reload,
    /// Reads the usage of nodes, if the metrics API is served.
    scraper: Option<Scraper>,
}

impl Cluster {
    pub(super) fn open(mut config: ClusterConfig<'_>) -> Result<Self> {
        let bootstrap = bootstrap_objects(&config);
        let readers: Arc<dyn Caches> = config.caches.clone();
        let uses = TokenUses::default();
        let (access, reload) = access::open(
            config.args,
            &mut config.credentials,
            &readers,
            &config.clock,
            &uses,
        )?;
        let ClusterConfig {
            args,
            caches,
            credentials,
            clock,
            ..
        } = &config;
        let issuer = credentials.issuer.clone();
        let local_nodes = nodes::choose(&args.node_flags, args.nodes, NODE_PREFIX, args.memory)?;
        let webhook_client = webhooks::client(&*readers, clock)?;
        let checker = Arc::new(access_checker::AuthorizerAccessChecker(access.authorizer.clone()));
        let webhooks = webhooks::admission(&webhook_client, clock, checker.clone());
        let rules = admission_config(args, checker, webhooks.clone());
        let clients = (&access, &rules, webhook_client.clone());
        let metrics_api = metrics_api(args, &*readers, &local_nodes, clock)?;
        let read = metrics_api.as_ref().map(|metrics| metrics.read.clone());
        let objects = (bootstrap, virtual_resources(args, caches, &access, metrics_api));
        let registry = open_registry(args, caches.clone(), clients, objects, clock)?;
        let aggregation = Aggregation::open(credentials.proxy_client()?, &registry, clock)?;
        let mut manager = control_plane::manager(&registry, &aggregation, clock);
        let controllers = controller_config(args, credentials, (&registry, &aggregation), (&access, uses))?;
        let scheduler = scheduling::config(&args.scheduler_flags, clock)?;
        let explain = scheduling::route(readers, aggregation.serve.clone(), scheduler.explainer.clone());
        control_plane::add_components(&mut manager, args, &registry, &controllers, scheduler)?;
        let nodes = control_plane::add_nodes(&mut manager, args, local_nodes);
        let identity = credentials.kubelet_client.as_ref();
        let connect = kubelet::connector(&args.kubelet_flags, nodes.connector, identity)?;
        let scraper = read
            .map(|read| scraper(&registry, &connect, read, clock))
            .transpose()?;
        let mut sources = metrics_sources(&registry, &manager, &aggregation);
        sources.push(webhooks.metrics);
        config.custom_routes.push(explain);
        let view = open_view(config, (&registry, connect), &access, &aggregation, sources)?;
        Ok(Self {
            registry,
            view,
            aggregator: aggregation.aggregator,
            webhook_client,
            issuer,
            nodes: nodes.description,
            manager,
            reload,
            scraper,
        })
    }

    /// Starts all components of the cluster.
    pub(super) fn start(self, components: &mut Components) {
        let Self {
            registry,
            view,
            aggregator,
            webhook_client,
            manager,
            reload,
            scraper,
            ..
        } = self;
        components.start("registry", |stop| async move { Ok(registry.run(stop).await?) });
        components.start("API server", |stop| async move {
            view.run(stop).await;
            Ok(())
        });
        components.start("aggregator", |stop| aggregation::run(aggregator, stop));
        components.start("webhooks", |stop| webhooks::run(webhook_client, stop));
        components.start("configuration reload", |stop| reload.run(stop));
        if let Some(scraper) = scraper {
            components.start("metrics API", |stop| async move {
                scraper.run(stop).await;
                Ok(())
            });
        }
        components.start("controllers", |stop| async move { Ok(manager.run(stop).await?) });
    }
}

/// The API of the cluster over HTTP.
fn open_view(
    config: ClusterConfig<'_>,
    (registry, connect): (&Arc<Registry>, NodeConnector),
    access: &AccessControl,
    aggregation: &Aggregation,
    mut metrics_sources: Vec<Arc<dyn MetricsSource>>,
) -> Result<Arc<View>> {
    let args = config.args;
    metrics_sources.extend(config.metrics_sources);
    Ok(View::new(setpoint_apiserver::Config {
        serve: registry.clone(),
        kinds: kinds_provider(registry),
        authenticate: Box::new(access.authenticate()),
        authorize: Box::new(access.authorizer.clone()),
        issuer: Some(access.issuer.clone()),
        clock: config.clock,
        client_authorities: config.credentials.client_authorities,
        request_headers: config.credentials.request_headers,
        audit: config.audit,
        connect: Box::new(connect),
        aggregator: aggregation.aggregator.clone(),
        admit_connect: Some(registry.clone()),
        flow_control: flow_control::config(&args.flow_control_flags, registry.clone())?,
        checks: checks::all(registry, &config.stop)
            .into_iter()
            .chain(config.checks)
            .collect(),
        metrics_sources,
        custom_routes: config.custom_routes,
        max_memory: memory::limit(args.limit_flags.max_memory),
        address: config.address,
        origin: config.origin,
    }))
}

fn bootstrap_objects(config: &ClusterConfig<'_>) -> Vec<BootstrapObject> {
    let server = server_info(config);
    match config.is_fork {
        true => bootstrap::rechecked_objects(Some(&server)),
        false => bootstrap::objects(&config.caches.kinds(), Some(&server)),
    }
}

/// The server's address, service CIDR and CAs, which the registry publishes as objects.
fn server_info(config: &ClusterConfig<'_>) -> ServerInfo {
    let certificates = config.credentials.certificates.borrow();
    ServerInfo {
        address: config.args.advertised_address(config.address),
        shares_store: config.caches.store().is_replica(),
        port: config.address.port(),
        has_default_accounts: !config.args.is_kube_apiserver,
        service_cidr: config.args.service_cluster_ip_range,
        client_ca: certificates.client_ca.clone(),
        proxy_ca: certificates.proxy_ca.clone(),
        request_header: config.credentials.request_header_info.clone(),
    }
}

/// The components with metrics, in the order of the page.
fn metrics_sources(
    registry: &Arc<Registry>,
    manager: &Manager,
    aggregation: &Aggregation,
) -> Vec<Arc<dyn MetricsSource>> {
    let context = manager.context();
    vec![
        context.metrics.clone(),
        Arc::new(context.events.clone()),
        registry.clone(),
        aggregation.metrics.clone(),
        Arc::new(ProcessMetrics),
    ]
}

/// The configuration of the admission plugins. The simulated nodes run in this process but are restricted to their own
/// objects (NodeRestriction), unlike its other components.
fn admission_config(
    args: &Up,
    access: Arc<dyn AccessChecker>,
    webhooks: Webhooks,
) -> setpoint_admission::Config {
    setpoint_admission::Config {
        service_cidr: args.service_cluster_ip_range,
        node_port_range: args.service_node_port_range,
        shares_store: args.etcd_flags.is_enabled(),
        node_restriction: true,
        taints_ready_nodes: !Selection::new(&args.controllers).scheduler,
        access: Some(access),
        webhooks: Some(webhooks),
        enabled: args.enable_admission_plugins.clone(),
        disabled: args.disable_admission_plugins.clone(),
    }
}

fn open_registry(
    args: &Up,
    caches: Arc<WatchCaches>,
    (access, rules, webhooks): (
        &AccessControl,
        &setpoint_admission::Config,
        Arc<HttpsWebhookClient>,
    ),
    (bootstrap, virtual_resources): (Vec<BootstrapObject>, Arc<dyn VirtualResource>),
    clock: &Arc<dyn Clock>,
) -> Result<Arc<Registry>> {
    rules.check()?;
    let config = setpoint_registry::Config {
        bootstrap,
        admit: Arc::new(access.guard(Chain::standard(rules))),
        virtual_resources,
        webhooks,
        clock: clock.clone(),
        event_ttl: args.event_ttl,
        allow_privileged: args.allow_privileged,
        caches,
    };
    Ok(Registry::new(config))
}

/// The metrics API, if it is served.
fn metrics_api(
    args: &Up,
    caches: &dyn Caches,
    local_nodes: &NodeChoice,
    clock: &Arc<dyn Clock>,
) -> Result<Option<MetricsApi>> {
    let rules = match local_nodes.config.as_ref().map(|config| &config.runtime) {
        Some(RuntimeConfig::Simulated(simulation)) => simulation.rules.clone(),
        _ => Vec::new(),
    };
    let is_served = args.serves_metrics();
    is_served
        .then(|| MetricsApi::new(caches, rules, clock))
        .transpose()
}

/// Reads the usage of the nodes that are not simulated.
fn scraper(
    registry: &Arc<Registry>,
    connect: &NodeConnector,
    metrics: Arc<ResourceMetrics>,
    clock: &Arc<dyn Clock>,
) -> Result<Scraper> {
    let nodes = metrics_api::READ_NODES.parse();
    Ok(Scraper {
        serve: registry.clone(),
        user: Arc::new(User::component("system:apiserver")),
        connect: Arc::new(connect.clone()),
        nodes: nodes.map_err(|error| anyhow!("{error:?} in the selector of nodes"))?,
        clock: clock.clone(),
        metrics,
    })
}

fn virtual_resources(
    args: &Up,
    caches: &WatchCaches,
    access: &AccessControl,
    metrics: Option<MetricsApi>,
) -> Arc<dyn VirtualResource> {
    let selection = Selection::new(&args.controllers);
    Arc::new(VirtualResources {
        reviews: access.reviews(),
        stores: caches.stores().cloned().collect(),
        runs_scheduler: selection.scheduler,
        runs_controllers: selection.controllers,
        metrics,
    })
}

/// Returns the kinds that the registry serves at the time of the call.
pub(super) fn kinds_provider(registry: &Arc<Registry>) -> setpoint_apiserver::view::KindsProvider {
    let registry = registry.clone();
    Box::new(move || registry.kinds())
}
