//! Restoring: a backup is an image, so a directory that holds nothing else is a whole store.

use std::{fs, path::Path};

use crate::{
    BackupReport, Error, Revision, Snapshot, image,
    log::file::{disk::RealDisk, layout, lock::Lock},
    workers::Stop,
};

/// Checks the backup while reading it, and writes it into `dir` as the store's first image.
pub(crate) fn restore(file: &Path, dir: &Path) -> Result<BackupReport, Error> {
    let (index, revision) = image::read(file)?;
    fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
    refuse_occupied(dir)?;
    let _lock = Lock::take(dir)?;
    let snapshot = Snapshot::new(revision, index.map().clone());
    write(dir, revision, &snapshot)
}

fn write(dir: &Path, revision: Revision, snapshot: &Snapshot) -> Result<BackupReport, Error> {
    let path = layout::image(dir, revision);
    image::write(&RealDisk, &path, snapshot, &Stop::default())
}

fn refuse_occupied(dir: &Path) -> Result<(), Error> {
    let mut entries = fs::read_dir(dir).map_err(Error::io("list", dir))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(Error::NotEmpty { dir: dir.to_owned() }),
    }
}
