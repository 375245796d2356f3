//! The command line.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};
use setpoint_conformance::server::{API_ONLY, Server};
use setpoint_conformance::wire::Endpoint;

/// Send requests to a server and compare its responses with Kubernetes'.
#[derive(Debug, Parser)]
#[command(name = "setpoint-conformance", max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send recorded requests, and compare the responses with those recorded of Kubernetes.
    Replay(Replay),
    /// Send the corpus to two servers, and print the differences of their responses.
    Diff(Diff),
    /// Send the corpus to a server and record its responses.
    Record(Record),
    /// Send a recording to a server, and print the differences of its responses.
    Check(Check),
    /// Send fuzzed requests, and print responses that must never occur.
    Fuzz(Fuzz),
    /// Send random mutations of the corpus to two servers, and print the differences of their responses.
    Mutate(Mutate),
    /// Schedule pods in scripted situations, and compare the decisions with those of kube-scheduler.
    Scheduling {
        #[command(subcommand)]
        command: SchedulingCommand,
    },
    /// Start a server, and run a program with its kubeconfig. The exit code is the program's.
    Run(Run),
}

/// The server under test.
#[derive(Debug, clap::Args)]
pub(crate) struct SubjectArgs {
    /// The kubeconfig of a running server.
    #[arg(long, value_name = "FILE", required_unless_present = "start")]
    pub(crate) subject_kubeconfig: Option<PathBuf>,
    /// The `setpoint` program to start servers of, each empty and in memory.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "subject_kubeconfig")]
    pub(crate) start: Option<PathBuf>,
    /// The `etcd` program to start for each server that is started, instead of storing in memory.
    #[arg(long, value_name = "PROGRAM", requires = "start")]
    pub(crate) etcd: Option<PathBuf>,
}

/// The server under test, and its process if this tool started it.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) endpoint: Endpoint,
    pub(crate) server: Option<Server>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Replay {
    #[command(flatten)]
    pub(crate) subject: SubjectArgs,
    /// The directory of the recordings, one `.jsonl` or `.jsonl.gz` file per area.
    #[arg(long, value_name = "DIR")]
    pub(crate) transcripts: PathBuf,
    /// Only this area. Can be repeated.
    #[arg(long)]
    pub(crate) area: Vec<String>,
    /// Only cases whose id has this prefix.
    #[arg(long, default_value = "")]
    pub(crate) id: String,
    /// What not to compare: `headers`, `warnings`, or a field name. Can be repeated.
    #[arg(long)]
    pub(crate) ignore: Vec<String>,
    /// The percentage of cases of an area that must pass, such as `kinds=97`.
    #[arg(long, value_name = "AREA=PERCENT")]
    pub(crate) min: Vec<String>,
    /// The file with the number of cases of each area that must pass.
    #[arg(long, value_name = "FILE")]
    pub(crate) floors: Option<PathBuf>,
    /// Raise the numbers in that file to those that pass now.
    #[arg(long, requires = "floors")]
    pub(crate) raise_floors: bool,
    /// Write one JSON line for each case that differs.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// The maximum time in milliseconds for which a step is retried, if less than the recording specifies.
    #[arg(long, value_name = "MS", default_value_t = u64::MAX)]
    pub(crate) max_retry_ms: u64,
    /// The number of differences to print per case. 0 prints the counts only.
    #[arg(long, default_value_t = 3)]
    pub(crate) show: usize,
}

/// The cases to run, and their known differences.
#[derive(Debug, clap::Args)]
pub(crate) struct CaseSelection {
    /// Only cases whose id has this prefix.
    #[arg(long, default_value = "")]
    pub(crate) id: String,
    /// The namespace of the objects; names of cluster-scoped objects start with it.
    #[arg(long, default_value = setpoint_conformance::corpus::NAMESPACE)]
    pub(crate) namespace: String,
    /// The file of known differences with their reasons.
    #[arg(long, value_name = "FILE")]
    pub(crate) known: Option<PathBuf>,
}

/// The server to compare with.
#[derive(Debug, clap::Args)]
pub(crate) struct ReferenceArgs {
    /// The URL of the reference server.
    #[arg(long, value_name = "URL")]
    pub(crate) reference: String,
    /// The kubeconfig of the reference server. If not set, its certificate is not verified.
    #[arg(long, value_name = "FILE")]
    pub(crate) reference_kubeconfig: Option<PathBuf>,
    /// The bearer token for the reference server, if it has no kubeconfig.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) reference_token: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Diff {
    #[command(flatten)]
    pub(crate) subject: SubjectArgs,
    #[command(flatten)]
    pub(crate) reference: ReferenceArgs,
    #[command(flatten)]
    pub(crate) selection: CaseSelection,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Mutate {
    #[command(flatten)]
    pub(crate) subject: SubjectArgs,
    #[command(flatten)]
    pub(crate) reference: ReferenceArgs,
    /// The number of cases.
    #[arg(long, default_value_t = 20_000)]
    pub(crate) cases: u64,
    /// The random seed. The same seed gives the same cases.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// The number of the first case, to run one again by itself.
    #[arg(long, default_value_t = 0)]
    pub(crate) first: u64,
    /// Only cases of this area.
    #[arg(long, default_value = "")]
    pub(crate) area: String,
    /// The number of concurrent cases.
    #[arg(long, default_value_t = 4)]
    pub(crate) concurrency: usize,
    /// The prefix of the namespace of the objects; the seed follows.
    #[arg(long, default_value = "mutation")]
    pub(crate) namespace: String,
    /// The percentage of cases of every area that must be equal.
    #[arg(long, default_value_t = 99.5)]
    pub(crate) min: f64,
    /// The number of differences to print per case.
    #[arg(long, default_value_t = 3)]
    pub(crate) show: usize,
    /// The file of known differences with their reasons.
    #[arg(long, value_name = "FILE")]
    pub(crate) known: Option<PathBuf>,
    /// Print the first case instead of running it.
    #[arg(long)]
    pub(crate) describe: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Record {
    #[command(flatten)]
    pub(crate) subject: SubjectArgs,
    /// The file to write.
    pub(crate) file: PathBuf,
    /// Send the requests of this recording instead of those of the corpus, to record them again.
    #[arg(long, value_name = "FILE")]
    pub(crate) cases: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) selection: CaseSelection,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) subject: SubjectArgs,
    /// The recording.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) selection: CaseSelection,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Fuzz {
    #[command(flatten)]
    pub(crate) subject: SubjectArgs,
    #[arg(long, default_value_t = 100_000)]
    pub(crate) requests: u64,
    /// The random seed. The same seed gives the same requests.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// The number of the first request, to send one again by itself.
    #[arg(long, default_value_t = 0)]
    pub(crate) first: u64,
    /// The number of concurrent requests.
    #[arg(long, default_value_t = 4)]
    pub(crate) concurrency: usize,
    /// The maximum growth of the server's memory after the warm-up.
    #[arg(long, value_name = "MB", default_value_t = 256)]
    pub(crate) max_growth_mb: u64,
    /// Print the first request instead of sending it.
    #[arg(long)]
    pub(crate) describe: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SchedulingCommand {
    /// Record the decisions of the scheduler of a cluster.
    Record(SchedulingRecord),
    /// Compare the decisions of a scheduler with the recorded ones.
    Check(SchedulingCheck),
}

/// The situations and the decisions recorded in them.
#[derive(Debug, clap::Args)]
pub(crate) struct SchedulingFiles {
    /// The directory of the situations.
    #[arg(long, value_name = "DIR", default_value = "crates/conformance/scheduling")]
    pub(crate) situations: PathBuf,
    /// The file of the recorded decisions.
    #[arg(long, value_name = "FILE", default_value = "reference/scheduling.jsonl")]
    pub(crate) decisions: PathBuf,
    /// Only situations whose id has this prefix.
    #[arg(long, default_value = "")]
    pub(crate) id: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SchedulingRecord {
    /// The kubeconfig of a cluster with a scheduler, without nodes and controllers. Its API server has the admission
    /// plugins ServiceAccount and TaintNodesByCondition disabled.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: PathBuf,
    #[command(flatten)]
    pub(crate) files: SchedulingFiles,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SchedulingCheck {
    /// The kubeconfig of a running cluster, as for `record`.
    #[arg(long, value_name = "FILE", required_unless_present = "start")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The `setpoint` program to start a server of.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "kubeconfig")]
    pub(crate) start: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) files: SchedulingFiles,
    /// The file of known differences with their reasons.
    #[arg(long, value_name = "FILE")]
    pub(crate) known: Option<PathBuf>,
    /// The file with the number of decisions that must be equal. Without it, all must be.
    #[arg(long, value_name = "FILE")]
    pub(crate) floors: Option<PathBuf>,
    /// Raise the number in that file to the current one.
    #[arg(long, requires = "floors")]
    pub(crate) raise_floors: bool,
    /// The number of differences to print.
    #[arg(long, default_value_t = 1000)]
    pub(crate) show: usize,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// The `setpoint` program to start.
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) start: PathBuf,
    /// The `etcd` program to start for the server, instead of storing in memory.
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) etcd: Option<PathBuf>,
    /// The program to run, and its arguments.
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<String>,
}

impl SubjectArgs {
    pub(crate) fn connect(&self) -> Result<Subject> {
        let server = self
            .start
            .as_ref()
            .map(|program| Server::start_on(self.etcd.as_deref(), program, API_ONLY))
            .transpose()?;
        let endpoint = match (&server, &self.subject_kubeconfig) {
            (Some(server), _) => server.endpoint()?,
            (None, Some(file)) => Endpoint::of_kubeconfig(file)?,
            (None, None) => anyhow::bail!("neither --subject-kubeconfig nor --start is set"),
        };
        Ok(Subject { endpoint, server })
    }
}
