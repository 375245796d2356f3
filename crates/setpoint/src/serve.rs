//! `setpoint up`: build, build, build, start, wait.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use setpoint_admission::Chain;
use setpoint_api::{Clock, SystemClock, User};
use setpoint_apiserver::Server;
use setpoint_auth::AccessControl;
use setpoint_auth::audit::Writer;
use setpoint_controllers::serviceaccount_tokens::TokenUses;
use setpoint_kinds::Kinds;
use setpoint_kinds::bootstrap::ServerInfo;
use setpoint_registry::Registry;
use setpoint_runtime::{Caches, Client, Context, Manager};
use setpoint_store::Store;
use tokio_util::sync::CancellationToken;

use crate::args::Up;
use crate::log;
use crate::pki::Pki;

mod access;
mod access_checker;
mod aggregation;
mod audit;
mod backup;
mod checks;
mod components;
mod data_dir;
mod kubeconfig;
mod told;

use aggregation::Aggregation;
use components::Components;
use data_dir::DataDir;

pub(crate) use backup::PATH as BACKUP_PATH;

/// How often, and after how long each time, a store that is in use is asked for again.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// A document may be nested 512 deep and is walked by functions that call themselves. What is not touched costs nothing.
const STACK_BYTES: usize = 8 << 20;

/// Serves a cluster until interrupted.
pub(crate) fn run(args: Up) -> Result<()> {
    log::start(args.log_format, args.quiet);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build();
    runtime.context("cannot start the runtime")?.block_on(up(args))
}

async fn up(args: Up) -> Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let place = DataDir::open(&args)?;
    if args.allow_privileged {
        setpoint_kinds::core::pod::allow_privileged();
    }
    let pki = Pki::open(&place.pki(), args.listen.ip(), clock.now())?;
    let store = open_store(&args, &place, &clock).await?;
    let uses = TokenUses::default();
    let (access, caches) = access::open(&place.pki(), args.token_auth_file.as_deref(), &clock, &uses)?;
    let registry = open_registry(&args, &store, &access, &clock)?;
    caches.set(&(registry.clone() as Arc<dyn Caches>));
    let others = Aggregation::open(&pki, &registry, &clock)?;
    let mut loops = manager(&registry, &others, &clock);
    let mut told = told::controllers(&args, &pki, (&registry, &others), &access)?;
    told.token_uses = uses;
    add_components(&mut loops, &args, &told)?;
    add_api_server_controllers(&mut loops, &told);
    let stop = CancellationToken::new();
    let (audit, writer) = audit::open(&args, &clock).await?.unzip();
    let config = setpoint_apiserver::Config {
        serve: registry.clone(),
        kinds: kinds_provider(&registry),
        authenticate: Box::new(access.authenticate()),
        authorize: Box::new(access.authorizer.clone()),
        issuer: Some(access.issuer.clone()),
        clock: clock.clone(),
        tls: pki.identity()?,
        audit,
        connect: Box::new(setpoint_apiserver::Network::default()),
        aggregator: others.aggregator.clone(),
        checks: checks::all(&registry, &stop),
        metrics_sources: crate::metrics::sources(&registry, &loops, others.metrics_source()),
        custom_routes: vec![backup::route(store.clone(), place.dir.clone())],
    };
    let server = Server::bind(config, args.listen)
        .await
        .context("cannot serve; another address can be given with --listen")?;
    let kubeconfig = kubeconfig::write(&args, &place, &pki, server.local_addr())?;
    let address = server.local_addr();
    registry.set_server_info(server_info(&args, &pki, address));

    let mut parts = Components::new(stop)?;
    let own = registry.clone();
    parts.start("registry", |stop| async move { Ok(own.run(stop).await?) });
    parts.start("server", |stop| serve(server, writer, stop));
    let aggregator = others.aggregator.clone();
    parts.start("aggregator", |stop| aggregation::run(aggregator, stop));
    parts.start("loops", |stop| async move { Ok(loops.run(stop).await?) });
    let announced = async {
        registry.started().await;
        announce(&args, &place, address, &kubeconfig);
        std::future::pending().await
    };
    let outcome = tokio::select! {
        outcome = parts.wait(&clock) => outcome,
        never = announced => never,
    };
    store.close().await.context("cannot close the store")?;
    outcome
}

/// What the server says of itself.
fn server_info(args: &Up, pki: &Pki, address: SocketAddr) -> ServerInfo {
    ServerInfo {
        address: address.ip(),
        port: address.port(),
        service_cidr: args.service_cluster_ip_range,
        client_ca: pki.authority.certificate.clone(),
        proxy_ca: pki.proxy_authority.certificate.clone(),
    }
}

/// Serves until told to stop. What the audit log was told by then is written before the end.
async fn serve(server: Server, writer: Option<Writer>, stop: CancellationToken) -> Result<()> {
    let served = CancellationToken::new();
    let serving = async {
        let outcome = server.run(stop).await;
        served.cancel();
        outcome
    };
    let writing = async {
        if let Some(writer) = writer {
            writer.run(served.clone()).await;
        }
    };
    let (outcome, ()) = tokio::join!(serving, writing);
    Ok(outcome?)
}

/// Opens the store. A process that was killed a moment ago may still be letting go of it, so it is asked for a while.
async fn open_store(args: &Up, place: &DataDir, clock: &Arc<dyn Clock>) -> Result<Store> {
    let config = store_config(args, clock);
    if args.memory {
        return Ok(Store::memory(config));
    }
    for _ in 0..LOCK_TRIES {
        match Store::open(&place.store(), config.clone()) {
            Err(setpoint_store::Error::Locked { .. }) => clock.sleep(LOCK_PAUSE).await,
            opened => return Ok(opened?),
        }
    }
    Ok(Store::open(&place.store(), config)?)
}

fn store_config(args: &Up, clock: &Arc<dyn Clock>) -> setpoint_store::Config {
    let (now, ticks) = (clock.clone(), clock.clone());
    let mut config = setpoint_store::Config::new(Arc::new(move || now.millis()));
    config.ticks = Arc::new(move || u64::try_from(ticks.now().as_nanosecond()).unwrap_or_default());
    config.history.age = u64::try_from(args.keep_history.as_millis()).unwrap_or(u64::MAX);
    config
}

/// What the rules of admission are told. Nodes that are part of this program are trusted less than the rest of it.
fn admission_config(args: &Up, access: &AccessControl) -> setpoint_admission::Config {
    setpoint_admission::Config {
        service_cidr: args.service_cluster_ip_range,
        node_port_range: args.service_node_port_range,
        node_restriction: true,
        access: Some(Arc::new(access_checker::AuthorizerAccessChecker(
            access.authorizer.clone(),
        ))),
        enabled: args.enable_admission_plugins.clone(),
        disabled: args.disable_admission_plugins.clone(),
    }
}

fn open_registry(
    args: &Up,
    store: &Store,
    access: &AccessControl,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<Registry>> {
    let rules = admission_config(args, access);
    rules.check()?;
    let config = setpoint_registry::Config {
        store: store.clone(),
        kinds: Arc::new(Kinds::builtin()),
        admit: Arc::new(access.escalation().guard(Chain::standard(&rules))),
        virtual_resources: Arc::new(access.reviews()),
        clock: clock.clone(),
        event_ttl: args.event_ttl,
    };
    Ok(Registry::open(config)?)
}

/// The kinds that the registry serves at any time.
fn kinds_provider(registry: &Arc<Registry>) -> setpoint_apiserver::serve::KindsProvider {
    let registry = registry.clone();
    Box::new(move || registry.kinds())
}

/// What runs the control loops, on the server's own caches.
fn manager(registry: &Arc<Registry>, others: &Aggregation, clock: &Arc<dyn Clock>) -> Manager {
    let caches: Arc<dyn Caches> = registry.clone();
    let client = Client::new(others.serve.clone(), Arc::new(User::component("system:setpoint")));
    Manager::new(caches, client, clock.clone())
}

/// The same context for a part that is known by another name.
fn acting_as(user: &str, context: Context) -> Context {
    Context {
        client: context.client.as_user(User::component(user)),
        ..context
    }
}

/// What was asked for: controllers, the scheduler among them, and nodes.
fn add_components(loops: &mut Manager, args: &Up, config: &setpoint_controllers::Config) -> Result<()> {
    let mut wanted = expand_selection(&args.controllers);
    if take_scheduler(&mut wanted) {
        add_scheduler(loops);
    }
    add_controllers(loops, &wanted, config)?;
    add_nodes(loops, args);
    Ok(())
}

fn add_controllers(
    loops: &mut Manager,
    wanted: &[&str],
    config: &setpoint_controllers::Config,
) -> Result<()> {
    for controller in setpoint_controllers::select(wanted)? {
        let config = config.clone();
        loops.add(controller.name, move |context, stop| {
            controller.run(acting_as("system:kube-controller-manager", context), config, stop)
        });
    }
    Ok(())
}

/// The controllers of the API server itself, which are part of what it answers.
fn add_api_server_controllers(loops: &mut Manager, config: &setpoint_controllers::Config) {
    for controller in setpoint_controllers::api_server_controllers() {
        let config = config.clone();
        loops.add(controller.name, move |context, stop| {
            controller.run(acting_as("system:apiserver", context), config, stop)
        });
    }
}

/// The list that was typed, where `none` is nothing and exceptions alone are exceptions from all.
fn expand_selection(list: &[String]) -> Vec<&str> {
    let mut words: Vec<&str> = list
        .iter()
        .map(String::as_str)
        .filter(|word| *word != "none")
        .collect();
    if !words.is_empty() && words.iter().all(|word| word.starts_with('-')) {
        words.push("*");
    }
    words
}

/// Takes the scheduler, which is one more loop to whoever types the list, out of it. Whether it is wanted.
fn take_scheduler(list: &mut Vec<&str>) -> bool {
    let is_it = |word: &&str| word.strip_prefix('-').unwrap_or(word) == "scheduler";
    match list.iter().position(is_it) {
        Some(at) => !list.remove(at).starts_with('-'),
        None => list.contains(&"*"),
    }
}

fn add_scheduler(loops: &mut Manager) {
    let config = setpoint_scheduler::Config {
        name: setpoint_scheduler::DEFAULT_NAME.to_owned(),
        profile: setpoint_scheduler::default_profile(),
    };
    loops.add("scheduler", move |context, stop| {
        setpoint_scheduler::run(acting_as("system:kube-scheduler", context), config, stop)
    });
}

fn add_nodes(loops: &mut Manager, args: &Up) {
    if args.nodes == 0 {
        return;
    }
    let config = setpoint_node::Config::simulated("node", args.nodes);
    loops.add("nodes", move |context, stop| {
        setpoint_node::run(acting_as("system:nodes", context), config, stop)
    });
}

/// Says where things are and what to type next.
fn announce(args: &Up, place: &DataDir, address: SocketAddr, kubeconfig: &Path) {
    if args.quiet {
        return;
    }
    let kept = if args.memory {
        "nothing: objects are in memory only".to_owned()
    } else {
        place.dir.display().to_string()
    };
    println!(
        "setpoint {} serves https://{}",
        env!("CARGO_PKG_VERSION"),
        address
    );
    println!("  keeps       {kept}");
    println!("  kubeconfig  {}", kubeconfig.display());
    println!(
        "  now type    kubectl --kubeconfig {} get nodes",
        kubeconfig.display()
    );
    println!("  stop        Ctrl-C");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(list: &[&str], expected: &[&str]) {
        let list: Vec<String> = list.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(expand_selection(&list), expected);
    }

    #[test]
    fn exceptions_alone_are_exceptions_from_all() {
        check(&["-namespace"], &["-namespace", "*"]);
        check(&["*", "-namespace"], &["*", "-namespace"]);
        check(&["replicaset"], &["replicaset"]);
    }

    #[test]
    fn none_is_nothing() {
        check(&["none"], &[]);
    }

    #[track_caller]
    fn check_scheduler(list: &[&str], expected: bool, rest: &[&str]) {
        let mut list = list.to_vec();
        assert_eq!((take_scheduler(&mut list), list.as_slice()), (expected, rest));
    }

    #[test]
    fn the_scheduler_is_one_name_of_the_list() {
        check_scheduler(&["*"], true, &["*"]);
        check_scheduler(&["-scheduler", "*"], false, &["*"]);
        check_scheduler(&["replicaset"], false, &["replicaset"]);
        check_scheduler(&["replicaset", "scheduler"], true, &["replicaset"]);
        check_scheduler(&[], false, &[]);
    }
}
