//! Hooks: executables with their configuration.

mod discovery;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::Clock;
use tokio::process::Command;

use crate::config::HookConfig;
use crate::monitor::Monitor;
use crate::rate_limit::TokenBucket;

pub use discovery::discover;

/// One hook, with its monitors once they are enabled.
#[derive(Debug)]
pub struct Hook {
    /// The path below the directory of hooks.
    pub name: String,
    /// The executable.
    pub path: PathBuf,
    /// Its bindings.
    pub config: HookConfig,
    /// The monitors of the kubernetes bindings, in their order, as far as they are enabled.
    pub(crate) monitors: parking_lot::RwLock<Vec<Arc<Monitor>>>,
    /// Limits the rate of its runs.
    pub(crate) rate: TokenBucket,
}

/// Why the hooks cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document them")]
pub enum Error {
    #[error("cannot read the directory of hooks {path:?}: {source}")]
    Directory { path: PathBuf, source: std::io::Error },
    #[error("cannot get config for hook '{hook}': {reason}")]
    Run { hook: String, reason: String },
    #[error("load hook '{hook}' config: {reason}\nhook --config output: {output}")]
    Config {
        hook: String,
        reason: String,
        output: String,
    },
}

/// How long a hook may take to print its configuration.
const CONFIG_TIMEOUT: Duration = Duration::from_secs(60);

impl Hook {
    /// All hooks below a directory, sorted by path. The first invalid hook is an error.
    pub async fn load_all(directory: &Path, clock: &Arc<dyn Clock>) -> Result<Vec<Arc<Self>>, Error> {
        let mut hooks = Vec::new();
        for path in discover(directory)? {
            hooks.push(Arc::new(Self::load(directory, path, clock).await?));
        }
        Ok(hooks)
    }

    async fn load(directory: &Path, path: PathBuf, clock: &Arc<dyn Clock>) -> Result<Self, Error> {
        let name = path.strip_prefix(directory).unwrap_or(&path);
        let name = name.to_string_lossy().into_owned();
        tracing::info!(hook = name, path = %path.display(), phase = "config", "Load config");
        let output = print_config(&name, directory, &path, clock.as_ref()).await?;
        let config = HookConfig::parse(&output, clock).map_err(|reason| Error::Config {
            hook: name.clone(),
            reason,
            output,
        })?;
        tracing::info!(
            hook = name,
            phase = "config",
            value = config.describe(),
            "Loaded config"
        );
        let rate = TokenBucket::new(config.settings, clock.clone());
        Ok(Self {
            name,
            path,
            config,
            monitors: parking_lot::RwLock::default(),
            rate,
        })
    }

    /// The monitor of a kubernetes binding, if it is enabled.
    pub(crate) fn monitor(&self, binding: &str) -> Option<Arc<Monitor>> {
        let at = self.config.find_kubernetes(binding)?;
        self.monitors.read().get(at).cloned()
    }
}

/// Runs a hook with `--config`.
async fn print_config(name: &str, directory: &Path, path: &Path, clock: &dyn Clock) -> Result<String, Error> {
    let failed = |reason: String| Error::Run {
        hook: name.to_owned(),
        reason,
    };
    let output = Command::new(path)
        .arg("--config")
        .current_dir(directory)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::select! {
        output = output => output.map_err(|error| failed(error.to_string()))?,
        () = clock.sleep(CONFIG_TIMEOUT) => {
            return Err(failed(format!("no configuration after {CONFIG_TIMEOUT:?}")));
        }
    };
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(failed(format!("{}: {}", output.status, stderr.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
