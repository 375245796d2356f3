//! A run: starts the server and the load, injects faults until the time is over, and reports.

use std::fs;
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde_json::json;
use setpoint_conformance::time::now;
use tokio_util::sync::CancellationToken;

use crate::args::Args;
use crate::checkpoint;
use crate::faults::{self, Disk, Fault};
use crate::load::{controller, memory, reader, watcher, writer};
use crate::objects;
use crate::process::Process;
use crate::report::{self, Faults};
use crate::soak::{ADMIN, Soak, WATCHERS, WRITERS};

/// Ends the threads of the load when it is dropped, also by a panic: the scope waits for them.
struct LoadGuard<'a> {
    soak: &'a Soak<'a>,
    stop: CancellationToken,
}

impl Drop for LoadGuard<'_> {
    fn drop(&mut self) {
        self.soak.control.stop();
        self.stop.cancel();
        // Ends the watches, which wait for events.
        let _ = self.soak.session(ADMIN).send(&marker());
    }
}

/// Runs until the time is over. Returns whether every invariant held.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let selected = select(&args.faults)?;
    let dir = tempfile::tempdir()?;
    let data = dir.path().join("data");
    fs::create_dir(&data)?;
    let disk = Disk::mount(&data);
    let process = Process::start(&args.start, dir.path(), &data)?;
    let endpoint = process.endpoint()?;
    let mut soak = Soak::new(args, process, endpoint);
    soak.without_disk = disk.as_ref().err().map(|error| format!("{error:#}"));
    prepare(&soak).context("cannot prepare the cluster")?;
    let started = now();
    let mut injected = Faults::default();
    let checkpoints = thread::scope(|scope| {
        let soak = &soak;
        let load = LoadGuard {
            soak,
            stop: CancellationToken::new(),
        };
        for number in 0..WRITERS {
            scope.spawn(move || writer::run(soak, number));
        }
        for number in 0..WATCHERS {
            scope.spawn(move || watcher::run(soak, number));
        }
        scope.spawn(|| reader::run(soak));
        scope.spawn(|| memory::run(soak));
        let controller_stop = load.stop.clone();
        scope.spawn(move || {
            if let Err(error) = controller::run(soak, controller_stop) {
                soak.violation(format!("the controller has ended: {error:#}"));
            }
        });
        inject_faults(soak, &selected, &mut injected)
    });
    let passed = report::print(&soak, &injected, started.elapsed(), checkpoints);
    if !passed {
        println!(
            "\nthe end of the server's log:\n{}",
            soak.process.lock().log_end()
        );
    }
    soak.process.lock().kill()?;
    drop(disk);
    Ok(passed)
}

/// The faults of these names; all of them for an empty list.
fn select(names: &[String]) -> Result<Vec<Fault>> {
    if let Some(unknown) = names
        .iter()
        .find(|name| faults::ALL.iter().all(|fault| fault.name != **name))
    {
        let known: Vec<&str> = faults::ALL.iter().map(|fault| fault.name).collect();
        bail!("unknown fault {unknown:?}; the faults are {}", known.join(", "));
    }
    let is_selected = |fault: &&Fault| names.is_empty() || names.iter().any(|name| name == fault.name);
    Ok(faults::ALL.iter().filter(is_selected).copied().collect())
}

/// Creates the namespaces of the writers, and lets the user who only reads do so.
fn prepare(soak: &Soak<'_>) -> Result<()> {
    let mut session = soak.session(ADMIN);
    let mut create = |path: &str, body: serde_json::Value| -> Result<()> {
        let response = session.send(&objects::post(path, &body))?;
        ensure!(response.status == 201, "POST {path}: {}", response.text());
        Ok(())
    };
    for writer in 0..WRITERS {
        let name = objects::namespace(writer);
        create(
            "/api/v1/namespaces",
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        )?;
    }
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "soak-readers"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "bob"}],
    });
    create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
}

/// Injects the faults in a random order, again and again, each at least once. Returns the number of checkpoints.
fn inject_faults(soak: &Soak<'_>, selected: &[Fault], injected: &mut Faults) -> usize {
    let mut random = StdRng::seed_from_u64(soak.args.seed);
    let started = now();
    let mut checkpoints = 0;
    loop {
        let mut order = selected.to_vec();
        order.shuffle(&mut random);
        for fault in order {
            println!("{:>5} s  {}", started.elapsed().as_secs(), fault.name);
            match fault.inject(soak, &mut random) {
                Ok(injection) => injected.add(fault.name, injection),
                Err(error) => {
                    soak.violation(format!("{}: {error:#}", fault.name));
                    return checkpoints;
                }
            }
            checkpoints += 1;
            checkpoint::check(soak, checkpoints);
        }
        if started.elapsed() >= soak.args.duration() {
            return checkpoints;
        }
    }
}

/// A last write, so that every watcher gets an event.
fn marker() -> setpoint_conformance::wire::Request {
    let mut map = objects::config_map("last", "", false);
    map["metadata"]["labels"] = json!({"soak": "marker"});
    objects::post(&objects::collection(&objects::namespace(0)), &map)
}
