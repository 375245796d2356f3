//! Log compaction: writes snapshot files, and removes or recycles the segments they cover.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire, Ordering::Release},
    },
};

use crate::{
    Error, Revision,
    log::file::{
        disk::Disk,
        layout,
        lock::DirLock,
        snapshot_file::{self, ResealedKeys, Source},
    },
    workers::StopFlag,
};

/// Compacts the log of one directory. Clones share the permit, so that one compaction runs at a time.
#[derive(Clone, Debug)]
pub(crate) struct Compactor {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    segment_bytes: u64,
    busy: Arc<AtomicBool>,
    _lock: Arc<DirLock>,
}

/// Permission to write a snapshot file; held by one run at a time, released on drop.
#[derive(Debug)]
pub(crate) struct CompactionPermit(Arc<AtomicBool>);

/// How many released segments are recycled instead of removed: one may be filled while another is written.
const SPARE_SEGMENTS: usize = 2;

impl Compactor {
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: &Path, segment_bytes: u64, lock: Arc<DirLock>) -> Compactor {
        Compactor {
            disk,
            dir: dir.to_owned(),
            segment_bytes,
            busy: Arc::default(),
            _lock: lock,
        }
    }

    /// The permit, unless another run holds it.
    pub(crate) fn try_acquire(&self) -> Option<CompactionPermit> {
        let free = self.busy.compare_exchange(false, true, AcqRel, Acquire);
        free.ok().map(|_| CompactionPermit(self.busy.clone()))
    }

    pub(crate) fn write_snapshot_file(
        &self,
        source: &Source<'_>,
        stop: &StopFlag,
    ) -> Result<ResealedKeys, Error> {
        let path = layout::snapshot_file(&self.dir, source.snapshot.revision());
        snapshot_file::write(&*self.disk, &path, source, stop).map(|(_, resealed)| resealed)
    }

    /// Recycles or removes released segments, oldest first, and removes the snapshot files before `revision`.
    pub(crate) fn remove_obsolete(
        &self,
        revision: Revision,
        released: Vec<PathBuf>,
        _permit: CompactionPermit,
    ) -> Result<(), Error> {
        let listing = layout::list(&self.dir)?;
        let mut spares = listing.spares.len();
        for path in released {
            let number = listing.segments.iter().find(|(_, segment)| *segment == path);
            match number {
                Some((number, _)) if spares < SPARE_SEGMENTS && self.is_full_size(&path) => {
                    let spare = layout::spare(&self.dir, *number);
                    self.disk
                        .rename(&path, &spare)
                        .map_err(Error::io("rename", &path))?;
                    spares += 1;
                }
                _ => self.disk.remove(&path).map_err(Error::io("remove", &path))?,
            }
        }
        for (_, path) in listing
            .snapshot_files
            .iter()
            .filter(|(older, _)| *older < revision)
        {
            self.disk.remove(path).map_err(Error::io("remove", path))?;
        }
        self.disk
            .sync_dir(&self.dir)
            .map_err(Error::io("sync", &self.dir))
    }

    /// The small first segments of a store are not recycled: they would soon be full again.
    fn is_full_size(&self, path: &Path) -> bool {
        path.metadata()
            .is_ok_and(|metadata| metadata.len() >= self.segment_bytes)
    }
}

impl Drop for CompactionPermit {
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}
