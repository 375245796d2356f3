//! Batches on their way: one is being written while the next is decided on top of it. Every write waits here
//! until the test says what becomes of it.

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
    Committed, Compare,
    log::file::disk::{Disk, DiskFile, Mode, RealDisk},
};

/// What becomes of a write.
#[derive(Clone, Copy, Debug)]
enum Verdict {
    Pass,
    Fail,
    Panic,
}

/// A disk whose durable writes say that they have begun, and then wait for their verdict.
#[derive(Clone, Debug)]
struct GatedDisk {
    begun: SyncSender<()>,
    verdicts: Arc<Mutex<Receiver<Verdict>>>,
}

#[derive(Debug)]
struct GatedFile {
    inner: Box<dyn DiskFile>,
    gate: Option<GatedDisk>,
}

/// A store on such a disk, and the test's end of it.
struct Scene {
    dir: tempfile::TempDir,
    store: Store,
    begun: Receiver<()>,
    verdicts: SyncSender<Verdict>,
    /// Rings whenever the deciding of a batch begins.
    deciding: Receiver<()>,
}

type Commit = Pin<Box<dyn Future<Output = Result<Committed, Error>>>>;

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

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.sync_dir(dir)
    }
}

impl DiskFile for GatedFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let verdict = self.gate.as_ref().map_or(Verdict::Pass, |gate| {
            gate.begun.send(()).unwrap();
            gate.verdicts.lock().recv().unwrap()
        });
        match verdict {
            Verdict::Pass => self.inner.write_at(offset, bytes),
            Verdict::Fail => Err(io::Error::other("the medium failed")),
            Verdict::Panic => panic!("the disk has panicked, as the test asks"),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }
}

impl Scene {
    fn new() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let (begin, begun) = sync_channel(PLENTY);
        let (verdicts, waiting) = sync_channel(PLENTY);
        let (decide, deciding) = sync_channel(PLENTY);
        let disk = GatedDisk {
            begun: begin,
            verdicts: Arc::new(Mutex::new(waiting)),
        };
        let mut config = Config::new(Arc::new(move || {
            decide.send(()).ok();
            1
        }));
        config.ticks = Arc::new(|| 0);
        let store = Store::open_on(Arc::new(disk), dir.path(), config).unwrap();
        Scene {
            dir,
            store,
            begun,
            verdicts,
            deciding,
        }
    }

    /// Queues a put of `key`, which has to wait for a write.
    fn put(&self, key: &'static str, compares: Vec<Compare>) -> Commit {
        let mut commit = self.commit(key, compares);
        assert!(is_pending(&mut commit));
        commit
    }

    /// A put of `key` that nobody has waited for yet.
    fn commit(&self, key: &'static str, compares: Vec<Compare>) -> Commit {
        let put = Put {
            key: Bytes::from_static(key.as_bytes()),
            ..Put::default()
        };
        let store = self.store.clone();
        let ops = vec![Op::Put(put)];
        Box::pin(async move { store.commit(Txn { compares, ops }).await })
    }

    /// One commit that is being written, and one that is being decided on top of it.
    fn two_on_their_way(&self) -> (Commit, Commit) {
        let first = self.put("first", vec![]);
        self.deciding.recv().unwrap();
        self.begun.recv().unwrap();
        let second = self.put("second", vec![]);
        self.deciding.recv().unwrap();
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
fn nothing_is_seen_or_answered_before_its_own_write() {
    let scene = Scene::new();
    let mut watcher = scene.store.watch(b"", Revision::ZERO).unwrap();
    let (mut first, mut second) = scene.two_on_their_way();
    assert!(is_pending(&mut first) && is_pending(&mut second));
    assert_eq!(scene.store.revision(), Revision::ZERO);
    assert!(watcher.try_next().unwrap().is_none());
    scene.verdicts.send(Verdict::Pass).unwrap();
    check_revision(first, 1);
    scene.begun.recv().unwrap();
    assert!(is_pending(&mut second));
    assert_eq!(scene.store.revision(), Revision::new(1));
    assert_eq!(watcher.try_next().unwrap().unwrap().revision, Revision::new(1));
    scene.verdicts.send(Verdict::Pass).unwrap();
    check_revision(second, 2);
    assert_eq!(watcher.try_next().unwrap().unwrap().revision, Revision::new(2));
}

#[test]
fn a_refusal_waits_for_the_write_it_rests_on() {
    let scene = Scene::new();
    let first = scene.put("key", vec![]);
    scene.begun.recv().unwrap();
    let absent = Compare::Absent {
        key: Bytes::from_static(b"key"),
    };
    let mut refused = scene.put("other", vec![absent]);
    scene.deciding.recv().unwrap();
    scene.deciding.recv().unwrap();
    assert!(is_pending(&mut refused));
    scene.verdicts.send(Verdict::Pass).unwrap();
    check_revision(first, 1);
    assert!(matches!(
        wait(refused),
        Err(Error::Precondition { index: 0, current: Some(record) }) if record.modified == Revision::new(1)
    ));
}

#[test]
fn what_arrives_during_a_write_shares_the_next_one() {
    let scene = Scene::new();
    let (first, second) = scene.two_on_their_way();
    let more = ["a", "b", "c", "d"].map(|key| scene.put(key, vec![]));
    scene.verdicts.send(Verdict::Pass).unwrap();
    scene.verdicts.send(Verdict::Pass).unwrap();
    check_revision(first, 1);
    check_revision(second, 2);
    for (commit, revision) in more.into_iter().zip(3..) {
        check_revision(commit, revision);
    }
    assert_eq!(scene.store.metrics().syncs, 2);
}

#[test]
fn a_failed_write_takes_along_what_was_decided_on_top_of_it() {
    let scene = Scene::new();
    let mut watcher = scene.store.watch(b"", Revision::ZERO).unwrap();
    let (first, second) = scene.two_on_their_way();
    let absent = Compare::Absent {
        key: Bytes::from_static(b"first"),
    };
    let third = scene.put("third", vec![absent]);
    scene.verdicts.send(Verdict::Fail).unwrap();
    assert!(matches!(wait(first), Err(Error::Io { .. })));
    check_read_only(second);
    check_read_only(third);
    check_read_only(scene.commit("later", vec![]));
    assert_eq!(scene.store.revision(), Revision::ZERO);
    assert!(scene.store.snapshot().is_empty());
    assert!(watcher.try_next().unwrap().is_none());
    let Scene {
        dir, store, begun, ..
    } = scene;
    assert!(
        begun.try_recv().is_err(),
        "nothing is written after a failed write"
    );
    drop(store);
    assert_eq!(open(dir.path()).unwrap().revision(), Revision::ZERO);
}

#[test]
fn a_close_lets_everything_on_its_way_arrive() {
    let scene = Scene::new();
    let (first, second) = scene.two_on_their_way();
    let third = scene.put("third", vec![]);
    let store = scene.store.clone();
    let mut close = Box::pin(store.close());
    let pending = close.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(pending.is_pending());
    let refused = wait(scene.store.commit(Txn::default())).unwrap_err();
    assert!(matches!(refused, Error::Closed));
    scene.verdicts.send(Verdict::Pass).unwrap();
    scene.verdicts.send(Verdict::Pass).unwrap();
    wait(close).unwrap();
    check_revision(first, 1);
    check_revision(second, 2);
    check_revision(third, 3);
    let Scene { dir, store, .. } = scene;
    drop(store);
    assert_eq!(open(dir.path()).unwrap().revision(), Revision::new(3));
}

#[test]
fn a_panic_in_the_middle_of_a_write_closes_the_store() {
    let scene = Scene::new();
    let mut watcher = scene.store.watch(b"", Revision::ZERO).unwrap();
    let (first, second) = scene.two_on_their_way();
    scene.verdicts.send(Verdict::Panic).unwrap();
    for commit in [first, second] {
        assert!(matches!(wait(commit), Err(Error::Closed)));
    }
    assert!(matches!(wait(watcher.next()), Err(Error::Closed)));
    assert!(matches!(
        wait(scene.store.commit(Txn::default())),
        Err(Error::Closed)
    ));
    let Scene {
        dir, store, begun, ..
    } = scene;
    assert!(begun.try_recv().is_err(), "nothing is written after a panic");
    drop(store);
    assert_eq!(open(dir.path()).unwrap().revision(), Revision::ZERO);
}
