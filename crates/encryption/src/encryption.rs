//! [`Encryption`]: the encryption of a server's stored values, as its configuration file has it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use setpoint_api::Clock;
use setpoint_store::{Error, OpenedValue, SealId, SealedValue, ValueTransformer};

use crate::config::{ConfigError, EncryptionConfiguration, ProviderConfiguration};
use crate::kms;
use crate::provider::{Provider, Providers, SEALED_PREFIX, digest};
use crate::resource_rules::ResourceRules;

/// How often the file is read again and plugins are probed, while all is well and while a plugin fails.
const POLL_INTERVAL: Duration = Duration::from_secs(60);
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// The root of the store's keys: `/registry/<resource>[.<group>]/...`.
const ROOT: &[u8] = b"/registry/";

/// The segment of the keys of ranges, such as that of node ports.
const RANGES: &str = "ranges";

/// Encryption of stored values by resource.
#[derive(Debug)]
pub struct Encryption {
    /// The file; `None` without a configuration, when nothing is sealed.
    source: Option<Source>,
    rules: ArcSwap<ResourceRules>,
}

#[derive(Debug)]
struct Source {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    /// The bytes of the file when it was last read, hashed: keys are not kept twice.
    read: Mutex<[u8; 32]>,
}

impl Encryption {
    /// No configuration: values are stored as they are, and sealed ones are an error.
    pub fn none() -> Arc<Self> {
        Arc::new(Self {
            source: None,
            rules: ArcSwap::default(),
        })
    }

    /// The encryption that the file at `path` configures. Plugins are probed once; one that fails is not an error yet.
    pub fn load(path: &Path, clock: Arc<dyn Clock>) -> Result<Arc<Self>, ConfigError> {
        let (configuration, bytes) = EncryptionConfiguration::load(path)?;
        let rules = build(&configuration, &clock).map_err(ConfigError::Transformers)?;
        probe(&rules);
        Ok(Arc::new(Self {
            source: Some(Source {
                path: path.to_owned(),
                clock,
                read: Mutex::new(digest(&[&bytes])),
            }),
            rules: ArcSwap::from_pointee(rules),
        }))
    }

    /// Probes the plugins, and reads the file again if `reloads`, until stopped.
    pub async fn run(self: Arc<Self>, reloads: bool, stop: CancellationToken) {
        let Some(source) = &self.source else {
            return stop.cancelled().await;
        };
        let mut interval = POLL_INTERVAL;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = source.clock.sleep(interval) => {}
            }
            let encryption = self.clone();
            let polled = tokio::task::spawn_blocking(move || {
                if reloads && let Err(error) = encryption.reload() {
                    tracing::error!(%error, "the encryption configuration cannot be used; the one before stays");
                }
                probe(&encryption.rules.load())
            });
            interval = match polled.await {
                Ok(true) => POLL_INTERVAL,
                _ => RETRY_INTERVAL,
            };
        }
    }

    /// Reads the file again, if it has changed. Returns whether it had.
    pub fn reload(&self) -> Result<bool, ConfigError> {
        let Some(source) = &self.source else {
            return Ok(false);
        };
        let (configuration, bytes) = EncryptionConfiguration::load(&source.path)?;
        let read = digest(&[&bytes]);
        if *source.read.lock() == read {
            return Ok(false);
        }
        let rules = build(&configuration, &source.clock).map_err(ConfigError::Transformers)?;
        if !probe(&rules) {
            let message = "a KMS plugin of the new configuration is not healthy".to_owned();
            return Err(ConfigError::Transformers(message));
        }
        self.rules.store(Arc::new(rules));
        *source.read.lock() = read;
        tracing::info!(file = %source.path.display(), "reloaded the encryption configuration");
        Ok(true)
    }

    /// Whether every plugin was healthy when it was last probed; otherwise the errors.
    pub fn check_health(&self) -> Result<(), String> {
        let rules = self.rules.load();
        let failed: Vec<String> = rules
            .kms()
            .filter_map(|provider| provider.health().err())
            .collect();
        match failed.is_empty() {
            true => Ok(()),
            false => Err(failed.join(", ")),
        }
    }
}

impl ValueTransformer for Encryption {
    fn is_active(&self) -> bool {
        self.source.is_some()
    }

    fn seal(&self, key: &[u8], authenticated: &[u8], value: &[u8]) -> Result<Option<SealedValue>, Error> {
        let rules = self.rules.load();
        let Some(providers) = resource(key).and_then(|resource| rules.find(resource)) else {
            return Ok(None);
        };
        let sealed = providers.seal(value, authenticated);
        let sealed = sealed.map_err(|reason| unsealed(key, reason))?;
        Ok(sealed.map(|(bytes, seal)| SealedValue {
            bytes: Bytes::from(bytes),
            seal,
        }))
    }

    fn open(&self, key: &[u8], authenticated: &[u8], value: Bytes) -> Result<OpenedValue, Error> {
        let rules = self.rules.load();
        let Some(providers) = resource(key).and_then(|resource| rules.find(resource)) else {
            let reason = "identity transformer tried to read encrypted data";
            return match value.starts_with(SEALED_PREFIX) {
                true => Err(unsealed(key, reason.to_owned())),
                false => Ok(plain(value)),
            };
        };
        let opened = providers.open(&value, authenticated);
        let opened = opened.map_err(|reason| unsealed(key, reason))?;
        Ok(match opened {
            Some((bytes, seal)) => OpenedValue {
                bytes: Bytes::from(bytes),
                seal,
            },
            None => plain(value),
        })
    }

    fn current_seal(&self, key: &[u8]) -> SealId {
        let rules = self.rules.load();
        let providers = resource(key).and_then(|resource| rules.find(resource));
        providers.map_or(SealId::NONE, |providers| providers.current_seal())
    }
}

/// The rules of a valid configuration.
fn build(configuration: &EncryptionConfiguration, clock: &Arc<dyn Clock>) -> Result<ResourceRules, String> {
    let mut rules = ResourceRules::default();
    for rule in &configuration.resources {
        let new = |provider: &ProviderConfiguration| match &provider.kms {
            Some(kms) => kms::connect(kms, clock).map(|kms| Provider::Kms(Box::new(kms))),
            None => provider.keys_or_identity(),
        };
        let providers: Result<Vec<_>, String> =
            rule.providers.iter().map(|one| new(one).map(Arc::new)).collect();
        let providers = Arc::new(Providers::new(providers?));
        for resource in &rule.resources {
            rules.add(resource, &providers)?;
        }
    }
    Ok(rules)
}

/// Probes every plugin. Returns whether all are healthy.
fn probe(rules: &ResourceRules) -> bool {
    let mut is_healthy = true;
    for provider in rules.kms() {
        if let Err(error) = provider.probe() {
            tracing::error!(%error, "a KMS plugin failed its health check");
            is_healthy = false;
        }
    }
    is_healthy
}

/// The resource of a key, with its group: the segment after the root. Ranges are of no resource, and never sealed, as
/// upstream.
fn resource(key: &[u8]) -> Option<&str> {
    let rest = key.strip_prefix(ROOT)?;
    let end = rest.iter().position(|byte| *byte == b'/')?;
    let segment = std::str::from_utf8(&rest[..end]).ok()?;
    (segment != RANGES).then_some(segment)
}

/// A value that was not sealed.
fn plain(bytes: Bytes) -> OpenedValue {
    OpenedValue {
        bytes,
        seal: SealId::NONE,
    }
}

fn unsealed(key: &[u8], reason: String) -> Error {
    Error::Undecodable {
        key: Bytes::copy_from_slice(key),
        reason,
    }
}

#[cfg(test)]
mod tests;
