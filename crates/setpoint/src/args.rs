//! The command line: its flags and commands, parsed here and nowhere else.

mod address_flags;
mod agent_flags;
mod aggregation_flags;
mod apiserver_args;
mod authentication_flags;
mod authorization_flags;
mod controller_flags;
mod controller_manager_args;
mod encryption_flags;
mod etcd_flags;
mod etcd_override;
mod flow_control_flags;
mod join_args;
mod kubelet_flags;
mod leader_election_flags;
mod limit_flags;
mod node_args;
mod node_flags;
mod node_lifecycle_flags;
mod scheduler_args;
mod scheduler_flags;
mod service_account_flags;
mod test_args;
mod tls_flags;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use setpoint_api::go_duration;
use setpoint_cli::{certs, envtest, explain_scheduling, new, store, template, token, tree, version};
use setpoint_kudo::command as kudo;
use setpoint_kuttl::command as kuttl;
use setpoint_shell_operator::command as shell_operator;
use setpoint_values::Cidr;

use crate::nodes;

pub(crate) use address_flags::AddressFlags;
pub(crate) use agent_flags::AgentFlags;
pub(crate) use aggregation_flags::AggregationFlags;
pub(crate) use apiserver_args::Apiserver;
pub(crate) use authentication_flags::{AuthenticationFlags, OidcFlags, RequestHeaderFlags};
pub(crate) use authorization_flags::AuthorizationFlags;
pub(crate) use controller_flags::ControllerFlags;
pub(crate) use controller_manager_args::ControllerManager;
pub(crate) use encryption_flags::EncryptionFlags;
pub(crate) use etcd_flags::EtcdFlags;
pub(crate) use etcd_override::EtcdOverride;
pub(crate) use flow_control_flags::FlowControlFlags;
pub(crate) use join_args::Join;
pub(crate) use kubelet_flags::KubeletFlags;
pub(crate) use leader_election_flags::LeaderElectionFlags;
pub(crate) use limit_flags::LimitFlags;
pub(crate) use node_args::Node;
pub(crate) use node_flags::{NodeFlags, RuntimeFlag};
pub(crate) use node_lifecycle_flags::NodeLifecycleFlags;
pub(crate) use scheduler_args::Scheduler;
pub(crate) use scheduler_flags::SchedulerFlags;
pub(crate) use service_account_flags::ServiceAccountFlags;
pub(crate) use test_args::Test;
pub(crate) use tls_flags::TlsFlags;

/// Kubernetes' API and control loops in one small, fast program.
#[derive(Debug, Parser)]
#[command(name = "setpoint", version, about, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a cluster and serve it until interrupted.
    Up(Box<Up>),
    /// Serve the API of a cluster without its other components, as kube-apiserver does.
    Apiserver(Box<Apiserver>),
    /// Run the controllers of a Kubernetes API server, as kube-controller-manager does.
    ControllerManager(Box<ControllerManager>),
    /// Schedule the pods of a Kubernetes API server, as kube-scheduler does.
    Scheduler(Box<Scheduler>),
    /// Run a command with a new cluster in memory, of which KUBECONFIG names the kubeconfig.
    Test(Box<Test>),
    /// Verify, back up, restore or copy a store.
    Store {
        #[command(subcommand)]
        command: store::Command,
    },
    /// List, renew and rotate the certificates and keys of a cluster.
    Certs {
        #[command(subcommand)]
        command: certs::Command,
    },
    /// Generate a new project that builds, passes its test and runs.
    New {
        #[command(subcommand)]
        command: new::Command,
    },
    /// Run nodes of a cluster that another process serves, until interrupted.
    Node(Box<Node>),
    /// Run this machine as a node of a cluster, which it joins by a bootstrap token.
    Join(Box<Join>),
    /// Create tokens by which nodes join a cluster.
    Token {
        #[command(subcommand)]
        command: token::Command,
    },
    /// Install this program as the kube-apiserver and the etcd of test suites.
    Envtest {
        #[command(subcommand)]
        command: envtest::Command,
    },
    /// Run hook programs on events of Kubernetes objects, as shell-operator does.
    ShellOperator {
        #[command(subcommand)]
        command: shell_operator::Command,
    },
    /// Install operators from KUDO packages, and run their plans.
    Kudo {
        #[command(subcommand)]
        command: kudo::Command,
        #[command(flatten)]
        settings: kudo::Settings,
    },
    /// Run test cases of YAML files, as KUTTL does.
    Kuttl {
        #[command(subcommand)]
        command: kuttl::Command,
    },
    /// Render a Go template with the functions of Sprig.
    Template(template::Args),
    /// Print an object with all its dependents, and the readiness of each.
    Tree(tree::Args),
    /// Print for every node which plugin rejects a pod, or its scores, now and at the time of the last decision.
    ExplainScheduling(explain_scheduling::Args),
    /// Print the client and server versions.
    Version(version::Args),
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Up {
    /// The directory for all data: the store, certificates, kubeconfig [default: $XDG_STATE_HOME/setpoint or
    /// ~/.local/state/setpoint].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Store all objects in memory only. They are lost when the process exits.
    #[arg(long)]
    pub memory: bool,
    /// Do not wait for the disk. Objects survive the end of the process, but not a power failure.
    #[arg(long)]
    pub unsafe_no_fsync: bool,
    /// The IP address and port on which to serve HTTPS. Port 0 selects a free port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6443")]
    pub listen: SocketAddr,
    /// The number of nodes to run, of which more than 1 are simulated.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub nodes: u32,
    /// Serve the metrics API (metrics.k8s.io) from the readings of nodes, unless an APIService serves it [default: true
    /// if a node of this process runs containers].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub metrics_api: Option<bool>,
    /// A list of controllers to enable, `scheduler` included. `*` enables all controllers, `foo` enables the controller
    /// named `foo`, `-foo` disables the controller named `foo`, `none` enables no controller.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true
    )]
    pub controllers: Vec<String>,
    /// Host further clusters in memory, which administrators create, fork and delete over HTTP at /clusters.
    #[arg(long)]
    pub host_clusters: bool,
    /// The path to write the administrator's kubeconfig to [default: kubeconfig in the data directory].
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// Merge into an existing kubeconfig, and make this cluster its current context.
    #[arg(long, requires = "kubeconfig")]
    pub merge_kubeconfig: bool,
    /// Amount of time to retain events after their last update, such as `1h`, `30m` or `90s`.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub event_ttl: Duration,
    /// Amount of time to retain old revisions for lists and watches, such as `5m`. They are held in memory.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub keep_history: Duration,
    /// A CIDR notation IP range from which to assign service cluster IPs.
    #[arg(long, value_name = "CIDR", default_value = "10.0.0.0/24")]
    pub service_cluster_ip_range: Cidr,
    /// A port range to reserve for services with NodePort visibility, inclusive at both ends.
    #[arg(long, value_name = "PORT-PORT", default_value = "30000-32767", value_parser = port_range)]
    pub service_node_port_range: (u16, u16),
    /// The file for token authentication, in CSV: token, user name, user uid, and the groups in quotes.
    #[arg(long, value_name = "PATH")]
    pub token_auth_file: Option<PathBuf>,
    /// Admission plugins that should be enabled in addition to the default enabled ones, such as
    /// OwnerReferencesPermissionEnforcement.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub enable_admission_plugins: Vec<String>,
    /// Admission plugins that should be disabled although they are in the default enabled plugins list.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub disable_admission_plugins: Vec<String>,
    /// Path to the file that defines the audit policy configuration, a Policy of audit.k8s.io/v1.
    #[arg(long, value_name = "PATH")]
    pub audit_policy_file: Option<PathBuf>,
    /// If set, all audit events are logged to this file, one JSON line each. `-` means standard out.
    #[arg(long, value_name = "PATH", allow_hyphen_values = true)]
    pub audit_log_path: Option<PathBuf>,
    /// The maximum size in megabytes of the audit log file before it gets rotated. 0 disables rotation.
    #[arg(long, value_name = "MB", default_value_t = 0)]
    pub audit_log_maxsize: u64,
    /// The maximum number of old audit log files to retain. 0 retains all.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub audit_log_maxbackup: usize,
    /// If true, allow privileged containers.
    #[arg(long)]
    pub allow_privileged: bool,
    /// Print and log errors only.
    #[arg(long, short)]
    pub quiet: bool,
    /// The log format. RUST_LOG sets the log levels.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    #[command(flatten)]
    pub flow_control_flags: FlowControlFlags,
    #[command(flatten)]
    pub tls_flags: TlsFlags,
    #[command(flatten)]
    pub limit_flags: LimitFlags,
    #[command(flatten)]
    pub controller_flags: ControllerFlags,
    #[command(flatten)]
    pub node_lifecycle_flags: NodeLifecycleFlags,
    #[command(flatten)]
    pub node_flags: NodeFlags,
    #[command(flatten)]
    pub kubelet_flags: KubeletFlags,
    #[command(flatten)]
    pub scheduler_flags: SchedulerFlags,
    #[command(flatten)]
    pub address_flags: AddressFlags,
    #[command(flatten)]
    pub aggregation_flags: AggregationFlags,
    #[command(flatten)]
    pub authentication_flags: AuthenticationFlags,
    #[command(flatten)]
    pub authorization_flags: AuthorizationFlags,
    #[command(flatten)]
    pub service_account_flags: ServiceAccountFlags,
    #[command(flatten)]
    pub encryption_flags: EncryptionFlags,
    #[command(flatten)]
    pub etcd_flags: EtcdFlags,
    /// Whether this is `kube-apiserver`, which creates no objects of kube-controller-manager.
    #[arg(skip)]
    pub is_kube_apiserver: bool,
    /// The version that /version reports, as v1.37.0 with a suffix of its own [default: the version of this program].
    #[arg(long, value_name = "VERSION", value_parser = reported_version)]
    pub version: Option<String>,
    /// The git commit that /version reports.
    #[arg(long, value_name = "SHA")]
    pub version_git_commit: Option<String>,
}

impl Up {
    /// The flags of a cluster in memory, all others with their defaults.
    pub(crate) fn in_memory() -> Self {
        let words = ["setpoint", "up", "--memory", "--listen", "127.0.0.1:0"];
        match Args::parse_from(words).command {
            Command::Up(up) => *up,
            _ => unreachable!("the command is up"),
        }
    }

    /// The flags of the clusters that a server with these flags hosts. None that configures credentials or paths is
    /// passed on: the users of a hosted cluster are its own, and it must not act with the credentials of its host.
    pub(crate) fn for_hosted_clusters(&self) -> Self {
        Self {
            metrics_api: Some(self.serves_metrics()),
            event_ttl: self.event_ttl,
            keep_history: self.keep_history,
            service_cluster_ip_range: self.service_cluster_ip_range,
            service_node_port_range: self.service_node_port_range,
            enable_admission_plugins: self.enable_admission_plugins.clone(),
            disable_admission_plugins: self.disable_admission_plugins.clone(),
            allow_privileged: self.allow_privileged,
            flow_control_flags: self.flow_control_flags.clone(),
            limit_flags: self.limit_flags.clone(),
            node_lifecycle_flags: self.node_lifecycle_flags.clone(),
            address_flags: AddressFlags {
                advertise_address: self.address_flags.advertise_address,
                ..AddressFlags::default()
            },
            ..Self::in_memory()
        }
    }

    /// Whether the metrics API is served.
    pub(crate) fn serves_metrics(&self) -> bool {
        let runs_containers = || nodes::may_run_containers(&self.node_flags, self.nodes, self.memory);
        self.metrics_api.unwrap_or_else(runs_containers)
    }

    /// The address to serve on: that of `--listen`, or of `--bind-address` and `--secure-port`.
    pub(crate) fn listen_address(&self) -> SocketAddr {
        self.address_flags.listen(self.listen)
    }

    /// The IP address in the endpoints of the `kubernetes` Service, of a server that serves on `address`.
    pub(crate) fn advertised_address(&self, address: SocketAddr) -> IpAddr {
        self.address_flags.advertise_address.unwrap_or(address.ip())
    }

    /// The IP addresses in the serving certificate: that of the server, and that of the `kubernetes` Service, by which
    /// pods reach it.
    pub(crate) fn certificate_addresses(&self) -> Vec<IpAddr> {
        let own = self.address_flags.certificate_address(self.listen);
        let service = self.service_cluster_ip_range.nth(1);
        std::iter::once(own).chain(service).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Parses `1h`, `30m`, `1m30s`.
fn duration(text: &str) -> Result<Duration, String> {
    go_duration::parse(text)
        .map_err(|error| format!("{error}: expected numbers with units, such as 1h, 30m or 90s"))
}

/// Accepts versions of the Kubernetes release that is served, with any suffix.
fn reported_version(text: &str) -> Result<String, String> {
    let served = setpoint_apiserver::version::SERVED;
    let suffix = text.strip_prefix(served);
    match suffix.is_some_and(|suffix| suffix.is_empty() || suffix.starts_with(['-', '+'])) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "version {text:?} must match major/minor/patch of default version {served:?}"
        )),
    }
}

/// Parses `30000-32767`.
fn port_range(text: &str) -> Result<(u16, u16), String> {
    let problem = || format!("invalid port range {text:?}: expected FIRST-LAST, such as 30000-32767");
    let (first, last) = text.split_once('-').ok_or_else(problem)?;
    let range: (u16, u16) = (
        first.parse().map_err(|_| problem())?,
        last.parse().map_err(|_| problem())?,
    );
    (range.0 > 0 && range.0 <= range.1)
        .then_some(range)
        .ok_or_else(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up(line: &str) -> Up {
        let words = ["setpoint", "up"].into_iter().chain(line.split_whitespace());
        match Args::try_parse_from(words).unwrap().command {
            Command::Up(up) => *up,
            other => panic!("{other:?} is not up"),
        }
    }

    #[test]
    fn without_flags_one_node_and_all_controllers_run_on_the_default_port() {
        let up = up("");
        assert_eq!(
            (up.listen.port(), up.nodes, up.controllers),
            (6443, 1, vec!["*".to_owned()])
        );
        assert_eq!(
            (up.event_ttl, up.keep_history, up.quiet, up.memory),
            (Duration::from_secs(3600), Duration::from_secs(300), false, false)
        );
    }

    #[test]
    fn the_metrics_api_is_served_where_containers_run() {
        assert!(up("--runtime cri").serves_metrics() && !up("--runtime simulated").serves_metrics());
        assert!(!up("--runtime cri --metrics-api=false").serves_metrics());
        assert!(!up("--nodes 0").serves_metrics() && up("--nodes 0 --metrics-api").serves_metrics());
    }

    #[test]
    fn controllers_are_a_list_with_exceptions() {
        assert_eq!(
            up("--controllers *,-namespace-controller").controllers,
            ["*", "-namespace-controller"]
        );
        assert_eq!(up("--controllers -namespace").controllers, ["-namespace"]);
        assert_eq!(up("--controllers none").controllers, ["none"]);
    }

    #[test]
    fn concurrent_syncs_are_set_by_flags_with_upstreams_defaults() {
        let flags = up("--concurrent-deployment-syncs 9").controller_flags;
        assert_eq!(
            flags.concurrent_syncs()[setpoint_controllers::deployment::NAME],
            9
        );
        assert_eq!(flags.concurrent_syncs()[setpoint_controllers::job::NAME], 5);
        assert_eq!(
            flags.autoscaler_settings(),
            setpoint_controllers::horizontal_pod_autoscaler::Settings::default()
        );
    }

    #[test]
    fn the_address_may_be_set_by_kube_apiservers_flags() {
        let addresses = |line: &str| {
            let up = up(line);
            (
                up.listen_address().to_string(),
                up.certificate_addresses()
                    .iter()
                    .map(IpAddr::to_string)
                    .collect::<Vec<_>>()
                    .join(" "),
            )
        };
        let pair = |listen: &str, certified: &str| (listen.to_owned(), certified.to_owned());
        assert_eq!(addresses(""), pair("127.0.0.1:6443", "127.0.0.1 10.0.0.1"));
        assert_eq!(
            addresses("--secure-port 1"),
            pair("127.0.0.1:1", "127.0.0.1 10.0.0.1")
        );
        let any = "--bind-address 0.0.0.0 --advertise-address 10.1.2.3";
        assert_eq!(addresses(any), pair("0.0.0.0:6443", "10.1.2.3 10.0.0.1"));
        let services = "--service-cluster-ip-range 10.96.0.0/16";
        assert_eq!(addresses(services), pair("127.0.0.1:6443", "127.0.0.1 10.96.0.1"));
        let words = ["setpoint", "up", "--listen", "127.0.0.1:1", "--secure-port", "2"];
        assert!(Args::try_parse_from(words).is_err());
    }

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        for bad in ["", "5", "h", "1d", "-1s", "é"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
