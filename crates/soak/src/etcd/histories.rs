//! Rounds of clients under faults, until the time is over. Each round has objects of its own, so that its history is complete in
//! itself and is forgotten after its check.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde_json::json;
use setpoint_conformance::time::{now, sleep};
use setpoint_conformance::wire::Request;

use super::client::{Client, OBJECTS};
use super::cluster::{Cluster, NODES};
use super::faults::{self, Fault};
use super::recorder::{NAMESPACE, Recorder, selector};
use super::watcher::Watcher;
use crate::args::Args;
use crate::linearizability::{Action, History, Outcome, Version, ViolationKind, check};
use crate::objects;

pub(crate) const CLIENTS: usize = 16;
const WATCHERS: usize = 6;

/// How long the faults of a round last together, in a long run.
const ROUND: Duration = Duration::from_secs(40);
/// How many violations of a type are printed for a round.
const PRINTED: usize = 5;
/// How many objects are tried for the end of a round.
const LAST_OBJECTS: usize = 20;
/// How long a fault is held, and the pause after it.
const HOLD_MILLIS: std::ops::Range<u64> = 2_000..14_000;
const PAUSE_MILLIS: std::ops::Range<u64> = 500..4_000;

/// A run and its results.
struct Histories<'a> {
    args: &'a Args,
    cluster: &'a Cluster,
    random: StdRng,
    /// The faults that are injected before any comes again.
    queue: Vec<Fault>,
    /// How often each fault was injected.
    injected: BTreeMap<&'static str, u64>,
    skipped: BTreeSet<String>,
    totals: Totals,
    violations: Vec<String>,
    /// The objects at the end of the round before, but those of writes without a response.
    previous: BTreeMap<String, Version>,
}

/// Measurements of a run.
#[derive(Debug, Default)]
struct Totals {
    rounds: usize,
    operations: BTreeMap<&'static str, u64>,
    watches: usize,
    events: usize,
    incomplete: usize,
    unfinished: usize,
    longest_recovery: Duration,
    longest_check: Duration,
}

/// Runs until the time is over. Returns whether no history has a violation.
pub(crate) fn run(args: &Args) -> Result<bool> {
    check_names(&args.faults)?;
    let started = now();
    let cluster = Cluster::start(args, |_| vec!["--nodes".to_owned(), "0".to_owned()])?;
    println!(
        "{:>5} s  {NODES} servers on {NODES} etcd members are ready",
        started.elapsed().as_secs()
    );
    let mut histories = Histories {
        args,
        cluster: &cluster,
        random: StdRng::seed_from_u64(args.seed),
        queue: Vec::new(),
        injected: BTreeMap::new(),
        skipped: BTreeSet::new(),
        totals: Totals::default(),
        violations: Vec::new(),
        previous: BTreeMap::new(),
    };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let response = cluster
        .session(0)
        .send(&objects::post("/api/v1/namespaces", &namespace))?;
    ensure!(response.status == 201, "{}", response.text());
    let started = now();
    while started.elapsed() < args.duration() {
        let round = histories.totals.rounds + 1;
        if let Err(error) = histories.run_round(round) {
            histories.violation(format!("round {round}: {error:#}"));
            break;
        }
    }
    histories.print(started.elapsed());
    Ok(histories.violations.is_empty())
}

fn check_names(names: &[String]) -> Result<()> {
    let known: Vec<&str> = faults::ALL.iter().map(|fault| fault.name).collect();
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        Some(unknown) => bail!("unknown fault {unknown:?}; the faults are {}", known.join(", ")),
        None => Ok(()),
    }
}

impl Histories<'_> {
    /// A round: clients and watchers run while faults are injected; then everything is compared.
    fn run_round(&mut self, round: usize) -> Result<()> {
        let recorder = Recorder::new(round, self.start_revision(round)?);
        let (cluster, seed) = (self.cluster, self.args.seed);
        let watched = thread::scope(|scope| -> Result<bool> {
            let recorder = &recorder;
            let watchers: Vec<_> = (0..WATCHERS)
                .map(|number| scope.spawn(move || Watcher::new(cluster, recorder, number, seed).run()))
                .collect();
            let clients: Vec<_> = (0..CLIENTS)
                .map(|number| scope.spawn(move || Client::new(cluster, recorder, number, seed).run()))
                .collect();
            let injected = self.inject_faults();
            recorder.end();
            for client in clients {
                ensure!(client.join().is_ok(), "a client has panicked");
            }
            let compared = injected.and_then(|()| read_at_each_server(cluster, recorder, seed));
            // Watchers that do not reach the end give up after a while.
            let watched: Vec<_> = watchers.into_iter().map(|watcher| watcher.join().ok()).collect();
            compared?;
            Ok(watched.iter().all(|reached| *reached == Some(true)))
        })?;
        if !watched {
            self.violation(format!(
                "round {round}: a watch did not deliver the end of the round"
            ));
        }
        for text in recorder.unexpected() {
            self.violation(format!("round {round}: unexpected response of {text}"));
        }
        self.judge(round, &recorder.into_history())
    }

    /// The revision of a list without any object of the round.
    fn start_revision(&mut self, round: usize) -> Result<u64> {
        let mut session = self.cluster.session(round % NODES);
        let list = session.read(&format!("{}?{}", objects::collection(NAMESPACE), selector(round)))?;
        let items = list["items"].as_array().map_or(0, Vec::len);
        ensure!(items == 0, "objects of round {round} exist before it begins");
        Ok(objects::revision(&list))
    }

    /// Injects faults, one or two at a time, until the round is over.
    fn inject_faults(&mut self) -> Result<()> {
        let started = now();
        let duration = ROUND.min(self.args.duration() / 2);
        sleep(self.pause(PAUSE_MILLIS));
        while started.elapsed() < duration {
            let concurrent = if self.random.random_ratio(1, 4) { 2 } else { 1 };
            for _ in 0..concurrent {
                self.inject_fault();
            }
            sleep(self.pause(HOLD_MILLIS));
            let recovery = faults::heal(self.cluster)?;
            self.totals.longest_recovery = self.totals.longest_recovery.max(recovery);
            sleep(self.pause(PAUSE_MILLIS));
        }
        Ok(())
    }

    fn inject_fault(&mut self) {
        let Some(fault) = self.next_fault() else { return };
        match fault.inject(self.cluster, &mut self.random) {
            Ok(()) => *self.injected.entry(fault.name).or_default() += 1,
            // Beside another fault there may be no leader, or the process is dead.
            Err(error) => println!("         not injected: {error:#}"),
        }
    }

    fn next_fault(&mut self) -> Option<Fault> {
        if self.queue.is_empty() {
            let names = &self.args.faults;
            let is_selected =
                |fault: &&Fault| names.is_empty() || names.iter().any(|name| name == fault.name);
            for fault in faults::ALL.iter().filter(is_selected) {
                match fault.skipped() {
                    Some(reason) => drop(self.skipped.insert(format!("{}: {reason}", fault.name))),
                    None => self.queue.push(*fault),
                }
            }
            self.queue.shuffle(&mut self.random);
        }
        self.queue.pop()
    }

    fn pause(&mut self, millis: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.random.random_range(millis))
    }

    /// Checks the history of a round, and what became of the round before.
    fn judge(&mut self, round: usize, history: &History) -> Result<()> {
        self.totals.add(history);
        let started = now();
        let report = check(history);
        self.totals.longest_check = self.totals.longest_check.max(started.elapsed());
        self.totals.incomplete += usize::from(!report.is_complete);
        self.totals.unfinished += report.unfinished.len();
        println!(
            "round {round}: {} operations, {} watches, checked in {} ms{}{}",
            history.operations.len(),
            history.watches.len(),
            started.elapsed().as_millis(),
            if report.is_complete {
                ""
            } else {
                ", not all deletions are known"
            },
            if report.unfinished.is_empty() {
                ""
            } else {
                ", the search gave up"
            },
        );
        if !report.violations.is_empty() {
            let path = std::env::temp_dir().join(format!("setpoint-soak-round-{round}.txt"));
            fs::write(&path, history.to_string())?;
            println!("the history is in {}", path.display());
        }
        let mut of_kind: HashMap<ViolationKind, usize> = HashMap::new();
        for violation in report.violations {
            let number = of_kind.entry(violation.kind).or_default();
            *number += 1;
            // One cause shows in many operations.
            if *number <= PRINTED {
                self.violation(format!("round {round}: {violation}"));
            }
        }
        self.compare_previous(round)?;
        self.previous = final_objects(history);
        Ok(())
    }

    /// The objects of the round before are as they were at its end. They are deleted then.
    fn compare_previous(&mut self, round: usize) -> Result<()> {
        let Some(previous) = round.checked_sub(1).filter(|previous| *previous > 0) else {
            return Ok(());
        };
        let mut session = self.cluster.session(previous % NODES);
        let path = format!("{}?{}", objects::collection(NAMESPACE), selector(previous));
        let list = session.read(&path)?;
        let items: BTreeMap<String, u64> = list["items"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|item| (super::recorder::name(item).to_owned(), objects::revision(item)))
            .collect();
        for (key, version) in std::mem::take(&mut self.previous) {
            if items.get(&key) != Some(&version.revision) {
                let now = items.get(&key);
                self.violation(format!(
                    "{key} was {version} at the end of its round, now at {now:?}"
                ));
            }
        }
        let response = session.send(&Request::new("DELETE", &path))?;
        ensure!(response.status == 200, "DELETE {path}: {}", response.text());
        Ok(())
    }

    fn violation(&mut self, text: String) {
        println!("VIOLATION {text}");
        self.violations.push(text);
    }

    fn print(&self, elapsed: Duration) {
        let totals = &self.totals;
        println!(
            "\n{:<32} {:.0} s, seed {}",
            "duration",
            elapsed.as_secs_f64(),
            self.args.seed
        );
        println!(
            "{:<32} {} by {CLIENTS} clients and {WATCHERS} watchers",
            "rounds", totals.rounds
        );
        for (outcome, number) in &totals.operations {
            println!("{:<32} {number}", format!("operations: {outcome}"));
        }
        println!(
            "{:<32} {} with {} events",
            "watches", totals.watches, totals.events
        );
        println!("{:<32} {}", "rounds with unknown deletions", totals.incomplete);
        println!("{:<32} {}", "keys not searched to the end", totals.unfinished);
        println!(
            "{:<32} {:.1} s",
            "check of a round, max",
            totals.longest_check.as_secs_f64()
        );
        println!(
            "{:<32} {:.1} s",
            "recovery from a fault, max",
            totals.longest_recovery.as_secs_f64()
        );
        for (name, number) in &self.injected {
            println!("{:<32} {number}", format!("fault: {name}"));
        }
        for skipped in &self.skipped {
            println!("SKIPPED: {skipped}");
        }
        println!("{:<32} {}", "violations", self.violations.len());
    }
}

impl Totals {
    fn add(&mut self, history: &History) {
        self.rounds += 1;
        self.watches += history.watches.len();
        let events = history.watches.iter().map(|watch| watch.events.len());
        self.events += events.sum::<usize>();
        for operation in &history.operations {
            let outcome = match operation.outcome {
                Outcome::Written(_) => "written",
                Outcome::Deleted { .. } => "deleted",
                Outcome::Read(_) => "read",
                Outcome::Listed { .. } => "listed",
                Outcome::Absent => "not found",
                Outcome::Exists => "already exists",
                Outcome::Conflict => "conflict",
                Outcome::Rejected => "not sent",
                Outcome::Unknown if operation.is_write() => "write without a response",
                Outcome::Unknown => "read without a response",
            };
            *self.operations.entry(outcome).or_default() += 1;
        }
    }
}

/// Reads each object and the list at each server, and creates the object that ends the watches.
fn read_at_each_server(cluster: &Cluster, recorder: &Recorder, seed: u64) -> Result<()> {
    let mut client = Client::new(cluster, recorder, CLIENTS, seed);
    for server in 0..NODES {
        let listed = client.execute_at(server, "", |_| Action::List);
        listed.with_context(|| format!("no list at server {server}"))?;
        for number in 0..OBJECTS {
            client.execute_at(server, &recorder.key(number), |_| Action::Get);
        }
    }
    create_last(&mut client, recorder)?;
    for server in 0..NODES {
        let listed = client.execute_at(server, "", |_| Action::List);
        listed.with_context(|| format!("no list at server {server}"))?;
    }
    Ok(())
}

/// Creates an object whose event ends the watches.
fn create_last(client: &mut Client<'_>, recorder: &Recorder) -> Result<()> {
    for number in OBJECTS..OBJECTS + LAST_OBJECTS {
        let outcome = client.execute_at(number % NODES, &recorder.key(number), Client::create);
        if let Some(Outcome::Written(version)) = outcome {
            recorder.set_target(version.revision);
            return Ok(());
        }
    }
    bail!("the end of the round was not created")
}

/// The objects at the end of a round that no write without a response may still change.
fn final_objects(history: &History) -> BTreeMap<String, Version> {
    let lists = history.operations.iter().rev();
    let mut lists = lists.filter_map(|operation| match &operation.outcome {
        Outcome::Listed { items, .. } => Some(items.clone()),
        _ => None,
    });
    let mut objects = lists.next().unwrap_or_default();
    for operation in &history.operations {
        if operation.outcome == Outcome::Unknown && operation.is_write() {
            objects.remove(&operation.key);
        }
    }
    objects
}
