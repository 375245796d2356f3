//! Commands of `setpoint kudo`, with the flags and the output of `kubectl kudo`. As a link named `kubectl-kudo`, the program
//! is a plugin of kubectl.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command prints to its user"
)]

mod diagnostics;
mod get;
mod init;
mod install;
mod instance;
mod manager;
mod package;
mod package_edit;
mod plan;
mod repo;
mod tree;
mod version;
mod wait;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use setpoint_api::{Clock, Request, Serve, ServeFuture, Status, SystemClock};
use setpoint_client::kubeconfig::Connection;
use setpoint_client::{Client, Http, Kubeconfig};
use setpoint_kuttl::{ObjectClient, command as kuttl};

use crate::api::API_VERSION;
use crate::parameters;

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Install the CRDs of KUDO and its engine in the cluster.
    Init(Box<init::InitArgs>),
    /// Install an operator from a package.
    Install(Box<install::InstallArgs>),
    /// Change parameters of an instance.
    Update(instance::UpdateArgs),
    /// Upgrade an instance to a newer version of its operator.
    Upgrade(Box<install::UpgradeArgs>),
    /// Delete an instance, with all that its operator has applied.
    Uninstall(instance::UninstallArgs),
    /// Print, start and wait for the plans of an instance.
    Plan {
        /// What to do.
        #[command(subcommand)]
        command: plan::PlanCommand,
    },
    /// Print installed operators, versions and instances.
    Get(get::GetArgs),
    /// Create, verify and inspect packages.
    Package {
        /// What to do.
        #[command(subcommand)]
        command: package::PackageCommand,
    },
    /// Configure repositories of packages, and create their indexes.
    Repo {
        /// What to do.
        #[command(subcommand)]
        command: repo::RepoCommand,
    },
    /// Search a repository for operators.
    Search(repo::SearchArgs),
    /// Run the engine, which executes the plans of instances, against the cluster of a kubeconfig.
    Manager(manager::ManagerArgs),
    /// Write the state of an instance to files.
    Diagnostics {
        /// What to do.
        #[command(subcommand)]
        command: diagnostics::DiagnosticsCommand,
    },
    /// Print the version of this program.
    Version(version::VersionArgs),
    /// Run test cases, as `setpoint kuttl test` does.
    Test(Box<kuttl::TestArgs>),
}

/// Flags of all commands.
#[derive(Debug, Clone, Args)]
pub struct Settings {
    /// The kubeconfig. Without it, the one that kubectl would use.
    #[arg(long, global = true)]
    kubeconfig: Option<PathBuf>,
    /// The namespace of the objects [default: that of the kubeconfig, or default].
    #[arg(long, short, global = true)]
    namespace: Option<String>,
    /// The directory of KUDO's configuration [default: ~/.kudo].
    #[arg(long, global = true, env = "KUDO_HOME")]
    home: Option<PathBuf>,
    /// How long a request may take, in seconds; 0 is unlimited.
    #[arg(long, global = true, default_value_t = 0)]
    request_timeout: u64,
    /// Check that the cluster serves the kinds of KUDO before a command that uses them.
    #[arg(long, global = true, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    validate_install: bool,
}

/// Runs a command.
pub fn run(command: Command, settings: &Settings) -> Result<()> {
    if let Command::Test(args) = command {
        return kuttl::run(kuttl::Command::Test(args));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match command {
            Command::Init(args) => init::run(&args, settings).await,
            Command::Install(args) => install::run(&args, settings).await,
            Command::Update(args) => instance::update(&args, settings).await,
            Command::Upgrade(args) => install::upgrade(&args, settings).await,
            Command::Uninstall(args) => instance::uninstall(&args, settings).await,
            Command::Plan { command } => plan::run(&command, settings).await,
            Command::Get(args) => get::run(&args, settings).await,
            Command::Package { command } => package::run(&command),
            Command::Repo { command } => repo::run(&command, settings),
            Command::Search(args) => repo::search(&args, settings).await,
            Command::Manager(args) => manager::run(args, settings).await,
            Command::Diagnostics {
                command: diagnostics::DiagnosticsCommand::Collect(args),
            } => diagnostics::collect(&args, settings).await,
            Command::Version(args) => version::run(&args),
            Command::Test(_) => Ok(()),
        }
    })
}

impl Settings {
    fn connection(&self) -> Result<Connection> {
        match &self.kubeconfig {
            None => Ok(Connection::infer()?),
            Some(path) => Ok(Kubeconfig::load(std::slice::from_ref(path))?.connection(None)?),
        }
    }

    /// A client, and the namespace of the objects.
    async fn client(&self) -> Result<(Client, String)> {
        let (objects, _, namespace) = self.object_client().await?;
        Ok((objects.client().clone(), namespace))
    }

    /// Clients of objects and of paths, and the namespace of the objects.
    async fn object_client(&self) -> Result<(ObjectClient, Http, String)> {
        let connection = self.connection()?;
        let namespace = self.namespace.clone().or(connection.namespace.clone());
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let http = Http::with_clock(&connection, clock.clone())?;
        let mut objects = ObjectClient::new(http.clone(), clock.clone());
        if self.request_timeout > 0 {
            let timeout = Duration::from_secs(self.request_timeout);
            let serve = with_timeout(Arc::new(http.clone()), timeout, clock);
            objects = objects.with_client(objects.client().with_serve(serve));
        }
        if self.validate_install {
            check_installation(&objects).await?;
        }
        Ok((objects, http, namespace.unwrap_or_else(|| "default".to_owned())))
    }
}

/// Requests that end with an error after this time.
fn with_timeout(serve: Arc<dyn Serve>, timeout: Duration, clock: Arc<dyn Clock>) -> Arc<dyn Serve> {
    Arc::new(move |request: Request| -> ServeFuture<'static> {
        let (serve, clock) = (serve.clone(), clock.clone());
        Box::pin(async move {
            tokio::select! {
                response = serve.call(request) => response,
                () = clock.sleep(timeout) => {
                    let message = format!("no response within the request timeout of {} seconds", timeout.as_secs());
                    Err(Status::timeout(message))
                }
            }
        })
    })
}

/// An error unless the cluster serves the kinds of KUDO.
async fn check_installation(objects: &ObjectClient) -> Result<()> {
    for kind in ["Operator", "OperatorVersion", "Instance"] {
        let object = json!({"apiVersion": API_VERSION, "kind": kind});
        if let Err(status) = objects.resource(&object).await {
            let message = status.message;
            bail!(
                "CRDs invalid: {kind} of {API_VERSION} is not served: {message}; run: kubectl kudo init --crd-only"
            );
        }
    }
    Ok(())
}

/// Values of parameters, from flags and files.
#[derive(Debug, Clone, Args)]
pub struct ParameterArgs {
    /// The name and the value of a parameter, separated by '='. It may be repeated.
    #[arg(long, short)]
    parameter: Vec<String>,
    /// A YAML file with values of parameters. It may be repeated; flags come before files.
    #[arg(long, short = 'P')]
    parameter_file: Vec<PathBuf>,
}

impl ParameterArgs {
    fn values(&self) -> Result<BTreeMap<String, String>> {
        let (mut values, mut errors) = (BTreeMap::new(), Vec::new());
        for path in &self.parameter_file {
            match read_values(path) {
                Ok(own) => values.extend(own),
                Err(error) => errors.push(error),
            }
        }
        for text in &self.parameter {
            match text.split_once('=') {
                None => errors.push(format!("parameter not set: {text}")),
                Some(("", _)) => errors.push(format!("parameter name can not be empty: {text}")),
                Some((_, "")) => errors.push(format!("parameter value can not be empty: {text}")),
                Some((name, value)) => drop(values.insert(name.to_owned(), value.to_owned())),
            }
        }
        match errors.is_empty() {
            true => Ok(values),
            false => bail!("could not parse parameters: {}", errors.join(", ")),
        }
    }
}

fn read_values(path: &Path) -> Result<BTreeMap<String, String>, String> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| format!("error reading from parameter file {name}: {error}"))?;
    parameters::parse_file(&name, &text)
}

/// An error with the message of the server.
fn message(status: setpoint_api::Status) -> anyhow::Error {
    anyhow!(status.message)
}
