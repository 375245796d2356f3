//! Keeping a directory short: writing images, and disposing of what they make superfluous.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire, Ordering::Release},
    },
};

use crate::{
    Error, Revision, Snapshot, image,
    log::file::{disk::Disk, layout, lock::Lock},
    workers::Stop,
};

/// Looks after the files of one directory. Clones share the turn.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    segment_bytes: u64,
    busy: Arc<AtomicBool>,
    _lock: Arc<Lock>,
}

/// The right to write an image; one at a time.
#[derive(Debug)]
pub(crate) struct Turn(Arc<AtomicBool>);

/// How many released segments are kept for recycling; one is in preparation while another is written.
const SPARE_SEGMENTS: usize = 2;

impl Keeper {
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: &Path, segment_bytes: u64, lock: Arc<Lock>) -> Keeper {
        Keeper {
            disk,
            dir: dir.to_owned(),
            segment_bytes,
            busy: Arc::default(),
            _lock: lock,
        }
    }

    /// The turn, unless someone else has it.
    pub(crate) fn try_turn(&self) -> Option<Turn> {
        let free = self.busy.compare_exchange(false, true, AcqRel, Acquire);
        free.ok().map(|_| Turn(self.busy.clone()))
    }

    pub(crate) fn write_image(&self, snapshot: &Snapshot, stop: &Stop) -> Result<(), Error> {
        let path = layout::image(&self.dir, snapshot.revision());
        image::write(&*self.disk, &path, snapshot, stop).map(drop)
    }

    /// Recycles or removes released segments, oldest first, and removes the images before `revision`.
    pub(crate) fn sweep(&self, revision: Revision, released: Vec<PathBuf>, _turn: Turn) -> Result<(), Error> {
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
        for (_, path) in listing.images.iter().filter(|(older, _)| *older < revision) {
            self.disk.remove(path).map_err(Error::io("remove", path))?;
        }
        self.disk
            .sync_dir(&self.dir)
            .map_err(Error::io("sync", &self.dir))
    }

    /// The small segments that a store starts with are not worth keeping: they would soon be full again.
    fn is_full_size(&self, path: &Path) -> bool {
        path.metadata()
            .is_ok_and(|metadata| metadata.len() >= self.segment_bytes)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}
