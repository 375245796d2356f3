//! The arguments of `setpoint controller-manager`: the most used flags of kube-controller-manager, with its names and
//! defaults.

use std::net::SocketAddr;
use std::path::PathBuf;

use setpoint_values::Cidr;

use super::{ControllerFlags, LeaderElectionFlags, LogFormat, NodeLifecycleFlags};

/// Runs the controllers of any Kubernetes API server, in a process of its own.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ControllerManager {
    /// Path to the kubeconfig file of the API server [default: $KUBECONFIG, ~/.kube/config, and the service account of a
    /// pod]. Its user needs the permissions of all controllers.
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// A list of controllers to enable. `*` enables all on-by-default controllers, `foo` enables the controller named
    /// `foo`, `-foo` disables the controller named `foo`.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true
    )]
    pub controllers: Vec<String>,
    /// The file with the PEM-encoded private key that signs the tokens of service account token Secrets. Without it none
    /// are filled in.
    #[arg(long, value_name = "FILE")]
    pub service_account_private_key_file: Option<PathBuf>,
    /// The file with the CA certificates that are included in service account token Secrets and in the ConfigMap
    /// kube-root-ca.crt of each namespace [default: the CA of the kubeconfig].
    #[arg(long, value_name = "FILE")]
    pub root_ca_file: Option<PathBuf>,
    /// CIDR range for Services in the cluster, which nodes get no pod CIDR of. Used with `--allocate-node-cidrs`.
    #[arg(long, value_name = "CIDR", default_value = "10.0.0.0/24")]
    pub service_cluster_ip_range: Cidr,
    /// The IP address and port on which to serve /healthz, /readyz and /metrics over plain HTTP. Port 0 selects a free
    /// port. By default they are not served.
    #[arg(long, value_name = "ADDR:PORT")]
    pub probe_address: Option<SocketAddr>,
    /// The number for the log level verbosity: 0 for warnings, 2 for information, 4 for debugging. RUST_LOG takes precedence.
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0)]
    pub verbosity: u8,
    /// The log format.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    #[command(flatten)]
    pub controller_flags: ControllerFlags,
    #[command(flatten)]
    pub node_lifecycle_flags: NodeLifecycleFlags,
    #[command(flatten)]
    pub leader_election: LeaderElectionFlags,
}
