//! KMS v2: envelope encryption with a plugin at a unix socket. Values are sealed with keys that are derived from a seed;
//! the plugin encrypts the seed, and its encrypted form is stored with each value. The plugin is only called for a new seed
//! and for seeds that this process has not seen, never for each value.
//!
//! Format: `envelope/kmsv2/envelope.go` in Kubernetes. KMS v1 is not supported; kube-apiserver has it off by default.

mod data_key;
mod messages;
mod provider;
mod service;

pub(crate) use provider::KmsProvider;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::{Clock, go_duration};

use crate::config::KmsConfiguration;
use service::KmsPlugin;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(3);

/// The provider of a valid configuration.
pub(crate) fn connect(
    configuration: &KmsConfiguration,
    clock: &Arc<dyn Clock>,
) -> Result<KmsProvider, String> {
    if configuration.api_version != "v2" {
        return Err("KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead.  Set --feature-gates=KMSv1=true to use the deprecated KMSv1 feature.".to_owned());
    }
    let name = &configuration.name;
    let failed = |error: String| format!("could not configure KMSv2-Plugin's probe {name:?}, error: {error}");
    let timeout = match &configuration.timeout {
        Some(timeout) => go_duration::parse(timeout).map_err(failed)?,
        None => DEFAULT_TIMEOUT,
    };
    let socket = socket(&configuration.endpoint).map_err(failed)?;
    let plugin = KmsPlugin::new(socket, timeout).map_err(failed)?;
    Ok(KmsProvider::new(name, Box::new(plugin), clock.clone()))
}

/// The path of `unix:///path`.
fn socket(endpoint: &str) -> Result<PathBuf, String> {
    let path = endpoint.trim_start_matches("unix:").trim_start_matches("//");
    match path.starts_with('/') && !path.starts_with("/@") {
        true => Ok(PathBuf::from(path)),
        false => Err(format!("{endpoint:?} has no absolute path of a socket")),
    }
}
