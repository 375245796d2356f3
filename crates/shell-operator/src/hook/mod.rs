//! Hooks: executables with their configuration.

mod discovery;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::Clock;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

use crate::config::HookConfig;
use crate::executor::{OUTPUT_DELAY, ProcessGroup};
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
/// Longer configurations, and longer texts on the standard error, are an error.
const MAX_CONFIG_BYTES: u64 = 4 << 20;

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

/// Runs a hook with `--config`. Its processes are killed if it takes too long or prints too much.
async fn print_config(name: &str, directory: &Path, path: &Path, clock: &dyn Clock) -> Result<String, Error> {
    let failed = |reason: String| Error::Run {
        hook: name.to_owned(),
        reason,
    };
    let child = Command::new(path)
        .arg("--config")
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    let output = tokio::select! {
        output = read_output(child.map_err(|error| failed(error.to_string()))?, clock) => {
            output.map_err(|error| failed(error.to_string()))?
        }
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

/// The output of a process until it ends; that of a process which it leaves behind is not waited for.
async fn read_output(mut child: Child, clock: &dyn Clock) -> io::Result<Output> {
    let mut group = ProcessGroup::of(&child);
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (mut printed, mut errors) = (Vec::new(), Vec::new());
    let mut status = None;
    {
        let reads = async {
            tokio::try_join!(
                read_limited(stdout, &mut printed),
                read_limited(stderr, &mut errors)
            )
        };
        let ended = async {
            status = Some(child.wait().await?);
            clock.sleep(OUTPUT_DELAY).await;
            io::Result::Ok(())
        };
        tokio::pin!(reads, ended);
        tokio::select! {
            biased;
            read = &mut reads => {
                read?;
            }
            ended = &mut ended => ended?,
        }
    }
    let status = match status {
        Some(status) => status,
        None => child.wait().await?,
    };
    group.release();
    Ok(Output {
        status,
        stdout: printed,
        stderr: errors,
    })
}

async fn read_limited(output: Option<impl AsyncRead + Unpin>, bytes: &mut Vec<u8>) -> io::Result<()> {
    let Some(output) = output else { return Ok(()) };
    output.take(MAX_CONFIG_BYTES + 1).read_to_end(bytes).await?;
    match bytes.len() as u64 > MAX_CONFIG_BYTES {
        true => Err(io::Error::other(format!(
            "the configuration has more than {MAX_CONFIG_BYTES} bytes"
        ))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use setpoint_api::SystemClock;

    use super::*;

    /// Loads a hook that runs this script to print its configuration.
    async fn load(script: &str) -> Result<Arc<Hook>, Error> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hook.sh");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let hooks = Hook::load_all(directory.path(), &clock).await;
        hooks.map(|hooks| hooks[0].clone())
    }

    const CONFIG: &str = "echo 'configVersion: v1'; echo 'onStartup: 1'";

    #[tokio::test]
    async fn a_process_that_the_hook_leaves_behind_is_not_waited_for() {
        let hook = load(&format!("{CONFIG}; sleep 1000 &")).await.unwrap();
        assert_eq!(hook.config.on_startup, Some(1));
    }

    #[tokio::test]
    async fn a_hook_that_prints_without_end_is_an_error() {
        let error = load(&format!("{CONFIG}; cat /dev/zero")).await.unwrap_err();
        assert!(error.to_string().contains("more than"), "{error}");
    }
}
