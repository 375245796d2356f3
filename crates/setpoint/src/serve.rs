//! `setpoint up`: builds the store, the registry, the API server and the controllers, starts them and waits for them.
//!
//! Start reading at `up`, which is the list of components in the order in which they depend on each other.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use setpoint_admission::Chain;
use setpoint_api::{Clock, SystemClock, User};
use setpoint_apiserver::metrics::{MetricsSource, ProcessMetrics};
use setpoint_apiserver::version::Version;
use setpoint_apiserver::{Listener, Server};
use setpoint_auth::AccessControl;
use setpoint_auth::audit::Writer;
use setpoint_controllers::serviceaccount_tokens::TokenUses;
use setpoint_kinds::bootstrap::{self, ServerInfo};
use setpoint_registry::{Registry, WatchCaches};
use setpoint_registry_api::VirtualResource;
use setpoint_runtime::{Caches, Client, Context, Manager};
use setpoint_store::{Durability, Store};
use setpoint_strategy::BootstrapObject;
use tokio_util::sync::CancellationToken;

use crate::args::Up;
use crate::log;

mod access;
mod access_checker;
mod aggregation;
mod audit;
mod backup;
mod certificates;
mod checks;
mod client_authentication;
mod component_statuses;
mod components;
mod controller_config;
mod data_dir;
mod flow_control;
mod identity;
mod kubeconfig;
mod kubelet;
mod memory;
mod service_account_keys;
mod serving_files;

use aggregation::Aggregation;
use certificates::{CertificateUsers, Certificates};
use component_statuses::VirtualResources;
use components::Components;
use controller_config::controller_config;
use data_dir::DataDir;
use kubeconfig::WrittenKubeconfig;

/// How often, and at which interval, opening a locked store is tried again.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Objects may be nested 512 levels deep and are walked by recursive functions. Stack pages that are not touched cost
/// nothing.
const STACK_BYTES: usize = 8 << 20;

/// Serves a cluster until interrupted.
pub(crate) fn run(args: Up) -> Result<()> {
    log::start(args.log_format, args.quiet);
    Version::report(args.version.clone(), args.version_git_commit.clone());
    runtime()?.block_on(up(args))
}

/// The runtime of a server.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build();
    runtime.context("cannot start the runtime")
}

/// Serves a cluster until interrupted, on the current runtime.
pub(crate) async fn up(args: Up) -> Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let data_dir = DataDir::open(&args)?;
    let certificates = Certificates::open(&args, &data_dir.pki(), &clock)?;
    let store = open_store(&args, &data_dir, &clock).await?;
    let listener = bind(&args).await?;
    let address = listener.local_addr();
    let kinds = Arc::new(setpoint_kinds::builtin());
    let bootstrap = bootstrap::objects(&kinds, Some(&server_info(&args, &certificates, address)));
    let watch_caches = WatchCaches::open(store.clone(), kinds);
    let caches: Arc<dyn Caches> = watch_caches.clone();
    let uses = TokenUses::default();
    let (access, reload) = access::open(&args, &data_dir.pki(), &caches, &clock, &uses)?;
    let registry = open_registry(&args, watch_caches, &access, bootstrap, &clock)?;
    let aggregation = Aggregation::open(certificates.pki(), &registry, &clock)?;
    let mut manager = manager(&registry, &aggregation, &clock);
    let controllers = controller_config(&args, &certificates, (&registry, &aggregation), (&access, uses))?;
    add_components(&mut manager, &args, &controllers)?;
    let stop = CancellationToken::new();
    let (audit, writer) = audit::open(&args, &clock).await?.unzip();
    let config = setpoint_apiserver::Config {
        serve: registry.clone(),
        kinds: kinds_provider(&registry),
        authenticate: Box::new(access.authenticate()),
        authorize: Box::new(access.authorizer.clone()),
        issuer: Some(access.issuer.clone()),
        clock: clock.clone(),
        tls: certificates.tls(),
        request_headers: certificates.clients().request_headers()?,
        audit,
        connect: Box::new(kubelet::network(&args.kubelet_flags)?),
        aggregator: aggregation.aggregator.clone(),
        flow_control: flow_control::config(&args.flow_control_flags, registry.clone())?,
        checks: checks::all(&registry, &stop),
        metrics_sources: metrics_sources(&registry, &manager, &aggregation),
        custom_routes: vec![backup::route(&store, &data_dir, &access)],
        max_memory: memory::limit(args.limit_flags.max_memory),
    };
    let server = Server::new(config, listener);
    let kubeconfig = certificates.write_kubeconfig(&args, &data_dir, address)?;
    let kubeconfig_path = kubeconfig.path.clone();

    let mut components = Components::new(stop)?;
    start_registry(&mut components, registry.clone());
    components.start("server", |stop| serve(server, writer, stop));
    let aggregator = aggregation.aggregator.clone();
    components.start("aggregator", |stop| aggregation::run(aggregator, stop));
    let users = certificate_users(&aggregation, &access, kubeconfig);
    components.start("certificates", |stop| certificates.run(users, stop));
    components.start("configuration reload", |stop| reload.run(stop));
    components.start("controllers", |stop| async move { Ok(manager.run(stop).await?) });
    let announced = announce_once_started(&registry, &args, &data_dir, address, &kubeconfig_path);
    let outcome = wait(components, &clock, announced).await;
    store.close().await.context("cannot close the store")?;
    outcome
}

/// Waits for the components, and meanwhile announces the server once it has started.
async fn wait(
    components: Components,
    clock: &Arc<dyn Clock>,
    announced: impl Future<Output = ()>,
) -> Result<()> {
    let never = async {
        announced.await;
        std::future::pending().await
    };
    tokio::select! {
        outcome = components.wait(clock) => outcome,
        never = never => never,
    }
}

/// Binds the port of `--listen`.
async fn bind(args: &Up) -> Result<Listener> {
    let listener = Listener::bind(args.listen_address()).await;
    listener.context("cannot serve; set another address with --listen")
}

/// The server's address, service CIDR and CAs, which the registry publishes as objects.
fn server_info(args: &Up, certificates: &Certificates, address: SocketAddr) -> ServerInfo {
    let (pki, clients) = (certificates.pki(), certificates.clients());
    ServerInfo {
        address: args.address_flags.advertise_address.unwrap_or(address.ip()),
        port: address.port(),
        has_default_accounts: !args.is_kube_apiserver,
        service_cidr: args.service_cluster_ip_range,
        client_ca: clients.client_bundle(&pki.authority.bundle),
        proxy_ca: clients.proxy_bundle(&pki.proxy_authority.bundle),
        request_header: clients.request_header_info(),
    }
}

/// The components that get renewed certificates and keys.
fn certificate_users(
    aggregation: &Aggregation,
    access: &AccessControl,
    kubeconfig: WrittenKubeconfig,
) -> CertificateUsers {
    CertificateUsers {
        aggregator: aggregation.aggregator.clone(),
        issuer: access.issuer.clone(),
        kubeconfig,
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

fn start_registry(components: &mut Components, registry: Arc<Registry>) {
    components.start("registry", |stop| async move { Ok(registry.run(stop).await?) });
}

/// Serves until stopped. The audit events logged by then are written before this returns.
async fn serve(server: Server, writer: Option<Writer>, stop: CancellationToken) -> Result<()> {
    let served = CancellationToken::new();
    let serving = async {
        let outcome = server.run(stop).await;
        served.cancel();
        outcome
    };
    let writing = async {
        if let Some(writer) = writer {
            writer.run(served.clone()).await;
        }
    };
    let (outcome, ()) = tokio::join!(serving, writing);
    Ok(outcome?)
}

/// Opens the store. A process that was killed a moment ago may still hold the lock, so a locked store is tried again.
async fn open_store(args: &Up, data_dir: &DataDir, clock: &Arc<dyn Clock>) -> Result<Store> {
    let config = store_config(args, clock);
    if args.memory {
        return Ok(Store::memory(config));
    }
    for _ in 0..LOCK_TRIES {
        match Store::open(&data_dir.store(), config.clone()) {
            Err(setpoint_store::Error::Locked { .. }) => clock.sleep(LOCK_PAUSE).await,
            opened => return Ok(opened?),
        }
    }
    Ok(Store::open(&data_dir.store(), config)?)
}

fn store_config(args: &Up, clock: &Arc<dyn Clock>) -> setpoint_store::Config {
    let (now, ticks) = (clock.clone(), clock.clone());
    let mut config = setpoint_store::Config::new(Arc::new(move || now.millis()));
    config.ticks = Arc::new(move || u64::try_from(ticks.now().as_nanosecond()).unwrap_or_default());
    if args.unsafe_no_fsync {
        config.durability = Durability::None;
    }
    config.history.age = u64::try_from(args.keep_history.as_millis()).unwrap_or(u64::MAX);
    config
}

/// The configuration of the admission plugins. The simulated nodes run in this process but are restricted to their own
/// objects (NodeRestriction), unlike its other components.
fn admission_config(args: &Up, access: &AccessControl) -> setpoint_admission::Config {
    setpoint_admission::Config {
        service_cidr: args.service_cluster_ip_range,
        node_port_range: args.service_node_port_range,
        node_restriction: true,
        access: Some(Arc::new(access_checker::AuthorizerAccessChecker(
            access.authorizer.clone(),
        ))),
        enabled: args.enable_admission_plugins.clone(),
        disabled: args.disable_admission_plugins.clone(),
    }
}

fn open_registry(
    args: &Up,
    caches: Arc<WatchCaches>,
    access: &AccessControl,
    bootstrap: Vec<BootstrapObject>,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<Registry>> {
    let rules = admission_config(args, access);
    rules.check()?;
    let config = setpoint_registry::Config {
        bootstrap,
        admit: Arc::new(access.guard(Chain::standard(&rules))),
        virtual_resources: virtual_resources(args, &caches, access),
        clock: clock.clone(),
        event_ttl: args.event_ttl,
        allow_privileged: args.allow_privileged,
        caches,
    };
    Ok(Registry::new(config))
}

fn virtual_resources(args: &Up, caches: &WatchCaches, access: &AccessControl) -> Arc<dyn VirtualResource> {
    let mut enabled = expand_selection(&args.controllers);
    Arc::new(VirtualResources {
        reviews: access.reviews(),
        store: caches.store().clone(),
        runs_scheduler: take_scheduler(&mut enabled),
        runs_controllers: setpoint_controllers::select(&enabled).is_ok_and(|enabled| !enabled.is_empty()),
    })
}

/// Returns the kinds that the registry serves at the time of the call.
fn kinds_provider(registry: &Arc<Registry>) -> setpoint_apiserver::serve::KindsProvider {
    let registry = registry.clone();
    Box::new(move || registry.kinds())
}

/// The controller manager, on the server's own caches.
fn manager(registry: &Arc<Registry>, aggregation: &Aggregation, clock: &Arc<dyn Clock>) -> Manager {
    let caches: Arc<dyn Caches> = registry.clone();
    let client = Client::new(
        aggregation.serve.clone(),
        Arc::new(User::component("system:setpoint")),
    );
    Manager::new(caches, client, clock.clone())
}

/// A copy of the context whose client acts as another user.
fn acting_as(user: &str, context: Context) -> Context {
    Context {
        client: context.client.as_user(User::component(user)),
        ..context
    }
}

/// Adds the controllers and the scheduler that `--controllers` enables, the nodes, and the API server's controllers.
fn add_components(manager: &mut Manager, args: &Up, config: &setpoint_controllers::Config) -> Result<()> {
    let mut enabled = expand_selection(&args.controllers);
    if take_scheduler(&mut enabled) {
        add_scheduler(manager);
    }
    add_controllers(manager, &enabled, config)?;
    add_nodes(manager, args);
    add_api_server_controllers(manager, config);
    Ok(())
}

fn add_controllers(
    manager: &mut Manager,
    enabled: &[&str],
    config: &setpoint_controllers::Config,
) -> Result<()> {
    for controller in setpoint_controllers::select(enabled)? {
        let config = config.clone();
        manager.add(controller.name, move |context, stop| {
            controller.run(acting_as("system:kube-controller-manager", context), config, stop)
        });
    }
    Ok(())
}

/// Adds the controllers of the API server itself. `--controllers` does not disable them: its responses depend on them.
fn add_api_server_controllers(manager: &mut Manager, config: &setpoint_controllers::Config) {
    for controller in setpoint_controllers::api_server_controllers() {
        let config = config.clone();
        manager.add(controller.name, move |context, stop| {
            controller.run(acting_as("system:apiserver", context), config, stop)
        });
    }
}

/// The value of `--controllers` in `setpoint_controllers::select`'s form: `none` is the empty list, and a list of only
/// disabled controllers enables all others.
fn expand_selection(list: &[String]) -> Vec<&str> {
    let mut names: Vec<&str> = list
        .iter()
        .map(String::as_str)
        .filter(|name| *name != "none")
        .collect();
    if !names.is_empty() && names.iter().all(|name| name.starts_with('-')) {
        names.push("*");
    }
    names
}

/// Removes `scheduler` from the list, since it is no controller of `setpoint_controllers`. Returns whether it is enabled.
fn take_scheduler(list: &mut Vec<&str>) -> bool {
    let is_scheduler = |name: &&str| name.strip_prefix('-').unwrap_or(name) == "scheduler";
    match list.iter().position(is_scheduler) {
        Some(at) => !list.remove(at).starts_with('-'),
        None => list.contains(&"*"),
    }
}

fn add_scheduler(manager: &mut Manager) {
    let config = setpoint_scheduler::Config {
        name: setpoint_scheduler::DEFAULT_NAME.to_owned(),
        profile: setpoint_scheduler::default_profile(),
    };
    manager.add("scheduler", move |context, stop| {
        setpoint_scheduler::run(acting_as("system:kube-scheduler", context), config, stop)
    });
}

fn add_nodes(manager: &mut Manager, args: &Up) {
    if args.nodes == 0 {
        return;
    }
    let config = setpoint_node::Config::simulated("node", args.nodes);
    manager.add("nodes", move |context, stop| {
        setpoint_node::run(acting_as("system:nodes", context), config, stop)
    });
}

/// Announces the server once the registry has started. Never returns.
async fn announce_once_started(
    registry: &Registry,
    args: &Up,
    data_dir: &DataDir,
    address: SocketAddr,
    kubeconfig: &Path,
) {
    registry.started().await;
    tracing::info!("Serving securely on {address}");
    announce(args, data_dir, address, kubeconfig);
}

/// Prints the address, the paths and a first command to try.
fn announce(args: &Up, data_dir: &DataDir, address: SocketAddr, kubeconfig: &Path) {
    if args.quiet {
        return;
    }
    let data = if args.memory {
        "none, objects are stored in memory only".to_owned()
    } else {
        data_dir.dir.display().to_string()
    };
    println!(
        "setpoint {} serves https://{}",
        env!("CARGO_PKG_VERSION"),
        address
    );
    println!("  data        {data}");
    println!("  kubeconfig  {}", kubeconfig.display());
    println!(
        "  try         kubectl --kubeconfig {} get nodes",
        kubeconfig.display()
    );
    println!("  stop        Ctrl-C");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(list: &[&str], expected: &[&str]) {
        let list: Vec<String> = list.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(expand_selection(&list), expected);
    }

    #[test]
    fn a_list_of_disabled_controllers_enables_all_others() {
        check(&["-namespace"], &["-namespace", "*"]);
        check(&["*", "-namespace"], &["*", "-namespace"]);
        check(&["replicaset"], &["replicaset"]);
    }

    #[test]
    fn none_enables_no_controller() {
        check(&["none"], &[]);
    }

    #[track_caller]
    fn check_scheduler(list: &[&str], expected: bool, rest: &[&str]) {
        let mut list = list.to_vec();
        assert_eq!((take_scheduler(&mut list), list.as_slice()), (expected, rest));
    }

    #[test]
    fn the_scheduler_is_one_name_of_the_list() {
        check_scheduler(&["*"], true, &["*"]);
        check_scheduler(&["-scheduler", "*"], false, &["*"]);
        check_scheduler(&["replicaset"], false, &["replicaset"]);
        check_scheduler(&["replicaset", "scheduler"], true, &["replicaset"]);
        check_scheduler(&[], false, &[]);
    }
}
