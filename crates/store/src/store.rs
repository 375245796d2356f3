//! [`Store`], the handle: every operation of a store, and which component executes it.

use std::{ops::Range, path::Path, sync::Arc};

use bytes::Bytes;

use crate::{
    BackupReport, Config, Error, Metrics, RemoteLog, Replica, Revision, Snapshot, TruncateReport, Txn,
    TxnResponse, ValueTransformer, VerifyReport, Watcher,
    commit::CommitPath,
    head::Head,
    log::{
        file::{
            self, OpenedDir,
            compactor::Compactor,
            disk::Disk,
            snapshot_file::{self, Source},
        },
        memory::MemoryLog,
    },
    remote::propose::Proposer,
    shared::Shared,
    value_transformer,
    workers::Workers,
};

/// Handle of a store; clones share it. Dropping the last one closes the store cleanly.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

/// Components of one store. They are dropped in this order: the commit path completes every accepted commit and
/// stops, then the workers stop, then the compactor releases the directory.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) commit_path: CommitPath,
    pub(crate) workers: Workers,
    /// Compacts the log, if the store has files.
    pub(crate) compactor: Option<Compactor>,
    pub(crate) shared: Arc<Shared>,
    /// Seals the values of transactions, if the store has files and is to seal any.
    pub(crate) sealer: Option<Arc<dyn ValueTransformer>>,
}

impl Store {
    /// An empty store in memory, without files.
    pub fn memory(config: Config) -> Store {
        Store::in_memory(config, Arc::new(Head::default()))
    }

    /// Opens the store in `dir`, or creates one there.
    pub fn open(dir: &Path, config: Config) -> Result<Store, Error> {
        Store::open_on(Arc::new(file::disk::RealDisk), dir, config)
    }

    pub(crate) fn open_on(disk: Arc<dyn Disk>, dir: &Path, config: Config) -> Result<Store, Error> {
        let OpenedDir {
            shared,
            log,
            compactor,
        } = file::open(disk, dir, config)?;
        let commit_path = CommitPath::sequenced(&shared, Box::new(log))?;
        Ok(Store::new(commit_path, Some(compactor), shared))
    }

    /// A store whose log a remote cluster stores. `start` is given the replica, which the engine fills before anything is
    /// read from the store.
    pub fn replicated(
        config: Config,
        start: impl FnOnce(Arc<Replica>) -> Result<Arc<dyn RemoteLog>, Error>,
    ) -> Result<Store, Error> {
        let shared = Shared::new(config, Arc::new(Head::default()));
        let replica = Arc::new(Replica::new(shared.clone()));
        let remote = start(replica.clone())?;
        let commit_path = CommitPath::Replicated(Proposer::new(shared.clone(), replica, remote));
        Ok(Store::new(commit_path, None, shared))
    }

    /// Whether other servers write to the same log, so that this store may lag behind it.
    pub fn is_replica(&self) -> bool {
        matches!(self.inner.commit_path, CommitPath::Replicated(_))
    }

    /// A revision that is not below that of any write that was acknowledged before this call, by any server. The store
    /// may not have reached it. At once if no other process writes to its log.
    pub async fn confirmed_revision(&self) -> Result<Revision, Error> {
        match &self.inner.commit_path {
            CommitPath::Replicated(proposer) => proposer.confirmed_revision().await,
            _ => Ok(self.revision()),
        }
    }

    /// Waits until the store shows every write that was acknowledged before this call, by any server, and returns a
    /// revision at which it does. At once if no other process writes to its log.
    pub async fn confirm(&self) -> Result<Revision, Error> {
        match &self.inner.commit_path {
            CommitPath::Replicated(proposer) => proposer.confirm().await,
            _ => Ok(self.revision()),
        }
    }

    /// The newest published revision.
    pub fn revision(&self) -> Revision {
        self.inner.shared.head().revision
    }

    /// The oldest revision that can still be read; reads below it fail.
    pub fn compacted(&self) -> Revision {
        self.inner.shared.head().compacted
    }

    /// Whether the store accepts writes: after a failed one it is read-only, and the error names the failure. A store on
    /// a cluster accepts them again once the cluster does.
    pub fn check_writable(&self) -> Result<(), Error> {
        match &self.inner.commit_path {
            CommitPath::Replicated(proposer) => proposer.check_health(),
            _ => self.inner.shared.check_writable(),
        }
    }

    /// Whether there is space for writes: while the disk is full, all but deletes fail, and the error names the cause.
    pub fn check_space(&self) -> Result<(), Error> {
        self.inner.shared.space.check_free()
    }

    /// Resolves once the disk has become full, so that the caller can run maintenance early. One caller is notified.
    pub async fn became_full(&self) {
        self.inner.shared.space.became_full().await;
    }

    /// Commits `txn`, or fails with the first compare that does not hold. Resolves once the change is durable and
    /// visible to every reader. Dropping the future does not roll the transaction back.
    pub async fn commit(&self, txn: Txn) -> Result<TxnResponse, Error> {
        if let Some(sealer) = &self.inner.sealer {
            return self.commit_sealed(&**sealer, txn).await;
        }
        txn.validate(self.inner.shared.config.max_txn_bytes)?;
        self.inner.commit_path.commit(txn).await
    }

    /// Whether the stored value of a key should be written again although it has not changed, because it is to be
    /// encrypted otherwise; see [`crate::ValueTransformer::current_seal`].
    pub fn is_stale(&self, key: &[u8]) -> bool {
        !self.inner.commit_path.is_inline() && self.inner.shared.is_stale(key)
    }

    /// The newest map. Never blocks, and never blocks a writer.
    pub fn snapshot(&self) -> Snapshot {
        self.inner.shared.snapshot()
    }

    /// The map as it was at `revision`. Costs one step per change between it and the next checkpoint.
    pub fn snapshot_at(&self, revision: Revision) -> Result<Snapshot, Error> {
        self.inner.shared.snapshot_at(revision)
    }

    /// Watches the keys under `prefix`: delivers each change with a revision above `after`, once, in order.
    pub fn watch(&self, prefix: &[u8], after: Revision) -> Result<Watcher, Error> {
        Watcher::new(self.inner.shared.clone(), prefix, after)
    }

    /// A store in memory that starts with the map and history of this one and then diverges. Both share what they
    /// have in common, so a fork is cheap.
    pub fn fork(&self) -> Store {
        let shared = &self.inner.shared;
        Store::in_memory(shared.config.clone(), shared.head_arc())
    }

    /// Writes the newest map to `file`, without blocking writers. Its values are sealed as those of the store.
    pub async fn backup(&self, file: &Path) -> Result<BackupReport, Error> {
        let transformer = self.inner.shared.config.transformer.clone();
        self.backup_with(file, transformer).await
    }

    /// Writes the newest map to `file`, with its values sealed by `transformer`.
    pub async fn backup_with(
        &self,
        file: &Path,
        transformer: Option<Arc<dyn ValueTransformer>>,
    ) -> Result<BackupReport, Error> {
        let (snapshot, file) = (self.snapshot(), file.to_owned());
        let job = move |stop| {
            let source = Source {
                snapshot: &snapshot,
                transformer: transformer.as_deref(),
            };
            let written = snapshot_file::write(&file::disk::RealDisk, &file, &source, &stop)?;
            Ok(written.0)
        };
        self.inner.workers.run(job).await
    }

    /// The map of the backup `file`, as a store in memory.
    pub fn open_backup(file: &Path, config: Config) -> Result<Store, Error> {
        let head = file::restore::read(file, &config)?;
        Ok(Store::in_memory(config, Arc::new(head)))
    }

    /// Creates a store in `dir` from the backup `file`. Fails if the directory is not empty.
    pub fn restore(file: &Path, dir: &Path) -> Result<BackupReport, Error> {
        file::restore::restore(file, dir)
    }

    /// Reads and checks every stored byte of the stopped store in `dir`. Changes nothing.
    pub fn verify(dir: &Path) -> Result<VerifyReport, Error> {
        file::verify::verify(dir)
    }

    /// Gives up the damaged end of the log of the stopped store in `dir`, and with it acknowledged revisions.
    pub fn truncate(dir: &Path) -> Result<TruncateReport, Error> {
        file::truncate::truncate(dir)
    }

    /// The engine's keys whose values the codec cannot decode, with the reason. The map has their last decodable values.
    pub fn undecodable_keys(&self) -> Vec<(Bytes, String)> {
        let undecodable = self.inner.shared.undecodable.lock();
        let entries = undecodable.iter();
        entries
            .map(|(key, undecodable)| (key.clone(), undecodable.reason.clone()))
            .collect()
    }

    /// Fails if the engine has a value of this key that the codec cannot decode. Without a record such a key looks absent,
    /// and is not.
    pub fn check_decodable(&self, key: &[u8]) -> Result<(), Error> {
        self.inner.shared.check_decodable(key)
    }

    /// Fails if the engine has a value that the codec cannot decode under any key of a range, and there is no record of
    /// that key: a list of the range would lack it.
    pub fn check_range_decodable(&self, range: Range<&[u8]>) -> Result<(), Error> {
        self.inner.shared.check_range_decodable(range)
    }

    /// The current metrics.
    pub fn metrics(&self) -> Metrics {
        self.inner.shared.metrics()
    }

    /// Closes the store for all its handles, after every accepted commit has completed. Its directory may be
    /// opened again once this resolves and the last handle is dropped.
    pub async fn close(self) -> Result<(), Error> {
        self.inner.commit_path.close().await
    }

    async fn commit_sealed(&self, sealer: &dyn ValueTransformer, mut txn: Txn) -> Result<TxnResponse, Error> {
        value_transformer::seal(sealer, &mut txn)?;
        txn.validate(self.inner.shared.config.max_txn_bytes)?;
        self.inner.commit_path.commit(txn).await
    }

    fn in_memory(config: Config, head: Arc<Head>) -> Store {
        let shared = Shared::new(config, head);
        let commit_path = CommitPath::inline(&shared, Box::new(MemoryLog));
        Store::new(commit_path, None, shared)
    }

    fn new(commit_path: CommitPath, compactor: Option<Compactor>, shared: Arc<Shared>) -> Store {
        let transformer = shared.config.transformer.clone();
        let inner = Inner {
            sealer: transformer.filter(|transformer| compactor.is_some() && transformer.is_active()),
            commit_path,
            workers: Workers::default(),
            compactor,
            shared,
        };
        Store {
            inner: Arc::new(inner),
        }
    }
}
