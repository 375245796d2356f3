//! `setpoint controller-manager`: the controllers as a process of their own, for this or any other Kubernetes API server.
//!
//! They read through informers and write over HTTPS, as kube-controller-manager does. Of several replicas one runs them: the
//! holder of the Lease `kube-controller-manager`. `served_resources` follows which resources the API server serves; there is
//! no controller logic here.

mod served_resources;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use setpoint_api::{Clock, SystemClock};
use setpoint_auth::Issuer;
use setpoint_auth::keys::SigningKey;
use setpoint_auth::token::issuer::DEFAULT_URL;
use setpoint_client::Client;
use setpoint_client::kubeconfig::Connection;
use setpoint_controllers::Config;
use setpoint_runtime::{Context, Manager, SharedInformerFactory};
use tokio::net::TcpListener;

use crate::args::ControllerManager;
use crate::serve::controller_config::{flag_config, policy_type_checker, token_generator};
use crate::serve::{self, expand_selection, read_signing_authority};
use crate::{log, remote, resident_memory};
use served_resources::ServedByDiscovery;

/// The name of the lease, as kube-controller-manager has it.
const LEASE: &str = "kube-controller-manager";

/// Runs the controllers until interrupted, or until the lease is lost.
pub(crate) fn run(args: ControllerManager) -> Result<()> {
    log::start_at(args.log_format, remote::log_level(args.verbosity));
    serve::runtime()?.block_on(manage(args, Arc::new(SystemClock::new())))
}

async fn manage(args: ControllerManager, clock: Arc<dyn Clock>) -> Result<()> {
    let connection = remote::connection(args.kubeconfig.as_deref())?;
    let selected = setpoint_controllers::select(&expand_selection(&args.controllers))?;
    let config = config(&args, &connection)?;
    let served = remote::discover(&connection, &clock).await?;
    let client = Client::connect(&connection)?;
    let factory = SharedInformerFactory::new(client.clone(), clock.clone());
    let served = ServedByDiscovery::new(&connection, factory.clone(), &served)?;
    let config = Config {
        resources: served.resources(),
        ..config
    };
    let mut manager = Manager::with_factory(factory, client, clock);
    for controller in selected {
        let (config, caches) = (config.clone(), served.caches());
        manager.add_for_leader(controller.name, move |context, stop| {
            controller.run(Context { caches, ..context }, config, stop)
        });
    }
    manager.add("discovery", move |context, stop| served.run(context.clock, stop));
    if let Some(election) = remote::election(&args.leader_election, LEASE)? {
        manager.enable_leader_election(election);
    }
    if let Some(address) = args.probe_address {
        let listener = TcpListener::bind(address).await;
        manager.serve_endpoints(listener.with_context(|| format!("cannot listen on {address}"))?);
    }
    tokio::select! {
        ended = manager.run_until_interrupted() => Ok(ended?),
        never = resident_memory::release_start_pages(Arc::new(SystemClock::new())) => match never {},
    }
}

/// The configuration of the controllers by flags and files.
fn config(args: &ControllerManager, connection: &Connection) -> Result<Config> {
    let flags = (&args.controller_flags, &args.node_lifecycle_flags);
    let root_ca = match &args.root_ca_file {
        Some(path) => read(path)?,
        None => String::from_utf8_lossy(connection.authority.as_deref().unwrap_or_default()).into_owned(),
    };
    let signing = args.service_account_private_key_file.as_deref();
    let issuer = signing.map(issuer).transpose()?;
    let kinds = Arc::new(setpoint_kinds::builtin());
    Ok(Config {
        root_ca,
        authority: read_signing_authority(&args.controller_flags)?,
        token_generator: issuer.as_ref().map(token_generator),
        policy_type_checker: policy_type_checker(move || kinds.clone()),
        ..flag_config(flags, args.service_cluster_ip_range)?
    })
}

/// The issuer of legacy tokens, whose claims do not name it.
fn issuer(path: &Path) -> Result<Arc<Issuer>> {
    let key = SigningKey::from_pem(&read(path)?);
    let key = key.with_context(|| format!("cannot use the key in {}", path.display()))?;
    Ok(Arc::new(Issuer::new(DEFAULT_URL, key, Vec::new())))
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
