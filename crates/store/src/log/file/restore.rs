//! Restore: a backup is a snapshot file, so a directory that holds only that is a complete store.

use std::{fs, path::Path};

use crate::{
    BackupReport, Config, Error, Revision, Snapshot,
    head::Head,
    log::file::{
        disk::RealDisk,
        layout,
        lock::DirLock,
        sealed_keys::{ReplayOptions, SealedKeys},
        snapshot_file::{self, Source},
    },
    private_dir::{open_private_dir, restrict_dir},
    workers::StopFlag,
};

/// Reads and checks the backup, and writes it into `dir` as the store's first snapshot file.
pub(crate) fn restore(file: &Path, dir: &Path) -> Result<BackupReport, Error> {
    let (index, revision) = snapshot_file::read(file)?;
    open_private_dir(dir)?;
    check_empty(dir)?;
    restrict_dir(dir)?;
    let _lock = DirLock::take(dir)?;
    let snapshot = Snapshot::new(revision, index.map().clone());
    write(dir, revision, &snapshot)
}

/// Reads and checks the backup, and opens its values.
pub(crate) fn read(file: &Path, config: &Config) -> Result<Head, Error> {
    let (index, revision) = snapshot_file::read(file)?;
    let mut sealed = SealedKeys::default();
    let index = sealed.open_index(index, &ReplayOptions::of(config));
    sealed.check()?;
    Ok(Head {
        index,
        revision,
        compacted: revision,
        ..Head::default()
    })
}

fn write(dir: &Path, revision: Revision, snapshot: &Snapshot) -> Result<BackupReport, Error> {
    let path = layout::snapshot_file(dir, revision);
    // Values that are sealed in the backup stay so.
    let source = Source {
        snapshot,
        transformer: None,
    };
    snapshot_file::write(&RealDisk, &path, &source, &StopFlag::default()).map(|(report, _)| report)
}

fn check_empty(dir: &Path) -> Result<(), Error> {
    let mut entries = fs::read_dir(dir).map_err(Error::io("list", dir))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(Error::NotEmpty { dir: dir.to_owned() }),
    }
}
