//! Flags of the nodes that the program runs, for `setpoint up` and `setpoint node`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::ValueEnum;
use setpoint_node::eviction::threshold::DEFAULT_HARD;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct NodeFlags {
    /// What runs the containers of nodes. `auto` is `cri` for root on a machine with a container runtime, unless objects
    /// are stored in memory only, and `simulated` otherwise.
    #[arg(long, value_enum, value_name = "RUNTIME", default_value_t = RuntimeFlag::Auto)]
    pub runtime: RuntimeFlag,
    /// The socket of the container runtime.
    #[arg(long, value_name = "PATH", default_value = "/run/containerd/containerd.sock")]
    pub container_runtime_endpoint: PathBuf,
    /// Start a containerd of its own, with this program as its CNI plugin, instead of using one that runs. The programs
    /// containerd and runc must be installed.
    #[arg(long)]
    pub start_containerd: bool,
    /// The range of the pods' addresses on a containerd that this program starts.
    #[arg(long, value_name = "CIDR", default_value = "10.244.0.0/24")]
    pub pod_cidr: String,
    /// The name of the node that runs containers [default: the host name].
    #[arg(long, value_name = "NAME")]
    pub node_name: Option<String>,
    /// The address of the node that runs containers [default: that of the default route].
    #[arg(long, value_name = "ADDR")]
    pub node_ip: Option<IpAddr>,
    /// The directory for the volumes and logs of pods.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/setpoint")]
    pub node_dir: PathBuf,
    /// Addresses of the cluster's DNS service, for the pods' resolv.conf.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub cluster_dns: Vec<IpAddr>,
    /// The domain of the cluster, which the containers search in.
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    pub cluster_domain: String,
    /// When pods are evicted because the node runs out of something, as signals and the least that must be available. Empty
    /// for never.
    #[arg(long, value_name = "LIST", default_value = DEFAULT_HARD)]
    pub eviction_hard: String,
    /// Remove unused images once this part of their disk is in use, in per cent; 100 for never.
    #[arg(long, value_name = "PERCENT", default_value_t = 85, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub image_gc_high_threshold: u8,
    /// Until this part is in use, in per cent.
    #[arg(long, value_name = "PERCENT", default_value_t = 80, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub image_gc_low_threshold: u8,
    /// A file with rules for simulated pods: how long they take, whether they fail, when they end.
    #[arg(long, value_name = "PATH")]
    pub simulation: Option<PathBuf>,
    /// A folder with static pods, one in each file: they run on the node that runs containers, whatever the API has.
    #[arg(long, value_name = "DIR")]
    pub pod_manifest_path: Option<PathBuf>,
    /// The cgroup of all pods.
    #[arg(long, value_name = "CGROUP", default_value = "/kubepods")]
    pub cgroup_root: String,
}

/// What runs the containers of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RuntimeFlag {
    /// A container runtime if there is one.
    Auto,
    /// Nothing: pods become Running, and no containers are started.
    Simulated,
    /// A container runtime with Kubernetes' Container Runtime Interface.
    Cri,
}
