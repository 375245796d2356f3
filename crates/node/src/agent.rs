//! The node agent: runs the heartbeat of its nodes, the reconciler of their pods, and the work for those.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use compact_str::CompactString;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use setpoint_api::{Change, Key, Quantity};
use setpoint_container_runtime::{Runtime, RuntimeVersion};
use setpoint_runtime::manager::RunnableFuture;
use setpoint_runtime::{Context, Controller, Error, Lister, Object};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::cgroups::CgroupManager;
use crate::config::{Config, Machine, RuntimeConfig};
use crate::container_config::{NodeFacts, parse_resolv_conf};
use crate::eviction::{EvictionManager, NodePressure};
use crate::garbage_collection::GarbageCollector;
use crate::heartbeat::Heartbeat;
use crate::image_pulls::PullRecords;
use crate::local_path;
use crate::loops::{HostLoops, Loops};
use crate::pod::admission::Admission;
use crate::pod::bound_pod::BoundPod;
use crate::pod::events::PodEvents;
use crate::pod::reconciler::PodReconciler;
use crate::pod::record::Records;
use crate::pod::setup::{HostSetup, Setup};
use crate::pod::work::PodExecutor;
use crate::pod_view::PodView;
use crate::probes::Prober;
use crate::relist::Relist;
use crate::server::{self, CachedPods};
use crate::shutdown::{Shutdown, ShutdownManager};
use crate::simulated::SimulatedRuntime;
use crate::static_pods::StaticPods;
use crate::volumes::VolumeManager;

/// The agent's component name, and the field manager of what it writes.
pub const NAME: &str = "kubelet";

/// Keys that wait for the queue, and work that waits for its task. Their senders wait while the channels are full.
const CHANNEL_CAPACITY: usize = 1024;

/// How often a runtime that does not respond is tried again.
const RUNTIME_RETRY: Duration = Duration::from_secs(2);

/// The nodes of an agent, by name.
type Machines = Arc<HashMap<CompactString, Machine>>;

/// Runs all nodes of the configuration until stopped.
pub fn run(context: Context, config: Config, stop: CancellationToken) -> RunnableFuture {
    Box::pin(run_agent(context, config, stop))
}

async fn run_agent(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let context = context.with_field_manager(NAME);
    let machines = machines_by_name(&config);
    let pods: Lister<Pod> = context.lister()?;
    if stop.run_until_cancelled(pods.cache().synced()).await.is_none() {
        return Ok(());
    }
    let (runtime, simulated) = runtime(&config, &context, &machines, &pods);
    let Some(version) = wait_for_runtime(&*runtime, &context, &stop).await else {
        return Ok(());
    };
    let events = runtime.subscribe();
    let (keys, queue) = mpsc::channel(CHANNEL_CAPACITY);
    let (tasks, work) = mpsc::channel(CHANNEL_CAPACITY);
    let server = serve(
        config.clone(),
        context.clone(),
        (pods.clone(), runtime.clone()),
        stop.clone(),
    );
    let volumes = host_volumes(&config, &context);
    let executor = Arc::new(executor(&config, &context, runtime, volumes.clone()));
    let records = Arc::new(Records::default());
    let pressure = Arc::new(NodePressure::default());
    let host = host_loops(&config, (&executor, &records, &pods), (&pressure, &keys));
    let loops = Loops {
        host,
        prober: simulated.is_none().then(|| Arc::new(Prober::new(&executor))),
        simulated,
        volumes: volumes.map(|(volumes, _)| volumes),
        relist: Relist::new(&executor, &records, &pods, (&keys, &tasks)),
        records: records.clone(),
        events,
        work,
        keys,
    };
    if take_over(&loops.relist, &executor, &stop).await.is_none() {
        return Ok(());
    }
    let reconciler = PodReconciler {
        pods,
        machines: machines.clone(),
        executor,
        records,
        admission: Admission::default(),
        clock: context.clock.clone(),
        tasks,
        scheme: version.name,
        prober: loops.prober.clone(),
        pressure: loops.host.is_some().then(|| pressure.clone()),
        shutdown: shutdown(&config),
    };
    let controller = controller(reconciler, queue, machines).workers(config.workers);
    let loops = loops.run(stop.clone());
    let heartbeat = Heartbeat::new(&config, &context, &pressure).run(stop.clone());
    let provisioner = provision(&config, &context, stop.clone());
    let controller = controller.run(&context, stop);
    let ((), (), (), provisioned, ended) = tokio::join!(server, heartbeat, loops, provisioner, controller);
    provisioned.and(ended)
}

fn controller(reconciler: PodReconciler, queue: mpsc::Receiver<Key>, machines: Machines) -> Controller<Key> {
    let pods = Pod::resource().group_resource();
    Controller::new(NAME, reconciler)
        .watches(pods, move |change| bound_to(&machines, change))
        .watches_channel(queue)
}

fn shutdown(config: &Config) -> Option<Shutdown> {
    match &config.runtime {
        RuntimeConfig::Containers(host) => host.shutdown.clone(),
        RuntimeConfig::Simulated(_) => None,
    }
}

/// The loops that keep this machine within its resources, unless its containers are simulated.
fn host_loops(
    config: &Config,
    (executor, records, pods): (&Arc<PodExecutor>, &Arc<Records>, &Lister<Pod>),
    (pressure, keys): (&Arc<NodePressure>, &mpsc::Sender<Key>),
) -> Option<HostLoops> {
    let (RuntimeConfig::Containers(host), Setup::Host(setup)) = (&config.runtime, &executor.setup) else {
        return None;
    };
    let garbage = GarbageCollector::new(host.image_gc, executor, records, pods, setup.node.clone());
    let garbage = Arc::new(garbage);
    let eviction = EvictionManager {
        thresholds: host.eviction_hard.clone(),
        pressure: pressure.clone(),
        executor: executor.clone(),
        records: records.clone(),
        pods: pods.clone(),
        node: setup.node.clone(),
        garbage: garbage.clone(),
        keys: keys.clone(),
        observed_at: Mutex::default(),
    };
    let shutdown = host.shutdown.clone().map(|shutdown| ShutdownManager {
        shutdown,
        executor: executor.clone(),
        records: records.clone(),
        pods: pods.clone(),
        keys: keys.clone(),
    });
    Some(HostLoops {
        executor: executor.clone(),
        keys: keys.clone(),
        garbage,
        eviction,
        shutdown,
    })
}

/// Provisions volumes on this machine, if it is configured to.
async fn provision(config: &Config, context: &Context, stop: CancellationToken) -> Result<(), Error> {
    let (RuntimeConfig::Containers(host), Some(machine)) = (&config.runtime, config.machines.first()) else {
        return Ok(());
    };
    if !host.provisions_volumes {
        return Ok(());
    }
    let directory = host.root.join("local-path");
    local_path::run(context.clone(), machine.name.to_string(), directory, stop).await
}

fn machines_by_name(config: &Config) -> Machines {
    let named = |machine: &Machine| (machine.name.clone(), machine.clone());
    Arc::new(config.machines.iter().map(named).collect())
}

/// Serves the agent's API until stopped.
async fn serve(
    config: Config,
    context: Context,
    (pods, runtime): (Lister<Pod>, Arc<dyn Runtime>),
    stop: CancellationToken,
) {
    let agent = CachedPods {
        pods,
        runtime,
        clock: context.clock,
        is_this_machine: matches!(config.runtime, RuntimeConfig::Containers(_)),
    };
    server::component::run(config.server, Arc::new(agent), context.client, stop).await;
}

/// The version of the runtime, once it responds; `None` if the stop comes first.
async fn wait_for_runtime(
    runtime: &dyn Runtime,
    context: &Context,
    stop: &CancellationToken,
) -> Option<RuntimeVersion> {
    loop {
        match runtime.version().await {
            Ok(version) => return Some(version),
            Err(error) => tracing::warn!(%error, "waiting for the container runtime"),
        }
        stop.run_until_cancelled(context.clock.sleep(RUNTIME_RETRY))
            .await?;
    }
}

/// Finds what a previous agent left in the runtime, which may be restarted meanwhile; `None` if the stop comes first.
async fn take_over(relist: &Relist, executor: &PodExecutor, stop: &CancellationToken) -> Option<()> {
    loop {
        match take_inventory(relist, executor).await {
            Ok(()) => return Some(()),
            Err(error) => tracing::warn!(%error, "cannot list what the container runtime has"),
        }
        stop.run_until_cancelled(executor.clock.sleep(RUNTIME_RETRY))
            .await?;
    }
}

async fn take_inventory(
    relist: &Relist,
    executor: &PodExecutor,
) -> Result<(), setpoint_container_runtime::Error> {
    if let Some(records) = executor.setup.pull_records() {
        records.recover(&*executor.runtime, executor.clock.now()).await?;
    }
    relist.compare().await.map(drop)
}

/// The volumes of this machine and its facts, unless its containers are simulated.
fn host_volumes(config: &Config, context: &Context) -> Option<(Arc<VolumeManager>, Arc<NodeFacts>)> {
    let RuntimeConfig::Containers(host) = &config.runtime else {
        return None;
    };
    let machine = config.machines.first()?;
    let memory = machine
        .capacity
        .get("memory")
        .and_then(|amount| amount.parse::<Quantity>().ok());
    let facts = Arc::new(NodeFacts {
        name: machine.name.to_string(),
        addresses: machine.addresses.clone(),
        allocatable: machine.allocatable().clone(),
        memory_capacity: memory.map_or(0, Quantity::value),
        cluster_dns: host.cluster_dns.clone(),
        cluster_domain: host.cluster_domain.clone(),
        host_dns: parse_resolv_conf(&std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default()),
        logs_root: host.logs_root.clone(),
        root: host.root.clone(),
        cgroup_root: host.cgroup_root.clone(),
    });
    let manager = VolumeManager::new(context.client.clone(), context.clock.clone(), facts.clone());
    Some((Arc::new(manager), facts))
}

fn executor(
    config: &Config,
    context: &Context,
    runtime: Arc<dyn Runtime>,
    volumes: Option<(Arc<VolumeManager>, Arc<NodeFacts>)>,
) -> PodExecutor {
    let source = match &config.runtime {
        RuntimeConfig::Containers(host) => host.static_pods.clone(),
        RuntimeConfig::Simulated(_) => None,
    };
    let node = config
        .machines
        .first()
        .map_or("", |machine| machine.name.as_str());
    let static_pods = StaticPods::new(source, node, context.clock.clone());
    let recorder = config.records_events.then(|| context.events.for_component(NAME));
    PodExecutor {
        runtime,
        clock: context.clock.clone(),
        events: PodEvents { recorder },
        client: context.client.clone(),
        static_pods,
        setup: match volumes {
            Some((volumes, node)) => Setup::Host(HostSetup {
                volumes,
                cgroups: CgroupManager::start(&node),
                pull_records: PullRecords::new(&node.root),
                node,
            }),
            None => Setup::Simulated,
        },
    }
}

/// The runtime of the configuration. A simulated one adopts the pods that a previous agent left running.
fn runtime(
    config: &Config,
    context: &Context,
    machines: &Machines,
    pods: &Lister<Pod>,
) -> (Arc<dyn Runtime>, Option<Arc<SimulatedRuntime>>) {
    match &config.runtime {
        RuntimeConfig::Containers(host) => (host.runtime.clone(), None),
        RuntimeConfig::Simulated(simulation) => {
            let clock = context.clock.clone();
            let runtime = Arc::new(SimulatedRuntime::new(simulation.clone(), machines.clone(), clock));
            adopt(&runtime, machines, pods);
            (runtime.clone(), Some(runtime))
        }
    }
}

/// Adopts the pods that a previous agent left running, before any new pod gets an address. A pod that cannot be decoded
/// fails again when it is reconciled.
fn adopt(runtime: &SimulatedRuntime, machines: &Machines, pods: &Lister<Pod>) {
    for pod in pods.list() {
        let view = pod.decode::<PodView>();
        if view.is_ok_and(|view| machines.contains_key(&view.spec.node_name))
            && let Ok(pod) = pod.to_owned()
        {
            runtime.adopt(&BoundPod::new(pod));
        }
    }
}

/// The key of the pod, unless its header shows that it is unbound or bound to a node of another agent. Where the header
/// lacks the field, the reconciler decodes the pod.
fn bound_to(ours: &Machines, change: &Change) -> Vec<Key> {
    match change.object().field("spec.nodeName") {
        Some(node) if !ours.contains_key(node) => Vec::new(),
        _ => vec![change.key().clone()],
    }
}
