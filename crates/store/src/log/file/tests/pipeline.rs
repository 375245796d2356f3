//! Pipelining: one batch is being written while the next is evaluated on top of it. Every durable write waits
//! here until the test decides its result.

use std::{
    io,
    path::Path,
    pin::Pin,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;

use super::*;
use crate::{
    Compare, TxnResponse,
    log::file::disk::{Disk, DiskFile, Mode, RealDisk},
};

/// The result that the test chooses for a write.
#[derive(Clone, Copy, Debug)]
enum WriteResult {
    Pass,
    Fail,
    Full,
    Panic,
}

/// A disk whose durable writes report that they have begun, and then wait for their result.
#[derive(Clone, Debug)]
struct GatedDisk {
    begun: SyncSender<()>,
    results: Arc<Mutex<Receiver<WriteResult>>>,
}

#[derive(Debug)]
struct GatedFile {
    inner: Box<dyn DiskFile>,
    gate: Option<GatedDisk>,
}

/// A store on such a disk, and the test's end of it.
struct Fixture {
    dir: tempfile::TempDir,
    store: Store,
    begun: Receiver<()>,
    results: SyncSender<WriteResult>,
    /// Receives a message whenever a batch is opened.
    opened: Receiver<()>,
}

type Commit = Pin<Box<dyn Future<Output = Result<TxnResponse, Error>>>>;

const PLENTY: usize = 64;

impl Disk for GatedDisk {
    fn open(&self, path: &Path, mode: Mode) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(GatedFile {
            inner: RealDisk.open(path, mode)?,
            gate: (mode == Mode::Durable).then(|| self.clone()),
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        RealDisk.free_bytes(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.sync_dir(dir)
    }
}

impl DiskFile for GatedFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let result = self.gate.as_ref().map_or(WriteResult::Pass, |gate| {
            gate.begun.send(()).unwrap();
            gate.results.lock().recv().unwrap()
        });
        match result {
            WriteResult::Pass => self.inner.write_at(offset, bytes),
            WriteResult::Fail => Err(io::Error::other("the medium failed")),
            WriteResult::Full => Err(io::ErrorKind::StorageFull.into()),
            WriteResult::Panic => panic!("the disk has panicked, as the test requests"),
        }
    }

    fn allocate(&self, size: u64) -> io::Result<()> {
        self.inner.allocate(size)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }
}

impl Fixture {
    fn new() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let (begin, begun) = sync_channel(PLENTY);
        let (results, waiting) = sync_channel(PLENTY);
        let (open_sender, opened) = sync_channel(PLENTY);
        let disk = GatedDisk {
            begun: begin,
            results: Arc::new(Mutex::new(waiting)),
        };
        let mut config = Config::new(Arc::new(move || {
            open_sender.send(()).ok();
            1
        }));
        config.ticks = Arc::new(|| 0);
        let store = Store::open_on(Arc::new(disk), dir.path(), config).unwrap();
        Fixture {
            dir,
            store,
            begun,
            results,
            opened,
        }
    }

    /// Submits a put of `key`, which waits for its write.
    fn put(&self, key: &'static str, compares: Vec<Compare>) -> Commit {
        let mut commit = self.commit(key, compares);
        assert!(is_pending(&mut commit));
        commit
    }

    /// A put of `key` that was not polled yet.
    fn commit(&self, key: &'static str, compares: Vec<Compare>) -> Commit {
        let put = Put {
            key: Bytes::from_static(key.as_bytes()),
            ..Put::default()
        };
        let store = self.store.clone();
        let ops = vec![Op::Put(put)];
        Box::pin(async move { store.commit(Txn { compares, ops }).await })
    }

    /// One commit that is being written, and one that was evaluated on top of it.
    fn two_in_flight(&self) -> (Commit, Commit) {
        let first = self.put("first", vec![]);
        self.opened.recv().unwrap();
        self.begun.recv().unwrap();
        let second = self.put("second", vec![]);
        self.opened.recv().unwrap();
        (first, second)
    }
}

fn is_pending(commit: &mut Commit) -> bool {
    matches!(
        commit.as_mut().poll(&mut Context::from_waker(Waker::noop())),
        Poll::Pending
    )
}

#[track_caller]
fn check_revision(commit: Commit, revision: u64) {
    assert_eq!(wait(commit).unwrap().revision, Revision::new(revision));
}

#[track_caller]
fn check_read_only(commit: Commit) {
    let error = wait(commit).unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
}

#[test]
fn nothing_is_visible_or_returned_before_its_own_write() {
    let fixture = Fixture::new();
    let mut watcher = fixture.store.watch(b"", Revision::ZERO).unwrap();
    let (mut first, mut second) = fixture.two_in_flight();
    assert!(is_pending(&mut first) && is_pending(&mut second));
    assert_eq!(fixture.store.revision(), Revision::ZERO);
    assert!(watcher.try_next().unwrap().is_none());
    fixture.results.send(WriteResult::Pass).unwrap();
    check_revision(first, 1);
    fixture.begun.recv().unwrap();
    assert!(is_pending(&mut second));
    assert_eq!(fixture.store.revision(), Revision::new(1));
    assert_eq!(watcher.try_next().unwrap().unwrap().revision, Revision::new(1));
    fixture.results.send(WriteResult::Pass).unwrap();
    check_revision(second, 2);
    assert_eq!(watcher.try_next().unwrap().unwrap().revision, Revision::new(2));
}

#[test]
fn a_failed_compare_waits_for_the_write_it_is_based_on() {
    let fixture = Fixture::new();
    let first = fixture.put("key", vec![]);
    fixture.begun.recv().unwrap();
    let absent = Compare::Absent {
        key: Bytes::from_static(b"key"),
    };
    let mut rejected = fixture.put("other", vec![absent]);
    fixture.opened.recv().unwrap();
    fixture.opened.recv().unwrap();
    assert!(is_pending(&mut rejected));
    fixture.results.send(WriteResult::Pass).unwrap();
    check_revision(first, 1);
    assert!(matches!(
        wait(rejected),
        Err(Error::Precondition { index: 0, current: Some(record) }) if record.modified == Revision::new(1)
    ));
}

#[test]
fn what_arrives_during_a_write_shares_the_next_one() {
    let fixture = Fixture::new();
    let (first, second) = fixture.two_in_flight();
    let more = ["a", "b", "c", "d"].map(|key| fixture.put(key, vec![]));
    fixture.results.send(WriteResult::Pass).unwrap();
    fixture.results.send(WriteResult::Pass).unwrap();
    check_revision(first, 1);
    check_revision(second, 2);
    for (commit, revision) in more.into_iter().zip(3..) {
        check_revision(commit, revision);
    }
    assert_eq!(fixture.store.metrics().syncs, 2);
}

#[test]
fn a_failed_write_fails_what_was_evaluated_on_top_of_it() {
    let fixture = Fixture::new();
    let mut watcher = fixture.store.watch(b"", Revision::ZERO).unwrap();
    let (first, second) = fixture.two_in_flight();
    let absent = Compare::Absent {
        key: Bytes::from_static(b"first"),
    };
    let third = fixture.put("third", vec![absent]);
    fixture.results.send(WriteResult::Fail).unwrap();
    assert!(matches!(wait(first), Err(Error::Io { .. })));
    check_read_only(second);
    check_read_only(third);
    check_read_only(fixture.commit("later", vec![]));
    assert_eq!(fixture.store.revision(), Revision::ZERO);
    assert!(fixture.store.snapshot().is_empty());
    assert!(watcher.try_next().unwrap().is_none());
    let Fixture {
        dir, store, begun, ..
    } = fixture;
    assert!(
        begun.try_recv().is_err(),
        "nothing is written after a failed write"
    );
    drop(store);
    assert_eq!(open(dir.path()).unwrap().revision(), Revision::ZERO);
}

#[test]
fn what_was_evaluated_on_top_of_a_batch_without_space_fails_with_it() {
    let fixture = Fixture::new();
    let mut watcher = fixture.store.watch(b"", Revision::ZERO).unwrap();
    let (first, second) = fixture.two_in_flight();
    let absent = |key| Compare::Absent {
        key: Bytes::from_static(key),
    };
    let third = fixture.put("third", vec![absent(b"first")]);
    fixture.results.send(WriteResult::Full).unwrap();
    for commit in [first, second, third] {
        assert!(matches!(wait(commit), Err(Error::NoSpace { .. })));
    }
    assert!(matches!(
        wait(fixture.commit("later", vec![])),
        Err(Error::NoSpace { .. })
    ));
    assert!(watcher.try_next().unwrap().is_none());
    assert!(!wait(fixture.store.maintain()).unwrap().full);
    let again = fixture.put("again", vec![absent(b"first"), absent(b"third")]);
    fixture.results.send(WriteResult::Pass).unwrap();
    check_revision(again, 1);
    assert_eq!(watcher.try_next().unwrap().unwrap().events.len(), 1);
    let Fixture { dir, store, .. } = fixture;
    drop(store);
    let reopened = open(dir.path()).unwrap();
    assert_eq!(reopened.revision(), Revision::new(1));
    assert!(reopened.snapshot().get(b"again").is_some());
}

#[test]
fn a_close_completes_every_commit_in_flight() {
    let fixture = Fixture::new();
    let (first, second) = fixture.two_in_flight();
    let third = fixture.put("third", vec![]);
    let store = fixture.store.clone();
    let mut close = Box::pin(store.close());
    let pending = close.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(pending.is_pending());
    let rejected = wait(fixture.store.commit(Txn::default())).unwrap_err();
    assert!(matches!(rejected, Error::Closed));
    fixture.results.send(WriteResult::Pass).unwrap();
    fixture.results.send(WriteResult::Pass).unwrap();
    wait(close).unwrap();
    check_revision(first, 1);
    check_revision(second, 2);
    check_revision(third, 3);
    let Fixture { dir, store, .. } = fixture;
    drop(store);
    assert_eq!(open(dir.path()).unwrap().revision(), Revision::new(3));
}

#[test]
fn a_panic_in_the_middle_of_a_write_closes_the_store() {
    let fixture = Fixture::new();
    let mut watcher = fixture.store.watch(b"", Revision::ZERO).unwrap();
    let (first, second) = fixture.two_in_flight();
    fixture.results.send(WriteResult::Panic).unwrap();
    for commit in [first, second] {
        assert!(matches!(wait(commit), Err(Error::Closed)));
    }
    assert!(matches!(wait(watcher.next()), Err(Error::Closed)));
    assert!(matches!(
        wait(fixture.store.commit(Txn::default())),
        Err(Error::Closed)
    ));
    let Fixture {
        dir, store, begun, ..
    } = fixture;
    assert!(begun.try_recv().is_err(), "nothing is written after a panic");
    drop(store);
    assert_eq!(open(dir.path()).unwrap().revision(), Revision::ZERO);
}
