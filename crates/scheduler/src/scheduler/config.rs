//! [`Config`]: the configuration of a scheduler.

use std::sync::Arc;

use setpoint_api::Clock;
use setpoint_runtime::Error;

use crate::configuration::{ConfigError, ProfileConfig};
use crate::explain::Explainer;
use crate::extender::{Extender, ExtenderConfig, ExtenderTransport};
use crate::framework::{Handle, Profiles};
use crate::metrics::Metrics;
use crate::queue::BackoffConfig;

/// The default `spec.schedulerName` of a pod.
pub const DEFAULT_NAME: &str = "default-scheduler";

/// The default limit of cycles in parallel (upstream: `parallelism`). There are no more than processors: more would only
/// conflict with each other.
const DEFAULT_PARALLELISM: usize = 16;

/// The limit of workers, each of which has a cache of results.
const MAX_WORKERS: usize = 64;

/// Configuration of a scheduler.
#[derive(Debug, Clone)]
pub struct Config {
    /// The number of scheduling cycles that run in parallel; absent: one for each processor, up to sixteen.
    pub parallelism: Option<usize>,
    pub backoff: BackoffConfig,
    pub profiles: Vec<ProfileConfig>,
    /// The extenders of the configuration file. [`Self::connect_extenders`] makes them usable.
    pub extender_configs: Vec<ExtenderConfig>,
    pub extenders: Vec<Arc<Extender>>,
    /// Explains the decisions of the scheduler once it runs.
    pub explainer: Arc<Explainer>,
}

impl Config {
    /// Connects the extenders of the configuration, each by its transport.
    pub fn connect_extenders<E>(
        &mut self,
        connect: impl Fn(&ExtenderConfig) -> Result<Arc<dyn ExtenderTransport>, E>,
        clock: &Arc<dyn Clock>,
    ) -> Result<(), E> {
        self.extenders.clear();
        for config in &self.extender_configs {
            let extender = Extender::new(config.clone(), connect(config)?, clock.clone());
            self.extenders.push(Arc::new(extender));
        }
        Ok(())
    }

    pub(super) fn build_profiles(
        &self,
        handle: &Handle,
        metrics: &Metrics,
        clock: &Arc<dyn Clock>,
    ) -> Result<Profiles, Error> {
        if self.extenders.len() != self.extender_configs.len() {
            return Err(Error::terminal(ConfigError(
                "extenders are not connected".to_owned(),
            )));
        }
        let profiles = self.profiles.iter().map(|profile| profile.build(handle));
        let profiles: Result<Vec<_>, _> = profiles.collect();
        let mut profiles = profiles.map_err(Error::terminal)?;
        for profile in &mut profiles {
            profile.extenders.clone_from(&self.extenders);
            profile.recorder = metrics.recorder(profile, clock.clone());
        }
        Ok(Profiles::new(profiles))
    }

    /// The number of workers.
    pub(super) fn workers(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let workers = self
            .parallelism
            .unwrap_or_else(|| processors().min(DEFAULT_PARALLELISM));
        workers.clamp(1, MAX_WORKERS)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            parallelism: None,
            backoff: BackoffConfig::default(),
            profiles: vec![ProfileConfig::default()],
            extender_configs: Vec::new(),
            extenders: Vec::new(),
            explainer: Arc::default(),
        }
    }
}
