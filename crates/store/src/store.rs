//! The handle: everything a caller can do with a store, and which part does it.

use std::{path::Path, sync::Arc};

use crate::{
    BackupReport, Committed, Config, Error, Metrics, Revision, Snapshot, Txn, VerifyReport, Watcher,
    head::Head,
    image,
    log::{
        file::{self, disk::Disk, keeper::Keeper},
        memory::MemoryLog,
    },
    sequencer::Lane,
    shared::Shared,
    stages,
    workers::Workers,
};

/// A handle of a store; clones share it. Dropping the last one closes it cleanly.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

/// The parts of one store. They are dropped in this order: the lane finishes what was asked and stops, then
/// the workers stop, then the keeper lets go of the directory.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) lane: Lane,
    pub(crate) workers: Workers,
    /// Looks after the files, if there are any.
    pub(crate) keeper: Option<Keeper>,
    pub(crate) shared: Arc<Shared>,
}

impl Store {
    /// An empty store that lives as long as its handles.
    pub fn memory(config: Config) -> Store {
        Store::in_memory(config, Arc::new(Head::default()))
    }

    /// Opens the store in `dir`, or makes a new one there.
    pub fn open(dir: &Path, config: Config) -> Result<Store, Error> {
        Store::open_on(Arc::new(file::disk::RealDisk), dir, config)
    }

    pub(crate) fn open_on(disk: Arc<dyn Disk>, dir: &Path, config: Config) -> Result<Store, Error> {
        let opened = file::open(disk, dir, &config)?;
        let shared = Shared::new(config, Arc::new(opened.head));
        let log = file::FileLog::start(opened.position, shared.clone())?;
        let (deciding, keeping) = stages::stages(&shared, Box::new(log));
        let inner = Inner {
            lane: Lane::thread(deciding, keeping)?,
            workers: Workers::default(),
            keeper: Some(opened.keeper),
            shared,
        };
        Ok(Store {
            inner: Arc::new(inner),
        })
    }

    /// The newest published revision.
    pub fn revision(&self) -> Revision {
        self.inner.shared.head().revision
    }

    /// The oldest revision that can still be read; reads below it fail.
    pub fn compacted(&self) -> Revision {
        self.inner.shared.head().compacted
    }

    /// Whether the store still takes writes: after a failed one it says which, and only reads.
    pub fn check_writable(&self) -> Result<(), Error> {
        self.inner.shared.check_writable()
    }

    /// Commits `txn`, or says which compare did not hold. Resolves once the change is durable and every
    /// reader can see it. Dropping the future does not take the transaction back.
    pub async fn commit(&self, txn: Txn) -> Result<Committed, Error> {
        txn.validate(self.inner.shared.config.max_txn_bytes)?;
        self.inner.lane.commit(txn).await
    }

    /// The map as it is now. Never waits, never makes a writer wait.
    pub fn snapshot(&self) -> Snapshot {
        self.inner.shared.snapshot()
    }

    /// The map as it was at `revision`. Costs one step per change since then, or since the nearest
    /// checkpoint.
    pub fn snapshot_at(&self, revision: Revision) -> Result<Snapshot, Error> {
        self.inner.shared.snapshot_at(revision)
    }

    /// Every change of a key under `prefix` with a revision above `after`, once, in order.
    pub fn watch(&self, prefix: &[u8], after: Revision) -> Result<Watcher, Error> {
        Watcher::new(self.inner.shared.clone(), prefix, after)
    }

    /// A store in memory that starts as this one is now, past included, and then goes its own way. It
    /// shares what both have in common, so it costs nothing to make.
    pub fn fork(&self) -> Store {
        let shared = &self.inner.shared;
        Store::in_memory(shared.config.clone(), shared.head_arc())
    }

    /// Writes the map of one revision to `file`, while the store goes on.
    pub async fn backup(&self, file: &Path) -> Result<BackupReport, Error> {
        let snapshot = self.snapshot();
        let file = file.to_owned();
        let job = move |stop| image::write(&file::disk::RealDisk, &file, &snapshot, &stop);
        self.inner.workers.run(job).await
    }

    /// Makes `dir` a store that holds what `file`, a backup, holds. Refuses a directory that is not empty.
    pub fn restore(file: &Path, dir: &Path) -> Result<BackupReport, Error> {
        file::restore::restore(file, dir)
    }

    /// Reads every stored byte of the stopped store in `dir` and checks it. Changes nothing.
    pub fn verify(dir: &Path) -> Result<VerifyReport, Error> {
        file::verify::verify(dir)
    }

    /// What the store has counted so far.
    pub fn metrics(&self) -> Metrics {
        self.inner.shared.metrics()
    }

    /// Closes the store for all its handles, after everything that was asked before. Its directory may be
    /// opened again once this resolves and the last handle is gone.
    pub async fn close(self) -> Result<(), Error> {
        self.inner.lane.close().await
    }

    fn in_memory(config: Config, head: Arc<Head>) -> Store {
        let shared = Shared::new(config, head);
        let (deciding, keeping) = stages::stages(&shared, Box::new(MemoryLog));
        let inner = Inner {
            lane: Lane::inline(deciding, keeping),
            workers: Workers::default(),
            keeper: None,
            shared,
        };
        Store {
            inner: Arc::new(inner),
        }
    }
}
