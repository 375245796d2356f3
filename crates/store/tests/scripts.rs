//! Interleavings as text: each script in `scripts/` is commands and their outcomes, run on both engines.
//!
//! `UPDATE=1` rewrites the outcomes. A block is one or more commands, a line `----`, the outcome, an empty
//! line. The commands are the arms of [`Session::run`]. A script that contains `reopen` runs on files only.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use bytes::Bytes;
use setpoint_store::{
    Compare, Config, Durability, Error, Event, Op, Put, Revision, Snapshot, Store, Txn, Watcher,
};

#[test]
fn every_script_has_its_expected_outcome_on_files() {
    for path in scripts() {
        let dir = tempfile::tempdir().unwrap();
        check(&path, Session::new(Some(dir.path().to_owned())));
    }
}

#[test]
fn every_script_has_its_expected_outcome_in_memory() {
    let reopens = |path: &PathBuf| fs::read_to_string(path).unwrap().contains("reopen");
    for path in scripts().into_iter().filter(|path| !reopens(path)) {
        check(&path, Session::new(None));
    }
}

#[track_caller]
fn check(path: &Path, mut session: Session) {
    let script = fs::read_to_string(path).unwrap();
    let actual = replay(&script, &mut session);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(path, &actual).unwrap();
    } else {
        assert_eq!(actual, script, "{}", path.display());
    }
}

fn scripts() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = entries.filter(|path| path.extension().is_some()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

/// The script with the outcomes as they really are. Comments and empty lines stay.
fn replay(script: &str, session: &mut Session) -> String {
    let mut out = String::new();
    let mut outcome = Vec::new();
    let mut skipping = false;
    for line in script.lines() {
        match line {
            "----" => {
                out += "----\n";
                outcome
                    .drain(..)
                    .for_each(|line: String| out += &format!("{line}\n"));
                skipping = true;
            }
            "" => {
                out += "\n";
                skipping = false;
            }
            _ if skipping => {}
            comment if comment.starts_with('#') => out += &format!("{comment}\n"),
            command => {
                out += &format!("{command}\n");
                outcome.extend(session.run(command).lines().map(str::to_owned));
            }
        }
    }
    out
}

/// The stores and watchers of one script.
struct Session {
    dir: Option<PathBuf>,
    time: Arc<AtomicU64>,
    stores: BTreeMap<String, Store>,
    current: String,
    watchers: BTreeMap<String, Watcher>,
}

impl Session {
    fn new(dir: Option<PathBuf>) -> Session {
        let mut session = Session {
            dir,
            time: Arc::default(),
            stores: BTreeMap::new(),
            current: "main".into(),
            watchers: BTreeMap::new(),
        };
        session.stores.insert("main".into(), session.open());
        session
    }

    fn open(&self) -> Store {
        let time = self.time.clone();
        let config = Config {
            segment_bytes: 64 << 10,
            snapshot_file_after_bytes: 20 << 10,
            durability: Durability::None,
            ..Config::new(Arc::new(move || time.load(SeqCst)))
        };
        match &self.dir {
            Some(dir) => Store::open(dir, config).unwrap(),
            None => Store::memory(config),
        }
    }

    fn store(&self) -> &Store {
        &self.stores[&self.current]
    }

    fn run(&mut self, command: &str) -> String {
        let words: Vec<_> = command.split_whitespace().collect();
        match words[..] {
            ["put" | "delete", ..] => self.commit(command),
            ["txn", ..] => self.commit(command.trim_start_matches("txn ")),
            ["get", key, ..] => self.get(key, &words[2..]),
            ["list", ..] => self.list(&words[1..]),
            ["status"] => self.status(),
            ["watch", name, prefix, after] => self.watch(name, prefix, after),
            ["next", name] => self.next(name),
            ["compact", revision] => self.compact(revision),
            ["time", millis] => self.set_time(millis),
            ["maintain"] => self.maintain(),
            ["fork", name] => self.fork(name),
            ["use", name] => self.switch(name),
            ["reopen"] => self.reopen(),
            _ => panic!("unknown command {command:?}"),
        }
    }

    /// `[compare, ... =>] operation, ...`
    fn commit(&self, text: &str) -> String {
        let (compares, ops) = text.split_once("=>").unwrap_or(("", text));
        let txn = Txn {
            compares: compares.split(',').filter_map(compare).collect(),
            ops: ops.split(',').filter_map(op).collect(),
        };
        match wait(self.store().commit(txn)) {
            Ok(committed) => format!("revision {}", committed.revision),
            Err(Error::Precondition { index, current: None }) => {
                format!("compare {index} does not hold: absent")
            }
            Err(Error::Precondition {
                index,
                current: Some(current),
            }) => {
                format!("compare {index} does not hold: modified {}", current.modified)
            }
            Err(error) => error.to_string(),
        }
    }

    fn get(&self, key: &str, at: &[&str]) -> String {
        self.read(at, |snapshot| match snapshot.get(key.as_bytes()) {
            None => "absent".into(),
            Some(record) => format!(
                "{} created {} modified {} version {}",
                text(&record.value),
                record.created,
                record.modified,
                record.version
            ),
        })
    }

    fn list(&self, words: &[&str]) -> String {
        let at = words.iter().position(|word| *word == "at").unwrap_or(words.len());
        let prefix = words[..at].first().copied().unwrap_or("");
        self.read(&words[at..], |snapshot| {
            let records = snapshot.prefix(prefix.as_bytes());
            let pairs = records.map(|record| format!("{}={}", text(&record.key), text(&record.value)));
            let pairs: Vec<_> = pairs.collect();
            format!("at {}: {}", snapshot.revision(), pairs.join(" "))
                .trim_end()
                .into()
        })
    }

    fn read(&self, at: &[&str], show: impl FnOnce(&Snapshot) -> String) -> String {
        let snapshot = match at {
            ["at", revision] => self.store().snapshot_at(number(revision)),
            _ => Ok(self.store().snapshot()),
        };
        match snapshot {
            Ok(snapshot) => show(&snapshot),
            Err(error) => error.to_string(),
        }
    }

    fn status(&self) -> String {
        let store = self.store();
        format!("revision {} compacted {}", store.revision(), store.compacted())
    }

    fn watch(&mut self, name: &str, prefix: &str, after: &str) -> String {
        let prefix = if prefix == "*" { "" } else { prefix };
        match self.store().watch(prefix.as_bytes(), number(after)) {
            Ok(watcher) => {
                self.watchers.insert(name.into(), watcher);
                "ok".into()
            }
            Err(error) => error.to_string(),
        }
    }

    fn next(&mut self, name: &str) -> String {
        match self.watchers.get_mut(name).unwrap().try_next() {
            Ok(None) => "nothing".into(),
            Ok(Some(batch)) => {
                let mut lines: Vec<_> = batch.events.iter().map(show_event).collect();
                lines.push(format!("up to {}", batch.revision));
                lines.join("\n")
            }
            Err(error) => error.to_string(),
        }
    }

    fn compact(&self, revision: &str) -> String {
        match wait(self.store().compact(number(revision))) {
            Ok(()) => self.status(),
            Err(error) => error.to_string(),
        }
    }

    fn set_time(&self, millis: &str) -> String {
        self.time.store(millis.parse().unwrap(), SeqCst);
        "ok".into()
    }

    /// Whether a snapshot file was written differs between engines, so it is not printed.
    fn maintain(&self) -> String {
        let report = wait(self.store().maintain()).unwrap();
        let next = report.next_expiry.map_or("never".into(), |at| at.to_string());
        let compacted = report.compacted.map_or("nothing".into(), |to| to.to_string());
        format!("expired {} compacted {compacted} next {next}", report.expired)
    }

    fn fork(&mut self, name: &str) -> String {
        let fork = self.store().fork();
        self.stores.insert(name.into(), fork);
        "ok".into()
    }

    fn switch(&mut self, name: &str) -> String {
        self.current = name.into();
        self.status()
    }

    fn reopen(&mut self) -> String {
        self.watchers.clear();
        wait(self.stores.remove("main").unwrap().close()).unwrap();
        self.stores.insert("main".into(), self.open());
        self.status()
    }
}

fn compare(text: &str) -> Option<Compare> {
    let words: Vec<_> = text.split_whitespace().collect();
    match words[..] {
        [] => None,
        ["absent", key] => Some(Compare::Absent { key: bytes(key) }),
        ["present", key] => Some(Compare::Present { key: bytes(key) }),
        ["modified", key, revision] => Some(Compare::Modified {
            key: bytes(key),
            revision: number(revision),
        }),
        _ => panic!("unknown compare {text:?}"),
    }
}

fn op(text: &str) -> Option<Op> {
    let words: Vec<_> = text.split_whitespace().collect();
    match words[..] {
        [] | ["nothing"] => None,
        ["delete", key] => Some(Op::Delete { key: bytes(key) }),
        ["put", key, value, ref options @ ..] => {
            let option = |name| options.iter().find_map(|word| word.strip_prefix(name));
            Some(Op::Put(Put {
                key: bytes(key),
                value: bytes(value),
                stamp: option("stamp=").map(|offset| offset.parse().unwrap()),
                expires: option("expires=").map(|millis| millis.parse().unwrap()),
                ..Put::default()
            }))
        }
        _ => panic!("unknown operation {text:?}"),
    }
}

fn show_event(event: &Event) -> String {
    let value = |record: &Option<Arc<setpoint_store::Record>>| {
        record.as_ref().map_or("-".into(), |record| text(&record.value))
    };
    let (old, new) = (value(&event.old), value(&event.new));
    format!("{} {}: {old} -> {new}", event.revision, text(event.key()))
}

fn number(text: &str) -> Revision {
    Revision::new(text.parse().unwrap())
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}
