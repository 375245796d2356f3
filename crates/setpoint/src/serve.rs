//! `setpoint up`: opens the store, builds the cluster, starts it with the HTTPS server, and waits.
//!
//! Start reading at `up`, then `cluster`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use setpoint_api::{Clock, SystemClock};
use setpoint_apiserver::version::Version;
use setpoint_apiserver::{Listener, Server, Views};
use setpoint_auth::audit::Writer;
use setpoint_encryption::Encryption;
use setpoint_registry::{Registry, Stores, WatchCaches};
use setpoint_store::{Durability, Store};
use setpoint_strategy::Kinds;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::args::{LogFormat, Test, Up};
use crate::{log, resident_memory};

mod access;
mod access_checker;
mod aggregation;
mod audit;
mod backup;
mod certificates;
mod checks;
mod client_authentication;
mod cluster;
mod component_statuses;
mod components;
mod control_plane;
pub(crate) mod controller_config;
mod credentials;
mod data_dir;
mod elections;
mod etcd_store;
mod flow_control;
mod hosting;
mod kubeconfig;
mod kubelet;
mod manifests;
mod memory;
mod metrics_api;
mod scheduling;
mod server_endpoints;
mod service_account_keys;
mod serving_files;
mod test_command;
mod webhooks;

pub(crate) use certificates::read_signing_authority;
use certificates::{CertificateUsers, Certificates};
use cluster::{Cluster, ClusterConfig};
use components::{Components, Signals};
pub(crate) use control_plane::expand_selection;
use data_dir::DataDir;
use hosting::{Clusters, Host};
use kubeconfig::WrittenKubeconfig;
use server_endpoints::ServerEndpoints;

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

/// Runs a command with a cluster of its own. Returns the command's exit code.
pub(crate) fn test(args: &Test) -> Result<u8> {
    log::start(LogFormat::Text, args.quiet);
    runtime()?.block_on(test_command::run(args))
}

/// The runtime of a server.
pub(crate) fn runtime() -> Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build();
    runtime.context("cannot start the runtime")
}

/// Serves a cluster until interrupted, on the current runtime.
pub(crate) async fn up(args: Up) -> Result<()> {
    let mut signals = Signals::listen()?;
    let started = tokio::select! {
        started = RunningServer::start(&args) => started,
        // A start may wait for etcd.
        _ = signals.next() => return Ok(()),
    };
    let (server, components) = started?;
    let announced = announce_once_started(&args, &server);
    let outcome = wait(components, &mut signals, &server.clock, announced).await;
    for store in server.stores {
        store.close().await.context("cannot close the store")?;
    }
    outcome
}

/// A server whose components are running.
struct RunningServer {
    address: SocketAddr,
    data_dir: DataDir,
    kubeconfig: PathBuf,
    /// What runs the containers of the nodes and why.
    nodes: String,
    registry: Arc<Registry>,
    stores: Vec<Store>,
    clock: Arc<dyn Clock>,
}

impl RunningServer {
    /// Builds all components and starts them.
    async fn start(args: &Up) -> Result<(Self, Components)> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let data_dir = DataDir::open(args)?;
        let certificates = Certificates::open(args, &data_dir.pki(), &clock)?;
        let kinds = Arc::new(served_kinds(args));
        let encryption = open_encryption(args, &clock)?;
        let config = encrypted_store_config(args, &encryption, &clock);
        let stores = open_stores(args, &data_dir, &kinds, config, &clock).await?;
        let caches = WatchCaches::open(stores, kinds.clone());
        let stores: Vec<Store> = caches.stores().cloned().collect();
        let listener = bind(args).await?;
        let address = listener.local_addr();
        let (audit, writer) = audit::open(args, &clock).await?.unzip();
        let (stop, audit) = (CancellationToken::new(), audit.map(Arc::new));
        let mut config = ClusterConfig {
            args,
            caches,
            credentials: certificates.credentials(args)?,
            address,
            audit: audit.clone(),
            metrics_sources: vec![certificates.tls()],
            custom_routes: vec![backup::route(&stores, &data_dir)],
            clock: clock.clone(),
            stop: stop.clone(),
            is_fork: false,
            origin: None,
            checks: checks::of_encryption(args, &encryption),
        };
        let hosting = args
            .host_clusters
            .then(|| open_hosting(&config, &certificates, kinds.clone()));
        config.custom_routes.extend(hosting.as_ref().map(hosting::route));
        let cluster = Cluster::open(config)?;
        let views = served_views(hosting.as_ref(), &cluster);
        let server = Server::new(views, listener, certificates.tls(), clock.clone());
        let written = certificates.write_kubeconfig(args, &data_dir, address)?;
        let kubeconfig = written.path.clone();
        let users = certificate_users(&cluster, written);
        let (registry, nodes) = (cluster.registry.clone(), cluster.nodes.clone());

        let mut components = Components::new(stop);
        components.start("server", |stop| serve(server, writer, stop));
        let (own, values) = ((address, &registry, &clock), (&*kinds, &encryption));
        start_endpoints(&mut components, args, own, values)?;
        components.start("encryption", |stop| run_encryption(args, encryption, stop));
        components.start("certificates", |stop| certificates.run(users, stop));
        if let Some(clusters) = hosting {
            components.start("hosted clusters", |stop| clusters.run(stop));
        }
        cluster.start(&mut components);
        let server = Self {
            address,
            data_dir,
            kubeconfig,
            nodes,
            registry,
            stores,
            clock,
        };
        Ok((server, components))
    }
}

/// The built-in kinds, and those of the metrics API if it is served.
fn served_kinds(args: &Up) -> Kinds {
    let metrics = match args.serves_metrics() {
        true => setpoint_kinds::metrics::all(),
        false => Vec::new(),
    };
    let builtin = setpoint_kinds::builtin();
    builtin.iter().cloned().chain(metrics).collect()
}

/// Starts what keeps the endpoints of all servers that share an etcd. A store of its own needs none.
fn start_endpoints(
    components: &mut Components,
    args: &Up,
    (address, registry, clock): (SocketAddr, &Arc<Registry>, &Arc<dyn Clock>),
    values: (&Kinds, &Arc<Encryption>),
) -> Result<()> {
    if args.etcd_flags.is_enabled() {
        let server = (args.advertised_address(address), address.port());
        let endpoints =
            ServerEndpoints::open(&args.etcd_flags, values, server, registry.clone(), clock.clone())?;
        components.start("server endpoints", |stop| endpoints.run(stop));
    }
    Ok(())
}

/// The clusters that the server hosts besides its own.
fn open_hosting(config: &ClusterConfig<'_>, certificates: &Certificates, kinds: Arc<Kinds>) -> Arc<Clusters> {
    let mut args = config.args.for_hosted_clusters();
    args.limit_flags.max_memory = Some(memory::limit(args.limit_flags.max_memory));
    Clusters::new(Host {
        args,
        kinds,
        own: config.caches.clone(),
        address: config.address,
        server: certificates.kubeconfig_server(config.address),
        certificates: config.credentials.certificates.clone(),
        audit: config.audit.clone(),
        clock: config.clock.clone(),
    })
}

/// The cluster of the server, and those that it hosts under their paths.
fn served_views(hosting: Option<&Arc<Clusters>>, cluster: &Cluster) -> Arc<dyn Views> {
    match hosting {
        Some(clusters) => clusters.views(&cluster.view),
        None => Arc::new(cluster.view.clone()),
    }
}

/// Waits for the components, and meanwhile announces the server once it has started, and releases the pages of the start.
async fn wait(
    components: Components,
    signals: &mut Signals,
    clock: &Arc<dyn Clock>,
    announced: impl Future<Output = ()>,
) -> Result<()> {
    let never = async {
        announced.await;
        resident_memory::release_start_pages(clock.clone()).await
    };
    tokio::select! {
        outcome = components.wait(signals, clock) => outcome,
        never = never => match never {},
    }
}

/// Binds the port of `--listen`.
async fn bind(args: &Up) -> Result<Listener> {
    let listener = Listener::bind(args.listen_address()).await;
    listener.context("cannot serve; set another address with --listen")
}

/// The components that get renewed certificates and keys.
fn certificate_users(cluster: &Cluster, kubeconfig: WrittenKubeconfig) -> CertificateUsers {
    CertificateUsers {
        aggregator: cluster.aggregator.clone(),
        issuer: cluster.issuer.clone(),
        kubeconfig,
    }
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

/// The encryption of stored objects.
fn open_encryption(args: &Up, clock: &Arc<dyn Clock>) -> Result<Arc<Encryption>> {
    match &args.encryption_flags.encryption_provider_config {
        Some(path) => Ok(Encryption::load(path, clock.clone())?),
        None => Ok(Encryption::none()),
    }
}

/// Keeps the encryption up to date until stopped.
fn run_encryption(
    args: &Up,
    encryption: Arc<Encryption>,
    stop: CancellationToken,
) -> impl Future<Output = Result<()>> + use<> {
    let reloads = args.encryption_flags.encryption_provider_config_automatic_reload;
    async move {
        encryption.run(reloads, stop).await;
        Ok(())
    }
}

/// Opens the store, or the stores of a server on several etcd clusters. A process that was killed a moment ago may still hold the lock, so a locked store is tried again.
async fn open_stores(
    args: &Up,
    data_dir: &DataDir,
    kinds: &Kinds,
    config: setpoint_store::Config,
    clock: &Arc<dyn Clock>,
) -> Result<Stores> {
    if args.etcd_flags.is_enabled() {
        return etcd_store::open(&args.etcd_flags, config, kinds).await;
    }
    if args.memory {
        return Ok(Store::memory(config).into());
    }
    for _ in 0..LOCK_TRIES {
        match Store::open(&data_dir.store(), config.clone()) {
            Err(setpoint_store::Error::Locked { .. }) => clock.sleep(LOCK_PAUSE).await,
            opened => return Ok(opened?.into()),
        }
    }
    Ok(Store::open(&data_dir.store(), config)?.into())
}

fn encrypted_store_config(
    args: &Up,
    encryption: &Arc<Encryption>,
    clock: &Arc<dyn Clock>,
) -> setpoint_store::Config {
    let mut config = store_config(args, clock);
    config.transformer = Some(encryption.clone());
    config
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

/// Announces the server once the registry has started.
async fn announce_once_started(args: &Up, server: &RunningServer) {
    server.registry.started().await;
    tracing::info!("Serving securely on {}", server.address);
    announce(args, server);
}

/// Prints the address, the paths and a first command to try.
fn announce(args: &Up, server: &RunningServer) {
    if args.quiet {
        return;
    }
    let data = if args.memory {
        "none, objects are stored in memory only".to_owned()
    } else if args.etcd_flags.is_enabled() {
        format!("etcd at {}", args.etcd_flags.etcd_servers.join(","))
    } else {
        server.data_dir.dir.display().to_string()
    };
    let kubeconfig = server.kubeconfig.display();
    println!(
        "setpoint {} serves https://{}",
        env!("CARGO_PKG_VERSION"),
        server.address
    );
    println!("  data        {data}");
    println!("  kubeconfig  {kubeconfig}");
    println!("  nodes       {}", server.nodes);
    println!("  try         kubectl --kubeconfig {kubeconfig} get nodes");
    println!("  stop        Ctrl-C");
}
