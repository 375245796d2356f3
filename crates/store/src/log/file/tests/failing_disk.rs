//! Disk faults: the batch fails, the store becomes read-only, and no acknowledged commit is lost. A full disk is a fault
//! that ends: see `full_disk.rs`.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
};

use super::*;
use crate::log::file::disk::{Disk, DiskFile, Mode, RealDisk};

/// How a write fails.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// Nothing is written: no space is left.
    Full,
    /// Everything is written, and then no space is left.
    FullAfter,
    /// Everything is written, but the medium reports an error.
    Sync,
    /// A part is written.
    Short(usize),
    /// No file can be opened: too many are open.
    NoFiles,
}

/// A disk whose writes to files of one mode fail after a number of them.
#[derive(Debug)]
pub(super) struct FailingDisk {
    fault: Fault,
    mode: Mode,
    pub(super) left: Arc<AtomicI64>,
}

#[derive(Debug)]
struct FailingFile {
    inner: Box<dyn DiskFile>,
    fault: Option<Fault>,
    left: Arc<AtomicI64>,
}

impl FailingDisk {
    pub(super) fn new(fault: Fault, mode: Mode, writes: i64) -> Arc<FailingDisk> {
        let left = Arc::new(AtomicI64::new(writes));
        Arc::new(FailingDisk { fault, mode, left })
    }
}

impl Disk for FailingDisk {
    fn open(&self, path: &Path, mode: Mode) -> io::Result<Box<dyn DiskFile>> {
        let is_failing = mode == self.mode && matches!(self.fault, Fault::NoFiles);
        if is_failing && self.left.fetch_sub(1, SeqCst) <= 0 {
            return Err(rustix::io::Errno::MFILE.into());
        }
        // A part of a block can be written through the page cache only.
        let inner = match mode {
            Mode::Durable => RealDisk.open(path, Mode::Cached)?,
            mode => RealDisk.open(path, mode)?,
        };
        Ok(Box::new(FailingFile {
            inner,
            fault: (mode == self.mode && !is_failing).then_some(self.fault),
            left: self.left.clone(),
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

impl DiskFile for FailingFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let fault = self.fault.filter(|_| self.left.fetch_sub(1, SeqCst) <= 0);
        match fault {
            None => self.inner.write_at(offset, bytes),
            Some(Fault::Full) => Err(io::Error::from(io::ErrorKind::StorageFull)),
            Some(Fault::FullAfter) => {
                self.inner.write_at(offset, bytes)?;
                Err(io::Error::from(io::ErrorKind::StorageFull))
            }
            Some(Fault::Sync) => {
                self.inner.write_at(offset, bytes)?;
                Err(io::Error::other("the medium failed"))
            }
            Some(Fault::NoFiles) => unreachable!("a file that is open can be written"),
            Some(Fault::Short(length)) => self.inner.write_at(offset, &bytes[..length]),
        }
    }

    fn allocate(&self, size: u64) -> io::Result<()> {
        self.inner.allocate(size)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }
}

/// Lets five writes pass, then fails; returns how many commits a reopened store holds.
#[track_caller]
fn check_stops(fault: Fault, message: &str) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let disk = FailingDisk::new(fault, Mode::Durable, 5);
    let sync = Config {
        durability: Durability::Sync,
        ..config()
    };
    let store = Store::open_on(disk, dir.path(), sync).unwrap();
    let mut watcher = store.watch(b"", Revision::ZERO).unwrap();
    for n in 1..=5 {
        put(&store, &format!("k{n:04}"), b"value").unwrap();
    }
    assert!(store.check_writable().is_ok());
    let first = put(&store, "k0006", b"value").unwrap_err();
    assert!(first.to_string().contains(message), "{first}");
    assert!(matches!(store.check_writable(), Err(Error::ReadOnly { .. })));
    let later = put(&store, "k0007", b"value").unwrap_err();
    assert!(matches!(&later, Error::ReadOnly { cause } if cause.to_string() == first.to_string()));
    assert!(matches!(
        wait(store.compact(Revision::new(2))),
        Err(Error::ReadOnly { .. })
    ));
    check_holds(&store.snapshot(), 5);
    assert_eq!(watcher.try_next().unwrap().unwrap().revision, Revision::new(5));
    drop(store);
    let reopened = open(dir.path()).unwrap();
    let held = reopened.revision().get();
    check_holds(&reopened.snapshot(), held);
    assert_eq!(put(&reopened, "again", b"").unwrap().get(), held + 1);
    held
}

#[test]
fn a_failed_sync_is_not_tried_again() {
    let held = check_stops(Fault::Sync, "the medium failed");
    assert!(
        held == 5 || held == 6,
        "an unacknowledged commit may appear, nothing else: {held}"
    );
}

#[test]
fn a_short_write_is_a_failed_write() {
    for length in [0, 1, 31, 32, 100, 512] {
        let held = check_stops(Fault::Short(length), "bytes were written");
        assert!(held == 5 || held == 6, "after {length} bytes: {held}");
    }
}

#[test]
fn a_failed_snapshot_file_affects_no_commit() {
    for (fault, fails) in [(Fault::Full, false), (Fault::Sync, true)] {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), config()).unwrap();
        put(&store, "k0001", b"value").unwrap();
        drop(store);
        let disk = FailingDisk::new(fault, Mode::New, 0);
        let eager = Config {
            snapshot_file_after_bytes: 1,
            ..config()
        };
        let store = Store::open_on(disk, dir.path(), eager).unwrap();
        put(&store, "k0002", b"value").unwrap();
        for _ in 0..3 {
            assert_eq!(matches!(wait(store.maintain()), Err(Error::Io { .. })), fails);
        }
        assert!(layout::list(dir.path()).unwrap().snapshot_files.is_empty());
        put(&store, "k0003", b"value").unwrap();
        drop(store);
        check_holds(&open(dir.path()).unwrap().snapshot(), 3);
    }
}
