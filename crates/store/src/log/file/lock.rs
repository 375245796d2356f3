//! Directory lock: one store per directory. The operating system releases it when the process ends.

use std::{
    fs::{self, File, TryLockError},
    path::Path,
};

use crate::{Error, log::file::layout};

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
        options.create(true).truncate(false).write(true);
        let file = options.open(&path).map_err(Error::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(DirLock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Error::Locked { dir: dir.to_owned() }),
            Err(TryLockError::Error(error)) => Err(Error::io("lock", &path)(error)),
        }
    }
}
