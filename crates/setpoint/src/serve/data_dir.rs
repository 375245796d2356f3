//! The data directory of a cluster: store, certificates and kubeconfig.

use std::collections::hash_map::RandomState;
use std::env;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use setpoint_store::{create_private_dir, open_private_dir, restrict_dir, restrict_secret};

use crate::args::Up;

/// A data directory. One that was created for a cluster in memory is removed on drop.
#[derive(Debug)]
pub(super) struct DataDir {
    pub dir: PathBuf,
    temporary: bool,
}

impl DataDir {
    /// Creates the directory if it does not exist. One that exists is trusted for the cluster's keys, so it must belong
    /// to the user of this process, and so must the `pki` directory in it.
    pub(super) fn open(args: &Up) -> Result<Self> {
        let data_dir = match &args.data_dir {
            Some(dir) => Self::existing_or_new(dir)?,
            None if args.memory => Self::temporary()?,
            None => Self::existing_or_new(&default_dir()?)?,
        };
        data_dir.check_writable()?;
        data_dir.restrict_keys()?;
        Ok(data_dir)
    }

    fn existing_or_new(dir: &Path) -> Result<Self> {
        open_private_dir(dir)?;
        let canonical = dir.canonicalize();
        Ok(Self {
            dir: canonical.with_context(|| format!("cannot use {}", dir.display()))?,
            temporary: false,
        })
    }

    /// A new directory in the user's runtime directory, which is in memory, or else in the directory for temporary files,
    /// which all users share. The name cannot be foreseen, and a directory that exists is not used, because another user
    /// could have put its keys there.
    fn temporary() -> Result<Self> {
        // The standard library's hash keys are random, and no other user sees the name before the directory exists.
        let random = RandomState::new().build_hasher().finish();
        let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let parent = runtime.filter(|dir| dir.is_dir()).unwrap_or_else(env::temp_dir);
        let dir = parent.join(format!("setpoint-{random:016x}"));
        create_private_dir(&dir)?;
        Ok(Self { dir, temporary: true })
    }

    /// Fails at the start rather than at the first write.
    fn check_writable(&self) -> Result<()> {
        let writable = rustix::fs::access(&self.dir, rustix::fs::Access::WRITE_OK);
        writable.with_context(|| format!("cannot write to the data directory {}", self.dir.display()))
    }

    /// The keys in `pki` are trusted, so no other user may have been able to write them, and none may read them.
    fn restrict_keys(&self) -> Result<()> {
        let pki = self.pki();
        open_private_dir(&pki)?;
        restrict_dir(&pki)?;
        let unreadable = || format!("cannot list {}", pki.display());
        for entry in fs::read_dir(&pki).with_context(unreadable)? {
            let path = entry.with_context(unreadable)?.path();
            if path.extension().is_some_and(|extension| extension == "key") {
                restrict_secret(&path)?;
            }
        }
        Ok(())
    }

    pub(super) fn pki(&self) -> PathBuf {
        self.dir.join("pki")
    }

    pub(super) fn store(&self) -> PathBuf {
        self.dir.join("store")
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        if self.temporary {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// The default directory, by the XDG convention for state.
fn default_dir() -> Result<PathBuf> {
    if let Some(state) = env::var_os("XDG_STATE_HOME").filter(|state| !state.is_empty()) {
        return Ok(PathBuf::from(state).join("setpoint"));
    }
    let home = env::var_os("HOME").filter(|home| !home.is_empty());
    let home = home.context("neither XDG_STATE_HOME nor HOME is set; set a directory with --data-dir")?;
    Ok(PathBuf::from(home).join(".local/state/setpoint"))
}
