//! What may be typed.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};
use setpoint_conformance::server::{API_ONLY, Server};
use setpoint_conformance::wire::Endpoint;

/// Asks a server and compares its answers with Kubernetes'.
#[derive(Debug, Parser)]
#[command(name = "setpoint-conformance", max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Asks what was asked of Kubernetes, and compares with its recorded answers.
    Replay(Replay),
    /// Asks two servers the same, and prints where their answers differ.
    Diff(Diff),
    /// Asks a server every case of the corpus and writes down its answers.
    Record(Record),
    /// Asks what was written down, and prints where the answers differ.
    Check(Check),
    /// Sends many bad requests, and prints what must never happen.
    Fuzz(Fuzz),
    /// Starts a server, runs a program with its kubeconfig, and ends as that program ends.
    Run(Run),
}

/// The server that is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct Subject {
    /// The kubeconfig of a running server.
    #[arg(long, value_name = "FILE", required_unless_present = "start")]
    pub(crate) subject_kubeconfig: Option<PathBuf>,
    /// The program to start servers of, each empty and in memory only.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "subject_kubeconfig")]
    pub(crate) start: Option<PathBuf>,
}

/// A server to ask, and the process where we started one.
#[derive(Debug)]
pub(crate) struct Reached {
    pub(crate) endpoint: Endpoint,
    pub(crate) server: Option<Server>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Replay {
    #[command(flatten)]
    pub(crate) subject: Subject,
    /// The folder of the recordings, one `.jsonl` or `.jsonl.gz` file per area.
    #[arg(long, value_name = "DIR")]
    pub(crate) transcripts: PathBuf,
    /// Only this area; may be given several times.
    #[arg(long)]
    pub(crate) area: Vec<String>,
    /// Only cases whose name begins so.
    #[arg(long, default_value = "")]
    pub(crate) id: String,
    /// What is not compared: headers, warnings, or a field's name.
    #[arg(long)]
    pub(crate) ignore: Vec<String>,
    /// So many percent of an area must pass, such as `kinds=97`.
    #[arg(long, value_name = "AREA=PERCENT")]
    pub(crate) min: Vec<String>,
    /// The file that says how many cases of each area must pass.
    #[arg(long, value_name = "FILE")]
    pub(crate) floors: Option<PathBuf>,
    /// Write what passes now into that file, where it is more.
    #[arg(long, requires = "floors")]
    pub(crate) raise_floors: bool,
    /// Write one JSON line for each case that differs.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// How long a case that asks for it may be tried again, in milliseconds, where that is less than it says.
    #[arg(long, value_name = "MS", default_value_t = u64::MAX)]
    pub(crate) patience_ms: u64,
    /// How many differences to print for a case; none prints the counts only.
    #[arg(long, default_value_t = 3)]
    pub(crate) show: usize,
}

/// Which cases, and what is known of them.
#[derive(Debug, clap::Args)]
pub(crate) struct Picked {
    /// Only cases whose name begins so.
    #[arg(long, default_value = "")]
    pub(crate) id: String,
    /// The namespace to work in; names of objects without one begin with it.
    #[arg(long, default_value = setpoint_conformance::corpus::NAMESPACE)]
    pub(crate) namespace: String,
    /// The file of known differences, each with its reason.
    #[arg(long, value_name = "FILE")]
    pub(crate) known: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Diff {
    #[command(flatten)]
    pub(crate) subject: Subject,
    /// The address of the other server.
    #[arg(long, value_name = "URL")]
    pub(crate) reference: String,
    /// How to reach it; without, its certificate is not verified.
    #[arg(long, value_name = "FILE")]
    pub(crate) reference_kubeconfig: Option<PathBuf>,
    /// What to show it, where there is no kubeconfig.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) reference_token: Option<String>,
    #[command(flatten)]
    pub(crate) picked: Picked,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Record {
    #[command(flatten)]
    pub(crate) subject: Subject,
    /// The file to write.
    pub(crate) file: PathBuf,
    /// Send the requests of this recording instead of those of the corpus, to record them again.
    #[arg(long, value_name = "FILE")]
    pub(crate) cases: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) picked: Picked,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) subject: Subject,
    /// The file that was written.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) picked: Picked,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Fuzz {
    #[command(flatten)]
    pub(crate) subject: Subject,
    #[arg(long, default_value_t = 100_000)]
    pub(crate) requests: u64,
    /// The same seed makes the same requests.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// The number of the first request, to send one again by itself.
    #[arg(long, default_value_t = 0)]
    pub(crate) first: u64,
    /// So many at once.
    #[arg(long, default_value_t = 4)]
    pub(crate) at_once: usize,
    /// So much may the server's memory grow after warming up.
    #[arg(long, value_name = "MB", default_value_t = 256)]
    pub(crate) max_growth_mb: u64,
    /// Print the first request instead of sending it.
    #[arg(long)]
    pub(crate) describe: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// The program to start a server of.
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) start: PathBuf,
    /// What to run, and its arguments.
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<String>,
}

impl Subject {
    pub(crate) fn reach(&self) -> Result<Reached> {
        let server = self
            .start
            .as_ref()
            .map(|program| Server::start(program, API_ONLY))
            .transpose()?;
        let endpoint = match (&server, &self.subject_kubeconfig) {
            (Some(server), _) => server.endpoint()?,
            (None, Some(file)) => Endpoint::of_kubeconfig(file)?,
            (None, None) => anyhow::bail!("neither a kubeconfig nor a program to start is given"),
        };
        Ok(Reached { endpoint, server })
    }
}
