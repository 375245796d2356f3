//! Tests of the file engine: disk faults, damaged files, pipelining, files of a directory.

mod damage;
mod directory;
mod failing_disk;
mod full_disk;
mod pipeline;

use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::{
    Config, Durability, Error, Op, Put, Revision, Snapshot, Store, Txn, conformance::ManualClock,
    log::file::layout,
};

fn config() -> Config {
    Config {
        segment_bytes: 64 << 10,
        durability: Durability::None,
        ..ManualClock::default().config()
    }
}

fn durable() -> Config {
    Config {
        durability: Durability::Sync,
        ..config()
    }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

fn open(dir: &Path) -> Result<Store, Error> {
    Store::open(dir, config())
}

fn put(store: &Store, key: &str, value: &[u8]) -> Result<Revision, Error> {
    let put = Put {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: Bytes::copy_from_slice(value),
        ..Put::default()
    };
    let ops = vec![Op::Put(put)];
    let committed = wait(store.commit(Txn {
        compares: vec![],
        ops,
    }))?;
    Ok(committed.revision)
}

/// A directory with one commit per key, each in a frame of its own: key `k<n>` at revision `n`.
fn filled(dir: &Path, commits: u64) {
    let store = open(dir).unwrap();
    for n in 1..=commits {
        put(&store, &format!("k{n:04}"), b"value").unwrap();
    }
}

/// Checks that exactly the first `commits` of [`filled`] are there.
#[track_caller]
fn check_holds(snapshot: &Snapshot, commits: u64) {
    assert_eq!(snapshot.revision().get(), commits);
    let expected = (1..=commits).map(|n| format!("k{n:04}"));
    let found = snapshot
        .prefix(b"")
        .map(|record| String::from_utf8(record.key.to_vec()).unwrap());
    assert!(found.eq(expected));
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let listing = layout::list(dir).unwrap();
    listing.segments.into_iter().map(|(_, path)| path).collect()
}

/// Changes a file's bytes in place.
fn edit(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}
