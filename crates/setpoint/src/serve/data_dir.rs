//! The data directory of a cluster: store, certificates and kubeconfig.

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::args::Up;

/// A data directory. One that was created for a cluster in memory is removed on drop.
#[derive(Debug)]
pub(super) struct DataDir {
    pub dir: PathBuf,
    temporary: bool,
}

impl DataDir {
    /// Creates the directory if it does not exist.
    pub(super) fn open(args: &Up) -> Result<Self> {
        let passing = args.memory && args.data_dir.is_none();
        let dir = match &args.data_dir {
            Some(dir) => dir.clone(),
            None if passing => env::temp_dir().join(format!("setpoint-{}", std::process::id())),
            None => default_dir()?,
        };
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let dir = dir
            .canonicalize()
            .with_context(|| format!("cannot use {}", dir.display()))?;
        Ok(Self {
            dir,
            temporary: passing,
        })
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
