//! [`Config`]: the configuration of a scheduler.

use std::sync::Arc;

use setpoint_runtime::Error;

use crate::configuration::ProfileConfig;
use crate::explain::Explainer;
use crate::framework::{Handle, Profiles};
use crate::queue::BackoffConfig;

/// The default `spec.schedulerName` of a pod.
pub const DEFAULT_NAME: &str = "default-scheduler";

/// The default number of cycles in parallel (upstream: `parallelism`), as far as there are processors.
const DEFAULT_PARALLELISM: usize = 16;

/// Configuration of a scheduler.
#[derive(Debug, Clone)]
pub struct Config {
    /// The limit of scheduling cycles that run in parallel.
    pub parallelism: usize,
    pub backoff: BackoffConfig,
    pub profiles: Vec<ProfileConfig>,
    /// Explains the decisions of the scheduler once it runs.
    pub explainer: Arc<Explainer>,
}

impl Config {
    pub(super) fn build_profiles(&self, handle: &Handle) -> Result<Profiles, Error> {
        let profiles = self.profiles.iter().map(|profile| profile.build(handle));
        let profiles: Result<Vec<_>, _> = profiles.collect();
        let profiles = profiles.map_err(Error::terminal)?;
        Ok(Profiles::new(profiles))
    }

    /// The number of workers: more than there are processors would only conflict with each other.
    pub(super) fn workers(&self) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        self.parallelism.clamp(1, processors)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            parallelism: DEFAULT_PARALLELISM,
            backoff: BackoffConfig::default(),
            profiles: vec![ProfileConfig::default()],
            explainer: Arc::default(),
        }
    }
}
