//! Directory lock: one store per directory. The operating system releases it when the process ends.

use std::{
    fs::{self, File, TryLockError},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use crate::{
    Error,
    log::file::layout,
    private_dir::{FILE_MODE, restrict_open_file},
};

/// Proof that no other store has the directory open.
#[derive(Debug)]
pub(crate) struct DirLock {
    _file: File,
}

impl DirLock {
    /// Locks `dir`, which exists.
    pub(crate) fn take(dir: &Path) -> Result<DirLock, Error> {
        let path = layout::lock(dir);
        let mut options = fs::OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(FILE_MODE);
        let file = options.open(&path).map_err(Error::io("open", &path))?;
        restrict_open_file(&file).map_err(Error::io("restrict the mode of", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(DirLock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Error::Locked { dir: dir.to_owned() }),
            Err(TryLockError::Error(error)) => Err(Error::io("lock", &path)(error)),
        }
    }
}
