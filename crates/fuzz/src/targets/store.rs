//! Recovery of a store: whatever was done to the bytes of its log or its snapshot file, opening it fails, or the store
//! holds everything that was acknowledged.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use setpoint_store::{Config, Op, Put, Record, Store, Txn};
use tempfile::TempDir;

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "store",
    cost: 15,
    seeds,
    run,
};

/// A store with a snapshot file and some log after it.
#[derive(Debug)]
struct Original {
    dir: TempDir,
    /// The files that are mutated: the log, the snapshot file, and the acknowledgement marker.
    files: Vec<PathBuf>,
    records: Vec<Arc<Record>>,
}

const SEGMENT_BYTES: u64 = 32 << 10;

/// Each seed is the number of a file and its contents.
fn seeds() -> Vec<Vec<u8>> {
    let files = original().files.iter().enumerate();
    let seed = |(number, path): (usize, &PathBuf)| {
        let mut seed = vec![u8::try_from(number).unwrap_or(u8::MAX)];
        seed.extend(fs::read(path).expect("a file of the store can be read"));
        seed
    };
    files.map(seed).collect()
}

fn run(bytes: &[u8]) {
    let original = original();
    let Some((number, contents)) = bytes.split_first() else {
        return;
    };
    let Some(path) = original.files.get(*number as usize) else {
        return;
    };
    let copy = tempfile::tempdir().expect("a directory can be created");
    for entry in fs::read_dir(original.dir.path()).expect("the store can be listed") {
        let from = entry.expect("the store can be listed").path();
        fs::copy(&from, copy.path().join(name(&from))).expect("a file can be copied");
    }
    fs::write(copy.path().join(name(path)), contents).expect("a file can be written");
    let verified = Store::verify(copy.path());
    let Ok(store) = Store::open(copy.path(), config()) else {
        assert!(verified.is_err(), "verify accepts what cannot be opened");
        return;
    };
    let records: Vec<Arc<Record>> = store.snapshot().prefix(b"").collect();
    assert!(
        records == original.records,
        "an acknowledged record is lost or another"
    );
}

fn name(path: &Path) -> &Path {
    path.file_name().map(Path::new).expect("a file has a name")
}

fn original() -> &'static Original {
    static ORIGINAL: OnceLock<Original> = OnceLock::new();
    ORIGINAL.get_or_init(create)
}

fn create() -> Original {
    let dir = tempfile::tempdir().expect("a directory can be created");
    let store = Store::open(dir.path(), config()).expect("a store can be created");
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime can be started");
    for number in 0..12 {
        runtime
            .block_on(store.commit(txn(number)))
            .expect("a commit succeeds");
        if number == 6 {
            runtime.block_on(store.maintain()).expect("maintenance succeeds");
        }
    }
    let records = store.snapshot().prefix(b"").collect();
    runtime.block_on(store.close()).expect("the store can be closed");
    let entries = fs::read_dir(dir.path()).expect("the store can be listed");
    let mut files: Vec<PathBuf> = entries.map_while(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0));
    files.sort();
    Original { dir, files, records }
}

fn txn(number: u64) -> Txn {
    let key = format!("key-{}", number % 5).into();
    let op = match number % 4 {
        3 => Op::Delete { key },
        _ => Op::Put(Put {
            key,
            value: format!("value  of {number}").into(),
            stamp: Some(6),
            ..Put::default()
        }),
    };
    Txn {
        compares: Vec::new(),
        ops: vec![op],
    }
}

fn config() -> Config {
    Config {
        segment_bytes: SEGMENT_BYTES,
        snapshot_file_after_bytes: 1,
        ..Config::new(Arc::new(|| 0))
    }
}
