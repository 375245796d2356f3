//! A rollout of 1,000 pods while the server whose controllers are active is killed, and its successor is terminated.
//!
//! The first two servers run controllers and a scheduler; the third one has the simulated nodes and serves this program. All
//! events of pods and ReplicaSets are totals by revision, so that not a single pod too many is missed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use parking_lot::Mutex;
use rustix::process::Signal;
use serde_json::{Value, json};
use setpoint_conformance::time::{now, sleep};
use setpoint_conformance::wire::Request;

use super::cluster::{Cluster, wait};
use super::pods::{Change, PodCount};
use super::stream::Lines;
use crate::args::Args;
use crate::objects;
use crate::process::StartOptions;

const REPLICAS: u64 = 1000;
const SURGE: u64 = 100;
const SIMULATED_NODES: &str = "20";
/// The server with the nodes.
const OBSERVER: usize = 2;
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
const COLLECTIONS: [&str; 2] = [
    "/api/v1/namespaces/default/pods",
    "/apis/apps/v1/namespaces/default/replicasets",
];
/// How many pods of the new template there are when the leader is killed, and when its successor is terminated.
const KILL_AT: u64 = 250;
const TERMINATE_AT: u64 = 550;
const POLL: Duration = Duration::from_millis(10);
/// How long the rollout may take in all.
const LIMIT: Duration = Duration::from_secs(900);
const SIGTERM_LIMIT: Duration = Duration::from_secs(60);

/// What the watches have seen.
#[derive(Debug, Default)]
struct Observation {
    count: Mutex<PodCount>,
    /// Pods that were created since the start of the watches.
    created: AtomicU64,
    is_over: AtomicBool,
    violations: Mutex<Vec<String>>,
}

/// How long it took after the end of a leader.
#[derive(Debug)]
struct Handover {
    what: &'static str,
    /// Until its process had ended.
    ended: Duration,
    /// Until another server held the lease.
    held: Duration,
    /// Until the next pod was created.
    resumed: Duration,
}

/// Runs the rollout. Returns whether there was never a pod too many.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let cluster = Cluster::start(args, |node| {
        let flags: &[&str] = match node {
            OBSERVER => &["--nodes", SIMULATED_NODES, "--controllers", "none"],
            _ => &["--nodes", "0"],
        };
        flags.iter().map(ToString::to_string).collect()
    })?;
    let observation = Observation::default();
    let started = now();
    let handovers = thread::scope(|scope| {
        for collection in COLLECTIONS {
            let (cluster, observation) = (&cluster, &observation);
            scope.spawn(move || observe(cluster, observation, collection));
        }
        let handovers = roll_out(&cluster, &observation);
        observation.is_over.store(true, Ordering::SeqCst);
        handovers
    })?;
    let limit = usize::try_from(REPLICAS + SURGE).expect("a few pods");
    let totals = observation.count.lock().count(limit);
    println!("\n{:<32} {:.0} s", "duration", started.elapsed().as_secs_f64());
    println!("{:<32} {}", "pods created", totals.created);
    println!("{:<32} {} of {limit}", "active at once, max", totals.most);
    for handover in &handovers {
        println!(
            "{:<32} ended after {:.2} s, lease held after {:.2} s, next pod after {:.2} s",
            handover.what,
            handover.ended.as_secs_f64(),
            handover.held.as_secs_f64(),
            handover.resumed.as_secs_f64()
        );
    }
    let violations = [totals.violations, observation.violations.into_inner()].concat();
    for violation in &violations {
        println!("VIOLATION {violation}");
    }
    println!("{:<32} {}", "violations", violations.len());
    Ok(violations.is_empty())
}

/// Creates the Deployment, changes its template, and ends the leaders on the way.
fn roll_out(cluster: &Cluster, observation: &Observation) -> Result<[Handover; 2]> {
    let mut session = cluster.session(OBSERVER);
    let response = session.send(&objects::post(DEPLOYMENTS, &deployment()))?;
    ensure!(response.status == 201, "{}", response.text());
    wait_for_rollout(cluster, 1)?;
    let patch = json!({"spec": {"template": {"metadata": {"labels": {"version": "two"}}}}});
    let request = Request::new("PATCH", &format!("{DEPLOYMENTS}/web"))
        .body("application/strategic-merge-patch+json", patch.to_string());
    let response = session.send(&request)?;
    ensure!(response.status == 200, "{}", response.text());
    let before = observation.created.load(Ordering::SeqCst);
    wait_for_pods(observation, before + KILL_AT)?;
    let killed = end_leader(cluster, observation, "leader killed", |node| {
        cluster.servers[node].lock().kill()
    })?;
    wait_for_pods(observation, before + TERMINATE_AT)?;
    let terminated = end_leader(cluster, observation, "leader terminated", |node| {
        let mut server = cluster.servers[node].lock();
        server.signal(Signal::TERM)?;
        server.wait_until_ended(SIGTERM_LIMIT)
    })?;
    wait_for_rollout(cluster, 2)?;
    Ok([killed, terminated])
}

/// Ends the leader and starts its server again once another one has taken over.
fn end_leader(
    cluster: &Cluster,
    observation: &Observation,
    what: &'static str,
    end: impl Fn(usize) -> Result<()>,
) -> Result<Handover> {
    let node = leader(cluster)?.context("a leader holds the lease")?;
    let started = now();
    end(node)?;
    let ended = started.elapsed();
    let mut next = None;
    wait("another leader", || {
        next = leader(cluster)?.filter(|next| *next != node);
        next.map(drop).context("the lease is held by the old one")
    })?;
    let held = started.elapsed();
    let created = observation.created.load(Ordering::SeqCst);
    wait_for_pods(observation, created + 1)?;
    let resumed = started.elapsed();
    println!(
        "{what}: server {node}, then {next:?}, after {:.2} s",
        held.as_secs_f64()
    );
    cluster.start_server(node, &StartOptions::default())?;
    Ok(Handover {
        what,
        ended,
        held,
        resumed,
    })
}

/// The server that holds the lease of the controllers: its holder ends with the number of its process.
fn leader(cluster: &Cluster) -> Result<Option<usize>> {
    let lease = cluster.session(OBSERVER).read(LEASE)?;
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    let process: Option<u32> = holder.rsplit('_').next().and_then(|number| number.parse().ok());
    Ok(process.and_then(|process| {
        let mut servers = cluster.servers.iter();
        servers.position(|server| server.lock().pid() == Some(process))
    }))
}

fn wait_for_pods(observation: &Observation, created: u64) -> Result<()> {
    let started = now();
    while observation.created.load(Ordering::SeqCst) < created {
        check_limit(started)?;
        sleep(POLL);
    }
    Ok(())
}

/// Waits until all pods have the newest template and are available.
fn wait_for_rollout(cluster: &Cluster, generation: u64) -> Result<()> {
    let started = now();
    loop {
        let deployment = cluster.session(OBSERVER).read(&format!("{DEPLOYMENTS}/web"))?;
        let status = &deployment["status"];
        let all = ["updatedReplicas", "availableReplicas", "replicas"];
        if status["observedGeneration"] == generation && all.iter().all(|field| status[field] == REPLICAS) {
            return Ok(());
        }
        check_limit(started).with_context(|| format!("the Deployment has {status}"))?;
        sleep(POLL * 10);
    }
}

fn check_limit(started: Instant) -> Result<()> {
    if started.elapsed() > LIMIT {
        bail!("the rollout does not continue after {} s", LIMIT.as_secs());
    }
    Ok(())
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"rollingUpdate": {"maxSurge": SURGE, "maxUnavailable": SURGE}},
            "template": {
                "metadata": {"labels": {"app": "web", "version": "one"}},
                "spec": {"containers": [{"name": "web", "image": "web"}]},
            },
        },
    })
}

/// Watches a collection from the beginning to the end of the run, without a gap.
fn observe(cluster: &Cluster, observation: &Observation, collection: &str) {
    if let Err(error) = watch(cluster, observation, collection) {
        observation
            .violations
            .lock()
            .push(format!("the watch of {collection} ended: {error:#}"));
    }
}

fn watch(cluster: &Cluster, observation: &Observation, collection: &str) -> Result<()> {
    let list = cluster.session(OBSERVER).read(&format!("{collection}?limit=1"))?;
    let mut revision = objects::revision(&list);
    while !observation.is_over.load(Ordering::SeqCst) {
        let path = format!(
            "{collection}?watch=true&allowWatchBookmarks=true&resourceVersion={revision}&timeoutSeconds=5"
        );
        let mut lines = match Lines::open(&cluster.session(OBSERVER), &path) {
            Ok(lines) => lines,
            Err(_) => {
                sleep(POLL);
                continue;
            }
        };
        while let Some(event) = lines.next_json()? {
            ensure!(event["type"] != "ERROR", "{event}");
            revision = objects::revision(&event["object"]);
            if let Some((revision, change)) = Change::of_event(&event) {
                if event["type"] == "ADDED" && event["object"]["kind"] == "Pod" {
                    observation.created.fetch_add(1, Ordering::SeqCst);
                }
                observation.count.lock().add(revision, change);
            }
        }
    }
    Ok(())
}
