//! The nodes that the program runs: simulated ones, or this machine with its container runtime.

use std::net::Ipv6Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use setpoint_api::{Clock, Gvr, SystemClock};
use setpoint_client::kubeconfig::Connection;
use setpoint_client::{Client, Kubeconfig};
use setpoint_codec::{json, yaml};
use setpoint_container_runtime::Runtime as _;
use setpoint_cri::Cri;
use setpoint_node::eviction::threshold;
use setpoint_node::logs::rotation::RotationPolicy;
use setpoint_node::server::{PortConfig, ServerConfig, ServerTls};
use setpoint_node::{Config, HostConfig, ImageGcPolicy, Machine, RuntimeConfig, Shutdown, StaticPodSource};
use setpoint_runtime::reflector::ReflectorOptions;
use setpoint_runtime::{Manager, SharedInformerFactory};
use tokio::signal::ctrl_c;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::args::{AgentFlags, LogFormat, Node, NodeFlags, RuntimeFlag};
use crate::{private_containerd, resident_memory, simulation_file};

/// How often a node with a container runtime checks its status.
const STATUS_INTERVAL: Duration = Duration::from_secs(10);

/// A container runtime that does not report its status within this time is not used.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// With more simulated nodes than this, no Events about pods are recorded: they would be most of the load.
const MAX_NODES_WITH_EVENTS: u32 = 100;

/// The nodes to run, and why they are what they are.
#[derive(Debug)]
pub(crate) struct NodeChoice {
    /// `None` without nodes.
    pub(crate) config: Option<Config>,
    /// For the first lines of the program's output.
    pub(crate) description: String,
}

/// The nodes of a cluster with these flags. `in_memory` is whether its objects are lost with the process.
pub(crate) fn choose(flags: &NodeFlags, count: u32, prefix: &str, in_memory: bool) -> Result<NodeChoice> {
    if count == 0 {
        return Ok(NodeChoice {
            config: None,
            description: "none".to_owned(),
        });
    }
    let private = private_containerd::socket(flags);
    let socket = match flags.start_containerd {
        true => &private,
        false => &flags.container_runtime_endpoint,
    };
    let reason = match flags.runtime {
        RuntimeFlag::Cri => None,
        RuntimeFlag::Auto if flags.start_containerd => None,
        RuntimeFlag::Simulated => Some("as requested".to_owned()),
        RuntimeFlag::Auto => {
            let is_root = rustix::process::geteuid().is_root();
            simulation_reason(socket, count, in_memory, is_root).or_else(|| unusable_reason(socket))
        }
    };
    match reason {
        Some(reason) => Ok(NodeChoice {
            config: Some(simulated(flags, count, prefix)?),
            description: format!("{count} simulated, no containers are started: {reason}"),
        }),
        None if flags.simulation.is_some() => {
            bail!("--simulation is for simulated nodes: set --runtime=simulated")
        }
        None if count > 1 => bail!("a machine with a container runtime is one node: set --nodes=1"),
        None => host(flags, socket),
    }
}

/// Whether the nodes of these flags may run containers. Whether the container runtime is usable is not checked.
pub(crate) fn may_run_containers(flags: &NodeFlags, count: u32, in_memory: bool) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    let socket = &flags.container_runtime_endpoint;
    let is_found = || simulation_reason(socket, count, in_memory, is_root).is_none();
    count > 0
        && match flags.runtime {
            RuntimeFlag::Cri => true,
            RuntimeFlag::Simulated => false,
            RuntimeFlag::Auto => flags.start_containerd || is_found(),
        }
}

/// Simulated nodes, with the rules of the file for their pods.
fn simulated(flags: &NodeFlags, count: u32, prefix: &str) -> Result<Config> {
    let mut config = Config::simulated(prefix, count);
    config.records_events = count <= MAX_NODES_WITH_EVENTS;
    if let (Some(path), RuntimeConfig::Simulated(simulation)) = (&flags.simulation, &mut config.runtime) {
        *simulation = simulation_file::read(path, simulation.clone())?;
    }
    Ok(config)
}

/// Why nodes are simulated although no flag requests it.
fn simulation_reason(socket: &Path, count: u32, in_memory: bool, is_root: bool) -> Option<String> {
    if in_memory {
        return Some("objects are stored in memory only".to_owned());
    }
    if count > 1 {
        return Some("there is more than one".to_owned());
    }
    if !socket.exists() {
        return Some(format!("there is no container runtime at {}", socket.display()));
    }
    (!is_root).then(|| "only root may use the container runtime".to_owned())
}

/// Why the container runtime at the socket cannot run pods now: it may have CRI disabled, as that of a Docker
/// installation, or no pod network.
fn unusable_reason(socket: &Path) -> Option<String> {
    let path = socket.to_owned();
    let probe = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let status = runtime.block_on(async {
            let cri = Cri::new(path);
            tokio::time::timeout(PROBE_TIMEOUT, cri.status()).await
        });
        anyhow::Ok(status.context("it does not respond")??)
    };
    let socket = socket.display();
    // A thread of its own, since this one may run tasks already.
    match std::thread::scope(|scope| scope.spawn(probe).join()) {
        Ok(Ok(status)) => {
            let reason = status.runtime_not_ready.or(status.network_not_ready)?;
            Some(format!(
                "the container runtime at {socket} is not ready: {reason}"
            ))
        }
        Ok(Err(error)) => Some(format!(
            "the container runtime at {socket} cannot be used: {error:#}"
        )),
        Err(_) => Some(format!("the container runtime at {socket} cannot be used")),
    }
}

/// This machine, with the runtime at its socket.
fn host(flags: &NodeFlags, socket: &Path) -> Result<NodeChoice> {
    let machine = Machine::this_host(flags.node_name.as_deref(), flags.node_ip);
    let description = format!(
        "{} with the container runtime at {}",
        machine.name,
        socket.display()
    );
    let host = HostConfig {
        runtime: Arc::new(Cri::new(socket)),
        root: flags.node_dir.clone(),
        logs_root: flags.node_dir.join("logs"),
        cluster_dns: flags.cluster_dns.clone(),
        cluster_domain: flags.cluster_domain.clone(),
        cgroup_root: flags.cgroup_root.clone(),
        eviction_hard: threshold::parse(&flags.eviction_hard)
            .map_err(|error| anyhow!("--eviction-hard: {error}"))?,
        image_gc: image_gc(flags)?,
        provisions_volumes: true,
        static_pods: flags.pod_manifest_path.as_ref().map(|directory| StaticPodSource {
            directory: directory.clone(),
            decode: decode_manifest,
        }),
        shutdown: None,
    };
    let config = Config {
        machines: vec![machine],
        runtime: RuntimeConfig::Containers(host),
        server: ServerConfig {
            rotation: Some(RotationPolicy::default()),
            ..ServerConfig::default()
        },
        status_report_interval: STATUS_INTERVAL,
        records_events: true,
        ..Config::simulated("", 0)
    };
    Ok(NodeChoice {
        config: Some(config),
        description,
    })
}

/// The object of a manifest in YAML or JSON.
fn decode_manifest(text: &[u8]) -> Result<serde_json::Value, String> {
    let tree = yaml::parse(text).map_err(|error| error.to_string())?;
    serde_json::from_slice(&json::write(&tree)).map_err(|error| error.to_string())
}

fn image_gc(flags: &NodeFlags) -> Result<ImageGcPolicy> {
    let (high_threshold, low_threshold) = (flags.image_gc_high_threshold, flags.image_gc_low_threshold);
    if low_threshold >= high_threshold {
        bail!(
            "--image-gc-low-threshold {low_threshold} must be less than --image-gc-high-threshold {high_threshold}"
        );
    }
    Ok(ImageGcPolicy {
        high_threshold,
        low_threshold,
        ..ImageGcPolicy::default()
    })
}

/// Adds the containerd that the flags request.
pub(crate) fn add_containerd(manager: &mut Manager, flags: &NodeFlags) {
    if flags.start_containerd {
        let flags = flags.clone();
        manager.add("containerd", move |_, stop| private_containerd::run(flags, stop));
    }
}

/// Runs nodes of the cluster that a kubeconfig names, until interrupted.
pub(crate) fn run(args: &Node) -> Result<()> {
    crate::log::start(LogFormat::Text, false);
    crate::serve::runtime()?.block_on(run_nodes(args))
}

async fn run_nodes(args: &Node) -> Result<()> {
    let choice = choose(&args.agent_flags.node_flags, args.nodes, &args.node_prefix, false)?;
    println!("setpoint {} runs nodes", env!("CARGO_PKG_VERSION"));
    println!("  nodes       {}", choice.description);
    let Some(config) = choice.config else {
        bail!("there are no nodes to run");
    };
    let connection = connection(args.kubeconfig.as_deref())?;
    let never = std::future::pending::<()>();
    run_agent(config, &args.agent_flags, &connection, never)
        .await
        .map(drop)
}

/// Runs an agent as a client of an API server until a signal, or until the future resolves. Returns its value then.
pub(crate) async fn run_agent<T>(
    config: Config,
    flags: &AgentFlags,
    connection: &Connection,
    until: impl Future<Output = T>,
) -> Result<Option<T>> {
    let shutdown = shutdown(flags);
    let config = match config.runtime {
        RuntimeConfig::Containers(host) => {
            let shutdown = shutdown.clone();
            let runtime = RuntimeConfig::Containers(HostConfig { shutdown, ..host });
            with_port(Config { runtime, ..config }, flags, connection)?
        }
        RuntimeConfig::Simulated(_) => config,
    };
    let (client, clock) = (Client::connect(connection)?, Arc::new(SystemClock::new()));
    let factory = SharedInformerFactory::new(client.clone(), clock.clone());
    let mut manager = Manager::with_factory(scoped(factory, &config)?, client, clock);
    add_containerd(&mut manager, &flags.node_flags);
    manager.add("nodes", |context, stop| setpoint_node::run(context, config, stop));
    run_until_stopped(manager, shutdown.as_ref(), until).await
}

/// The agent of one node reads the pods of its node only: as the node it may not read others.
fn scoped(factory: SharedInformerFactory, config: &Config) -> Result<SharedInformerFactory> {
    let [machine] = config.machines.as_slice() else {
        return Ok(factory);
    };
    let fields = format!("spec.nodeName={}", machine.name).parse();
    let scope = ReflectorOptions {
        fields: fields.map_err(|error| anyhow!("{error:?} in the name of the node"))?,
        ..ReflectorOptions::default()
    };
    Ok(factory.with_scope(Gvr::new("", "v1", "pods"), scope))
}

/// The shutdown that the flags configure.
fn shutdown(flags: &AgentFlags) -> Option<Shutdown> {
    let (all, critical) = (
        flags.shutdown_grace_period,
        flags.shutdown_grace_period_critical_pods,
    );
    (!all.is_zero()).then(|| Shutdown::new(all, critical))
}

/// Runs the manager until the future resolves, or until a signal, after which the pods end first if that is configured.
async fn run_until_stopped<T>(
    manager: Manager,
    shutdown: Option<&Shutdown>,
    until: impl Future<Output = T>,
) -> Result<Option<T>> {
    let stop = CancellationToken::new();
    let mut terminations = signal(SignalKind::terminate())?;
    let running = manager.run(stop.clone());
    tokio::pin!(running);
    let interrupted = async {
        tokio::select! {
            interrupted = ctrl_c() => interrupted?,
            _ = terminations.recv() => {}
        }
        if let Some(shutdown) = shutdown {
            shutdown.run().await;
        }
        anyhow::Ok(())
    };
    let value = tokio::select! {
        ended = &mut running => return Ok(ended.map(|()| None)?),
        interrupted = interrupted => interrupted.map(|()| None)?,
        value = until => Some(value),
        never = resident_memory::release_start_pages(Arc::new(SystemClock::new())) => match never {},
    };
    stop.cancel();
    running.await?;
    Ok(value)
}

/// The same nodes with a port over TLS, whose certificate the agent issues to itself.
fn with_port(mut config: Config, args: &AgentFlags, connection: &Connection) -> Result<Config> {
    let client_authority = match &args.client_ca_file {
        Some(path) => Some(std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?),
        None => connection.authority.clone(),
    };
    let client_authority = client_authority.map(String::from_utf8).transpose();
    let client_authority = client_authority.context("the CA bundle of clients is not PEM")?;
    for machine in &mut config.machines {
        let own = ServerTls::self_signed(&machine.name, &machine.addresses, SystemClock::new().now())?;
        let tls = ServerTls {
            client_authority: client_authority.clone(),
            ..own
        };
        machine.port = Some(args.port);
        config.server.port = Some(PortConfig {
            node: machine.name.to_string(),
            address: (Ipv6Addr::UNSPECIFIED, args.port).into(),
            tls,
        });
    }
    Ok(config)
}

fn connection(kubeconfig: Option<&Path>) -> Result<Connection> {
    match kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::load(&[path.to_owned()]);
            let kubeconfig = kubeconfig.with_context(|| format!("cannot read {}", path.display()))?;
            Ok(kubeconfig.connection(None)?)
        }
        None => Ok(Connection::infer()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(socket: &str, count: u32, in_memory: bool, is_root: bool, expected: Option<&str>) {
        let reason = simulation_reason(Path::new(socket), count, in_memory, is_root);
        assert_eq!(reason.as_deref(), expected);
    }

    #[test]
    fn root_uses_a_container_runtime_that_is_there() {
        check("/", 1, false, true, None);
        check("/", 1, true, true, Some("objects are stored in memory only"));
        check("/", 2, false, true, Some("there is more than one"));
        check(
            "/",
            1,
            false,
            false,
            Some("only root may use the container runtime"),
        );
        let absent = "there is no container runtime at /no/socket";
        check("/no/socket", 1, false, true, Some(absent));
    }

    #[test]
    fn a_socket_without_a_container_runtime_is_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        drop(listener);
        let reason = unusable_reason(&socket).unwrap();
        assert!(reason.contains("cannot be used: "), "{reason}");
    }
}
