//! [`Config`]: the configuration of a scheduler.

use setpoint_runtime::Error;

use crate::framework::{Handle, Profiles};
use crate::plugins::default_profile;
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
}

impl Config {
    pub(super) fn build_profiles(&self, handle: &Handle) -> Result<Profiles, Error> {
        Ok(Profiles::new([default_profile(handle)]))
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
        }
    }
}
