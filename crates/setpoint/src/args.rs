//! What may be typed: the only place that parses it.

mod controller_flags;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use setpoint_kinds::bootstrap::Cidr;

pub(crate) use controller_flags::ControllerFlags;

/// Kubernetes' API and control loops in one small, fast program.
#[derive(Debug, Parser)]
#[command(name = "setpoint", version, about, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Starts a cluster and serves it until interrupted.
    Up(Box<Up>),
    /// Looks after a store on disk.
    Store {
        #[command(subcommand)]
        command: StoreCommand,
    },
    /// Writes a project that builds, passes its test and runs, to be made into one's own.
    New {
        #[command(subcommand)]
        command: NewCommand,
    },
    /// Prints an object, what it owns, what that owns, and how ready each of them is.
    Tree(Tree),
    /// Prints the versions of this program and of the server.
    Version(Version),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Up {
    /// Where everything is kept [default: $XDG_STATE_HOME/setpoint or ~/.local/state/setpoint].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Keep all objects in memory only: they are gone when the program ends.
    #[arg(long)]
    pub memory: bool,
    /// The address and port to serve on; port 0 takes any that is free.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6443")]
    pub listen: SocketAddr,
    /// How many simulated nodes to run.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub nodes: u32,
    /// Which controllers to run, `scheduler` among them: `*` for all, a name for that one, `-name` for all but that one,
    /// `none` for none.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true
    )]
    pub controllers: Vec<String>,
    /// Where to write the kubeconfig [default: kubeconfig in the data directory].
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// Add to the kubeconfig if there is one already, and make this cluster its current one.
    #[arg(long, requires = "kubeconfig")]
    pub merge_kubeconfig: bool,
    /// How long events are kept after their last change, such as `1h`, `30m` or `90s`.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub event_ttl: Duration,
    /// How long past revisions can be read and watched from, such as `5m`. What they hold stays in memory so long.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub keep_history: Duration,
    /// The addresses that services may have.
    #[arg(long, value_name = "CIDR", default_value = "10.0.0.0/24")]
    pub service_cluster_ip_range: Cidr,
    /// The ports of nodes that services may have, the first and the last.
    #[arg(long, value_name = "PORT-PORT", default_value = "30000-32767", value_parser = port_range)]
    pub service_node_port_range: (u16, u16),
    /// A file of tokens with the users they stand for, a line each: token, name, uid, and groups in quotes.
    #[arg(long, value_name = "PATH")]
    pub token_auth_file: Option<PathBuf>,
    /// Rules of admission that are on besides the usual ones, such as OwnerReferencesPermissionEnforcement.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub enable_admission_plugins: Vec<String>,
    /// Those of the usual rules of admission that are off.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub disable_admission_plugins: Vec<String>,
    /// What the audit log is told of which requests: a Policy of audit.k8s.io/v1.
    #[arg(long, value_name = "PATH")]
    pub audit_policy_file: Option<PathBuf>,
    /// Where to keep the audit log, a line for each event; `-` is the standard output.
    #[arg(long, value_name = "PATH", allow_hyphen_values = true)]
    pub audit_log_path: Option<PathBuf>,
    /// How long the audit log may get before it is put aside, in mebibytes; 0 for any length.
    #[arg(long, value_name = "MB", default_value_t = 0)]
    pub audit_log_maxsize: u64,
    /// How many audit logs that were put aside to keep; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub audit_log_maxbackup: usize,
    /// Let containers be privileged.
    #[arg(long)]
    pub allow_privileged: bool,
    /// Say nothing but errors.
    #[arg(long, short)]
    pub quiet: bool,
    /// How to write the log; what is written is set by RUST_LOG.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    #[command(flatten)]
    pub controller_flags: ControllerFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Reads a whole store and checks every record; the store must not be in use.
    Verify(Verify),
    /// Writes a backup of a store, at one revision, while it is in use or not.
    Backup(Backup),
    /// Makes a new store of a backup.
    Restore(Restore),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Verify {
    /// A data directory, or the store directory in it.
    pub dir: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Backup {
    /// The file to write; it must not be there yet.
    pub file: PathBuf,
    /// The data directory of a store that is not in use; without it, the running server of the kubeconfig is asked.
    #[arg(long, value_name = "DIR", conflicts_with = "kubeconfig")]
    pub data_dir: Option<PathBuf>,
    /// The kubeconfig that names the running server [default: $KUBECONFIG or ~/.kube/config].
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Restore {
    /// The backup.
    pub file: PathBuf,
    /// A new data directory.
    pub dir: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NewCommand {
    /// A controller of a kind of one's own, in Rust.
    Controller(NewController),
}

#[derive(Debug, clap::Args)]
pub(crate) struct NewController {
    /// The name of the project, such as `shop-operator`.
    pub name: String,
    /// The kind that it looks after [default: from the name, such as `Shop`].
    #[arg(long)]
    pub kind: Option<String>,
    /// The group of the kind.
    #[arg(long, default_value = "example.com")]
    pub group: String,
    /// Where to write it [default: a folder of the project's name].
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Where the source of Setpoint is [default: around the current folder].
    #[arg(long, value_name = "DIR")]
    pub setpoint: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Tree {
    /// The object: `deployment/web`, `deploy web`, `foos.example.com/a`.
    #[arg(value_name = "TYPE/NAME", num_args = 1..=2, required = true)]
    pub object: Vec<String>,
    /// The namespace of the object [default: the context's].
    #[arg(long, short)]
    pub namespace: Option<String>,
    /// Draw the tree again whenever it changes.
    #[arg(long, short)]
    pub watch: bool,
    /// The kubeconfig that names the server [default: $KUBECONFIG or ~/.kube/config].
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: the current one].
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Version {
    /// How to print.
    #[arg(long, short, value_enum)]
    pub output: Option<Output>,
    /// Only this program's version; no server is asked.
    #[arg(long)]
    pub client: bool,
    /// The kubeconfig that names the server [default: $KUBECONFIG or ~/.kube/config].
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Json,
}

/// Reads `1h`, `30m`, `90s`.
fn duration(text: &str) -> Result<Duration, String> {
    let problem = || format!("{text:?} is no duration such as 1h, 30m or 90s");
    let unit = text.char_indices().next_back().map_or(0, |(at, _)| at);
    let number: u64 = text[..unit].parse().map_err(|_| problem())?;
    let seconds = match &text[unit..] {
        "h" => 3600,
        "m" => 60,
        "s" => 1,
        _ => return Err(problem()),
    };
    number
        .checked_mul(seconds)
        .map(Duration::from_secs)
        .ok_or_else(problem)
}

/// Reads `30000-32767`.
fn port_range(text: &str) -> Result<(u16, u16), String> {
    let problem = || format!("{text:?} is no range of ports such as 30000-32767");
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
    fn without_flags_one_node_and_all_controllers_run_on_the_usual_port() {
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
    fn controllers_are_a_list_with_exceptions() {
        assert_eq!(
            up("--controllers *,-namespace-controller").controllers,
            ["*", "-namespace-controller"]
        );
        assert_eq!(up("--controllers -namespace").controllers, ["-namespace"]);
        assert_eq!(up("--controllers none").controllers, ["none"]);
    }

    #[test]
    fn controllers_are_told_how_much_to_do_at_a_time() {
        let loops = up("--concurrent-deployment-syncs 9").controller_flags;
        assert_eq!(
            loops.concurrent_syncs()[setpoint_controllers::deployment::NAME],
            9
        );
        assert_eq!(loops.concurrent_syncs()[setpoint_controllers::job::NAME], 5);
        assert_eq!(
            loops.autoscaler_settings(),
            setpoint_controllers::horizontal_pod_autoscaler::Settings::default()
        );
    }

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        for bad in ["", "5", "h", "1d", "-1s", "1.5h", "é"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
