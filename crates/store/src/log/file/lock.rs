//! One directory, one store: a lock that the operating system drops with its process.

use std::{
    fs::{self, File, TryLockError},
    path::Path,
};

use crate::{Error, log::file::layout};

/// Proof that this process alone works in the directory.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Locks `dir`, which exists.
    pub(crate) fn take(dir: &Path) -> Result<Lock, Error> {
        let path = layout::lock(dir);
        let mut options = fs::OpenOptions::new();
        options.create(true).truncate(false).write(true);
        let file = options.open(&path).map_err(Error::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Lock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Error::Locked { dir: dir.to_owned() }),
            Err(TryLockError::Error(error)) => Err(Error::io("lock", &path)(error)),
        }
    }
}
