//! The flags of `setpoint test`.

use std::ffi::OsString;
use std::path::PathBuf;

use super::Up;

/// Runs a command with a new cluster. The cluster is deleted when the command exits, and its exit code is that of the
/// command.
#[derive(Debug, clap::Args)]
pub(crate) struct Test {
    /// The controllers to run, as those of `up`. `none` runs only the API server, as envtest does.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true
    )]
    pub controllers: Vec<String>,
    /// The number of simulated nodes to run [default: 1, or 0 if no scheduler runs].
    #[arg(long, value_name = "N")]
    pub nodes: Option<u32>,
    /// A manifest file, or a directory of such, whose objects are created before the command is started:
    /// CustomResourceDefinitions first, and the others once those are established. May be repeated.
    #[arg(long, value_name = "PATH")]
    pub crds: Vec<PathBuf>,
    /// Print and log errors only.
    #[arg(long, short)]
    pub quiet: bool,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl Test {
    fn runs_scheduler(&self) -> bool {
        !self
            .controllers
            .iter()
            .any(|name| name == "none" || name == "-scheduler")
    }

    /// The flags of the cluster.
    pub(crate) fn up(&self) -> Up {
        Up {
            controllers: self.controllers.clone(),
            nodes: self.nodes.unwrap_or_else(|| u32::from(self.runs_scheduler())),
            quiet: self.quiet,
            host_clusters: true,
            ..Up::in_memory()
        }
    }
}
