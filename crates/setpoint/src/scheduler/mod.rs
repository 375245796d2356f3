//! `setpoint scheduler`: the scheduler as a process of its own, for this or any other Kubernetes API server.
//!
//! It reads through informers and writes over HTTPS, as kube-scheduler does. Of several replicas one schedules: the holder
//! of the Lease `kube-scheduler`. `file` reads the configuration file, `extender_transport` sends the
//! requests of extenders; there is no scheduling logic here.

mod extender_transport;
mod file;

use std::sync::Arc;

use anyhow::{Context, Result};
use setpoint_api::{Clock, SystemClock};
use setpoint_client::Client;
use setpoint_runtime::{Manager, SharedInformerFactory};
use tokio::net::TcpListener;

use crate::args::{LeaderElectionFlags, Scheduler};
use crate::{log, remote, resident_memory};
pub(crate) use file::read_config;
use file::{ProcessConfig, read_process_config};

/// The name of the lease, as kube-scheduler has it.
const LEASE: &str = "kube-scheduler";

/// Schedules pods until interrupted, or until the lease is lost.
pub(crate) fn run(args: Scheduler) -> Result<()> {
    log::start_at(args.log_format, remote::log_level(args.verbosity));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let (config, process) = match &args.config {
        None => (setpoint_scheduler::Config::default(), ProcessConfig::default()),
        Some(path) => read_process_config(path, &clock)
            .with_context(|| format!("cannot load the configuration {}", path.display()))?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime
        .context("cannot start the runtime")?
        .block_on(schedule(args, (config, process), clock))
}

async fn schedule(
    args: Scheduler,
    (config, process): (setpoint_scheduler::Config, ProcessConfig),
    clock: Arc<dyn Clock>,
) -> Result<()> {
    let connection = remote::connection(process.kubeconfig().or(args.kubeconfig.as_deref()))?;
    let client = Client::connect(&connection)?;
    let served = remote::discover(&connection, &clock).await?;
    let read = setpoint_scheduler::resources_to_watch();
    let watched = served
        .into_iter()
        .map(|resource| resource.gvr)
        .filter(|gvr| read.contains(gvr));
    let factory = SharedInformerFactory::new(client.clone(), clock.clone()).with_resources(watched);
    let mut manager = Manager::with_factory(factory, client, clock);
    manager.add_for_leader("scheduler", move |context, stop| {
        setpoint_scheduler::run(context, config, stop)
    });
    let election = election_flags(args.leader_election, &process)?;
    if let Some(election) = remote::election(&election, LEASE)? {
        manager.enable_leader_election(election);
    }
    if let Some(address) = args.probe_address {
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
        manager.serve_endpoints(listener);
    }
    tokio::select! {
        ended = manager.run_until_interrupted() => Ok(ended?),
        never = resident_memory::release_start_pages(Arc::new(SystemClock::new())) => match never {},
    }
}

/// The flags of leader election, with what the configuration file sets instead.
fn election_flags(flags: LeaderElectionFlags, process: &ProcessConfig) -> Result<LeaderElectionFlags> {
    let file = &process.leader_election;
    let namespace = file.resource_namespace(&flags.leader_elect_resource_namespace);
    let name = flags.leader_elect_resource_name.as_deref().unwrap_or(LEASE);
    Ok(LeaderElectionFlags {
        leader_elect: file.leader_elect.unwrap_or(flags.leader_elect),
        leader_elect_lease_duration: file.lease_duration(flags.leader_elect_lease_duration)?,
        leader_elect_renew_deadline: file.renew_deadline(flags.leader_elect_renew_deadline)?,
        leader_elect_retry_period: file.retry_period(flags.leader_elect_retry_period)?,
        leader_elect_resource_name: Some(file.resource_name(name).to_owned()),
        leader_elect_resource_namespace: namespace.to_owned(),
    })
}
