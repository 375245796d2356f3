//! A process that is killed at any time loses no acknowledged commit, and the revision never decreases (R2).
//!
//! The test runs its own binary as the writer: the child commits from several threads, writes snapshot files and
//! recycles segments, and prints each acknowledged commit. The parent kills it after a random number of
//! lines, opens the directory, and looks for everything that was acknowledged: each key holds its last
//! acknowledged value or a later one, and the history contains each acknowledged revision of the round.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use setpoint_store::{Config, Op, Put, Record, Revision, Store, Txn};

const KILLS: usize = 200;
const WRITERS: u64 = 4;
/// Each writer goes round these many keys.
const KEYS: u64 = 50;
const DIR_VARIABLE: &str = "STORE_CRASH_DIR";

#[test]
fn a_killed_process_loses_nothing_it_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = StdRng::seed_from_u64(7);
    let mut last = BTreeMap::new();
    let mut reached = Revision::ZERO;
    let mut total = 0;
    for round in 0..KILLS {
        let lines = random.random_range(0..40);
        let acknowledged = run_and_kill(dir.path(), lines);
        total += acknowledged.len();
        for (revision, key) in &acknowledged {
            assert!(
                *revision > reached,
                "round {round}: {revision} was given before {reached}"
            );
            let newest = last.entry(key.clone()).or_insert(*revision);
            *newest = (*newest).max(*revision);
        }
        let store = Store::open(dir.path(), config()).unwrap();
        assert!(
            store.revision() >= reached,
            "round {round}: the revision went back"
        );
        check_last(&store, round, &last);
        check_history(&store, round, &acknowledged);
        reached = store.revision();
    }
    assert!(total > KILLS, "the writers got somewhere");
}

/// The writer's side; does nothing unless the test above runs it.
#[test]
fn child() {
    let Ok(dir) = std::env::var(DIR_VARIABLE) else {
        return;
    };
    let store = Store::open(Path::new(&dir), config()).unwrap();
    let out = Mutex::new(std::io::stdout());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (store, out, stop) = (&store, &out, &stop);
            scope.spawn(move || {
                for n in (0..KEYS).cycle() {
                    let key = format!("w{writer}-{n}");
                    let revision = wait(store.commit(put(&key))).unwrap().revision;
                    // The parent closes its end when it has seen enough.
                    if writeln!(out.lock().unwrap(), "ack {revision} {key}.").is_err() {
                        stop.store(true, SeqCst);
                    }
                    if stop.load(SeqCst) {
                        return;
                    }
                    if n % 10 == writer {
                        wait(store.maintain()).unwrap();
                    }
                }
            });
        }
    });
}

fn run_and_kill(dir: &Path, lines: usize) -> Vec<(Revision, String)> {
    let mut child = start(dir);
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = Vec::new();
    while acknowledged.len() < lines {
        let line = output
            .next()
            .expect("the child writes until it is killed")
            .unwrap();
        acknowledged.extend(parse(&line));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Lines printed before the kill were acknowledged, too; the last one may be cut off.
    let rest: Vec<_> = output.map_while(Result::ok).collect();
    acknowledged.extend(rest.iter().filter_map(|line| parse(line)));
    acknowledged
}

fn start(dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture", "--test-threads=1"])
        .env(DIR_VARIABLE, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A line that the kill has cut short lacks its full stop.
fn parse(line: &str) -> Option<(Revision, String)> {
    let mut words = line.split("ack ").nth(1)?.strip_suffix('.')?.split(' ');
    let revision = words.next()?.parse().ok()?;
    let key = words.next()?.to_owned();
    Some((Revision::new(revision), key))
}

/// Each key holds what was acknowledged last, or what was in flight after it.
fn check_last(store: &Store, round: usize, last: &BTreeMap<String, Revision>) {
    let snapshot = store.snapshot();
    for (key, revision) in last {
        let record = snapshot.get(key.as_bytes());
        let record = record.unwrap_or_else(|| panic!("round {round}: {key} at {revision} is lost"));
        assert!(
            record.modified >= *revision,
            "round {round}: {key} at {revision} is lost"
        );
        check_value(&record);
    }
}

/// Each acknowledged revision that is not compacted wrote the key it was acknowledged for.
fn check_history(store: &Store, round: usize, acknowledged: &[(Revision, String)]) {
    let mut kept = BTreeMap::new();
    let mut watcher = store.watch(b"", store.compacted()).unwrap();
    while let Some(batch) = watcher.try_next().unwrap() {
        kept.extend(batch.events.into_iter().map(|event| (event.revision, event)));
    }
    for (revision, key) in acknowledged.iter().filter(|(at, _)| *at > store.compacted()) {
        let event = kept.get(revision);
        let event = event.unwrap_or_else(|| panic!("round {round}: {revision} is not kept"));
        assert_eq!(event.key(), key, "round {round}: {revision} wrote another key");
        check_value(event.new.as_ref().unwrap());
    }
}

fn check_value(record: &Record) {
    let expected = format!("at {}: {}", record.modified, "x".repeat(200));
    assert_eq!(record.value, expected);
}

fn put(key: &str) -> Txn {
    let put = Put {
        key: key.to_owned().into(),
        value: format!("at : {}", "x".repeat(200)).into(),
        stamp: Some(3),
        ..Put::default()
    };
    Txn {
        compares: vec![],
        ops: vec![Op::Put(put)],
    }
}

fn config() -> Config {
    Config {
        segment_bytes: 64 << 10,
        snapshot_file_after_bytes: 128 << 10,
        ..Config::new(Arc::new(|| 0))
    }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}
