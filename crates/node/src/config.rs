//! Configuration of the node agent.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use compact_str::{CompactString, format_compact};
use setpoint_container_runtime::Runtime;

use crate::eviction::threshold::Threshold;
use crate::garbage_collection::ImageGcPolicy;
use crate::server::{LocalConnector, ServerConfig, local};
use crate::shutdown::Shutdown;
use crate::simulated::{self, Simulation};
use crate::static_pods::StaticPodSource;

/// The label of simulated nodes.
const RUNTIME_LABEL: &str = "node.setpoint.dev/runtime";

/// How long a command in a simulated container takes to start.
const COMMAND_START: Duration = Duration::from_millis(100);

/// The nodes of an agent and how it runs them.
#[derive(Debug, Clone)]
pub struct Config {
    pub machines: Vec<Machine>,
    pub runtime: RuntimeConfig,
    /// How often each node renews its Lease.
    pub lease_renew_interval: Duration,
    /// How often each node reports its whole status, even if nothing changed.
    pub status_report_interval: Duration,
    /// How many pods are reconciled at once.
    pub workers: usize,
    /// Whether Events about pods are recorded.
    pub records_events: bool,
    /// How the API server reaches the nodes.
    pub server: ServerConfig,
}

/// What runs the containers of the agent's nodes.
#[derive(Debug, Clone)]
pub enum RuntimeConfig {
    /// Nothing: containers start and exit by the clock.
    Simulated(Simulation),
    /// The container runtime of this machine, which is then the only node of the agent.
    Containers(HostConfig),
}

/// How containers run on this machine.
#[derive(Debug, Clone)]
pub struct HostConfig {
    pub runtime: Arc<dyn Runtime>,
    /// The directory of the pods' volumes and files.
    pub root: PathBuf,
    /// The directory of the pods' logs.
    pub logs_root: PathBuf,
    /// The addresses of the cluster's DNS service; empty while there is none.
    pub cluster_dns: Vec<IpAddr>,
    pub cluster_domain: String,
    /// The cgroup of all pods.
    pub cgroup_root: String,
    /// When pods are evicted because the node runs out of something.
    pub eviction_hard: Vec<Threshold>,
    /// When unused images are removed.
    pub image_gc: ImageGcPolicy,
    /// Whether the agent provisions volumes of the class `local-path`, which its identity must be allowed to.
    pub provisions_volumes: bool,
    /// The folder of static pods; `None` for none.
    pub static_pods: Option<StaticPodSource>,
    /// Terminates the pods before the agent ends; `None` leaves them running.
    pub shutdown: Option<Shutdown>,
}

/// What the nodeInfo of a Node reports of its machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemInfo {
    pub os_image: String,
    pub kernel_version: String,
    /// The name and version of the container runtime, as in `containerd://1.6.20`.
    pub container_runtime: String,
    pub machine_id: String,
    pub system_uuid: String,
    pub boot_id: String,
}

/// The machine behind a Node object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    pub name: CompactString,
    /// Its number among the simulated machines, from which its addresses are derived.
    pub number: u32,
    /// Its own addresses, of which the first is the one of its pods in the host's network.
    pub addresses: Vec<IpAddr>,
    /// The port of its agent, if the agent is reached over the network.
    pub port: Option<u16>,
    pub labels: BTreeMap<String, String>,
    /// Its capacity, by resource.
    pub capacity: BTreeMap<String, String>,
    /// What of its capacity pods can use; `None` for all of it.
    pub allocatable: Option<BTreeMap<String, String>>,
    pub system: SystemInfo,
}

// === impl Config ===

impl Config {
    /// An agent for this many simulated nodes, named `prefix-0` and so on. It records no Events: with thousands of nodes
    /// they would be most of the load.
    pub fn simulated(prefix: &str, count: u32) -> Self {
        let machine = |number| Machine::new(&format_compact!("{prefix}-{number}"), number);
        Self {
            machines: (0..count).map(machine).collect(),
            runtime: RuntimeConfig::Simulated(Simulation {
                command_start: COMMAND_START,
                ..Simulation::default()
            }),
            lease_renew_interval: Duration::from_secs(10),
            status_report_interval: Duration::from_secs(300),
            workers: 16,
            records_events: false,
            server: ServerConfig::default(),
        }
    }

    /// Lets the API server in this process connect to the nodes without a network.
    pub fn with_local_connections(mut self) -> (Self, LocalConnector) {
        let names = self.machines.iter().map(|machine| machine.name.to_string());
        let (connector, listener) = local::pair(names);
        self.server.local = Some(listener);
        (self, connector)
    }
}

// === impl Machine ===

impl Machine {
    /// A simulated machine of ordinary size.
    pub fn new(name: &str, number: u32) -> Self {
        let capacity = [
            ("cpu", "32"),
            ("memory", "256Gi"),
            ("ephemeral-storage", "1Ti"),
            ("pods", "110"),
        ];
        Self {
            name: name.into(),
            number,
            addresses: vec![simulated_address(number).into()],
            port: None,
            labels: BTreeMap::from([(RUNTIME_LABEL.to_owned(), simulated::NAME.to_owned())]),
            capacity: capacity
                .map(|(name, amount)| (name.to_owned(), amount.to_owned()))
                .into(),
            allocatable: None,
            system: SystemInfo {
                os_image: "Simulated".to_owned(),
                kernel_version: simulated::NAME.to_owned(),
                container_runtime: concat!("simulated://", env!("CARGO_PKG_VERSION")).to_owned(),
                machine_id: name.to_owned(),
                system_uuid: name.to_owned(),
                boot_id: name.to_owned(),
            },
        }
    }

    /// The same machine with another amount of one resource.
    #[must_use]
    pub fn with(mut self, resource: &str, amount: &str) -> Self {
        self.capacity.insert(resource.to_owned(), amount.to_owned());
        self
    }

    /// What pods can use of it, by resource.
    pub fn allocatable(&self) -> &BTreeMap<String, String> {
        self.allocatable.as_ref().unwrap_or(&self.capacity)
    }

    /// The address of its `host`th simulated pod, in the upper three quarters of 10.0.0.0/8.
    pub fn pod_address(&self, host: u8) -> Ipv4Addr {
        let [_, _, high, low] = self.number.to_be_bytes();
        Ipv4Addr::new(10, 64 + high % 192, low, host)
    }
}

/// The address of a simulated machine, in the lower quarter of 10.0.0.0/8 without the service addresses at its start.
fn simulated_address(number: u32) -> Ipv4Addr {
    let (block, host) = (number / 250, number % 250 + 1);
    let [_, _, high, low] = block.to_be_bytes();
    Ipv4Addr::new(10, 16 + high % 48, low, u8::try_from(host).unwrap_or(u8::MAX))
}
