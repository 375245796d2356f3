//! The store against a model: one ordered map per revision, through reopening, compaction, forks and watches.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, path::Path, sync::Arc};

use bytes::Bytes;
use proptest::prelude::*;
use setpoint_store::{
    Compare, Config, Durability, Error, Event, Op, Put, Record, Revision, Snapshot, Store, Txn,
};

/// Small enough for keys to meet often.
const KEYS: u8 = 6;

#[derive(Clone, Debug)]
enum Step {
    /// Operations on keys, guarded by whether one key exists.
    Commit {
        ops: Vec<(u8, Option<u8>)>,
        guard: Option<(u8, bool)>,
    },
    /// Compares the key's revision with one that is right or one too old.
    Swap {
        key: u8,
        fresh: bool,
    },
    /// Compacts to this fraction of the readable history.
    Compact(u8),
    Reopen,
    /// Continues with a fork of the store, in memory.
    Fork,
    SnapshotFile,
    Watch(u8),
}

type Entry = (Vec<u8>, u64, u64, u64);
type Map = BTreeMap<u8, Entry>;

/// Expected state of the store: the map after each revision, from revision zero on.
#[derive(Clone, Debug)]
struct Model {
    maps: Vec<Map>,
    compacted: usize,
}

fn step() -> impl Strategy<Value = Step> {
    let op = (0..KEYS, proptest::option::weighted(0.7, any::<u8>()));
    let guard = proptest::option::of((0..KEYS, any::<bool>()));
    let commit = (proptest::collection::vec(op, 1..4), guard);
    prop_oneof![
        10 => commit.prop_map(|(ops, guard)| Step::Commit { ops, guard }),
        4 => (0..KEYS, any::<bool>()).prop_map(|(key, fresh)| Step::Swap { key, fresh }),
        1 => any::<u8>().prop_map(Step::Compact),
        1 => Just(Step::Reopen),
        1 => Just(Step::Fork),
        1 => Just(Step::SnapshotFile),
        2 => any::<u8>().prop_map(Step::Watch),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_is_an_ordered_map_per_revision(steps in proptest::collection::vec(step(), 1..80)) {
        let dir = tempfile::tempdir().unwrap();
        run(dir.path(), &steps);
    }
}

fn run(dir: &Path, steps: &[Step]) {
    let mut store = Some(Store::open(dir, config()).unwrap());
    let mut durable = true;
    let mut model = Model {
        maps: vec![Map::new()],
        compacted: 0,
    };
    for step in steps {
        let current = store.as_ref().unwrap();
        match step {
            Step::Commit { ops, guard } => commit(current, &mut model, ops, *guard),
            Step::Swap { key, fresh } => swap(current, &mut model, *key, *fresh),
            Step::Compact(part) => compact(current, &mut model, *part),
            Step::Watch(part) => watch(current, &model, *part),
            Step::SnapshotFile => drop(wait(current.maintain()).unwrap()),
            Step::Reopen if durable => {
                wait(store.take().unwrap().close()).unwrap();
                store = Some(Store::open(dir, config()).unwrap());
                // A snapshot file holds one revision only, so reopening may shorten the history, never lengthen it.
                let compacted = store.as_ref().unwrap().compacted().get() as usize;
                assert!(compacted >= model.compacted);
                model.compacted = compacted;
            }
            Step::Fork if durable => {
                durable = false;
                store = Some(current.fork());
            }
            Step::Reopen | Step::Fork => {}
        }
        check(store.as_ref().unwrap(), &model);
    }
}

fn commit(store: &Store, model: &mut Model, ops: &[(u8, Option<u8>)], guard: Option<(u8, bool)>) {
    let before = model.newest().clone();
    let distinct = (1..ops.len()).all(|i| ops[..i].iter().all(|(key, _)| *key != ops[i].0));
    let holds = guard.is_none_or(|(key, present)| before.contains_key(&key) == present);
    let compares = guard.map(|(key, present)| match present {
        true => Compare::Present { key: name(key) },
        false => Compare::Absent { key: name(key) },
    });
    let txn = Txn {
        compares: compares.into_iter().collect(),
        ops: ops.iter().map(|(key, value)| op(*key, *value)).collect(),
    };
    match wait(store.commit(txn)) {
        Err(Error::Duplicate { .. }) => assert!(!distinct),
        Err(Error::Precondition { index: 0, current }) => {
            assert!(distinct && !holds);
            let (key, _) = guard.unwrap();
            assert_eq!(current.as_deref().map(entry), before.get(&key).cloned());
        }
        Err(error) => panic!("unexpected {error}"),
        Ok(committed) => {
            assert!(distinct && holds);
            model.apply(ops);
            assert_eq!(committed.revision.get(), model.revision());
        }
    }
}

fn swap(store: &Store, model: &mut Model, key: u8, fresh: bool) {
    let Some((_, _, modified, _)) = model.newest().get(&key) else {
        return;
    };
    let revision = Revision::new(if fresh { *modified } else { modified - 1 });
    let compares = vec![Compare::Modified {
        key: name(key),
        revision,
    }];
    let txn = Txn {
        compares,
        ops: vec![op(key, Some(255))],
    };
    let result = wait(store.commit(txn));
    assert_eq!(result.is_ok(), fresh);
    if fresh {
        model.apply(&[(key, Some(255))]);
    }
}

fn compact(store: &Store, model: &mut Model, part: u8) {
    let revision = model.part(part);
    wait(store.compact(Revision::new(revision))).unwrap();
    model.compacted = model.compacted.max(revision as usize);
}

/// A watch from a random readable revision delivers exactly the difference of consecutive maps.
fn watch(store: &Store, model: &Model, part: u8) {
    let mut at = model.part(part);
    let mut watcher = store.watch(b"", Revision::new(at)).unwrap();
    let mut map = model.maps[at as usize].clone();
    while let Some(batch) = watcher.try_next().unwrap() {
        for event in &batch.events {
            let revision = event.revision.get();
            if revision != at {
                assert_eq!(map, model.maps[at as usize]);
                assert_eq!(revision, at + 1, "no revision is left out");
                at = revision;
            }
            replay(&mut map, event);
        }
    }
    assert_eq!(map, *model.newest());
}

fn replay(map: &mut Map, event: &Event) {
    let key = event.key()[0];
    assert_eq!(map.get(&key).cloned(), event.old.as_deref().map(entry));
    match &event.new {
        Some(new) => map.insert(key, entry(new)),
        None => map.remove(&key),
    };
}

fn check(store: &Store, model: &Model) {
    assert_eq!(store.revision().get(), model.revision());
    assert_eq!(store.compacted().get() as usize, model.compacted);
    for revision in model.compacted..model.maps.len() {
        let snapshot = store.snapshot_at(Revision::new(revision as u64)).unwrap();
        assert_eq!(read(&snapshot), model.maps[revision], "at {revision}");
    }
    if model.compacted > 0 {
        let gone = Revision::new(model.compacted as u64 - 1);
        assert!(matches!(store.snapshot_at(gone), Err(Error::Compacted { .. })));
    }
}

impl Model {
    fn newest(&self) -> &Map {
        self.maps.last().unwrap()
    }

    fn revision(&self) -> u64 {
        self.maps.len() as u64 - 1
    }

    /// A readable revision.
    fn part(&self, part: u8) -> u64 {
        let readable = self.revision() - self.compacted as u64;
        self.compacted as u64 + readable * u64::from(part) / 255
    }

    fn apply(&mut self, ops: &[(u8, Option<u8>)]) {
        let revision = self.revision() + 1;
        let mut map = self.newest().clone();
        for (key, value) in ops {
            let old = map.remove(key);
            if let Some(value) = value {
                let value = format!("{value}@{revision}").into_bytes();
                let (created, version) = old.map_or((revision, 0), |old| (old.1, old.3));
                map.insert(*key, (value, created, revision, version + 1));
            }
        }
        if map != *self.newest() {
            self.maps.push(map);
        }
    }
}

fn name(key: u8) -> Bytes {
    Bytes::copy_from_slice(&[key])
}

fn op(key: u8, value: Option<u8>) -> Op {
    let Some(value) = value else {
        return Op::Delete { key: name(key) };
    };
    let value = format!("{value}@");
    Op::Put(Put {
        key: name(key),
        stamp: Some(value.len() as u32),
        value: value.into(),
        ..Put::default()
    })
}

fn read(snapshot: &Snapshot) -> Map {
    snapshot
        .prefix(b"")
        .map(|record| (record.key[0], entry(&record)))
        .collect()
}

fn entry(record: &Record) -> Entry {
    let numbers = (record.created.get(), record.modified.get(), record.version);
    (record.value.to_vec(), numbers.0, numbers.1, numbers.2)
}

fn config() -> Config {
    Config {
        segment_bytes: 32 << 10,
        snapshot_file_after_bytes: 16 << 10,
        durability: Durability::None,
        ..Config::new(Arc::new(|| 0))
    }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}
