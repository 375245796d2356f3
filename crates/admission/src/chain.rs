//! The chain of admission plugins.

use std::fmt::Debug;
use std::future::ready;
use std::sync::Arc;

use setpoint_api::{Status, User};
use setpoint_cel::{Check, CheckTarget, Decision};
use setpoint_registry_api::{Admit, AdmitFuture, Operation, Review};
use setpoint_values::Cidr;

use crate::plugins;
use crate::plugins::webhook::Webhooks;

/// An admission plugin. It ignores reviews that do not concern it.
pub trait Plugin: Debug + Send + Sync {
    /// The plugin's name in Kubernetes.
    fn name(&self) -> &'static str;

    /// Whether [`Plugin::mutate`] takes part in an operation: mostly in those that have an object to change.
    fn mutates(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    /// The plugin as one that may wait, if it is one. Its own `mutate` and `validate` are called only for reviews in which
    /// it does not have to.
    fn waiting(&self) -> Option<&dyn WaitingPlugin> {
        None
    }

    /// May change the object.
    fn mutate(&self, _review: &mut Review<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// May reject the write, or add side writes.
    fn validate(&self, _review: &mut Review<'_>) -> Result<(), Status> {
        Ok(())
    }
}

/// A plugin that may have to wait for other servers. All others are called without a future of their own.
pub trait WaitingPlugin: Debug + Send + Sync {
    /// Whether the plugin may have to wait in this review. It is called for every write and must be cheap.
    fn concerns(&self, review: &Review<'_>) -> bool;

    /// Whether the plugin may show the object to a webhook or a policy.
    fn shows_object(&self, review: &Review<'_>) -> bool {
        self.concerns(review)
    }

    /// May change the object.
    fn mutate<'a>(&'a self, _review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        Box::pin(ready(Ok(())))
    }

    /// May reject the write.
    fn validate<'a>(&'a self, _review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        Box::pin(ready(Ok(())))
    }
}

/// The configuration of the plugins.
#[derive(Debug, Clone)]
pub struct Config {
    /// The range of cluster IPs.
    pub service_cidr: Cidr,
    /// The first and the last node port.
    pub node_port_range: (u16, u16),
    /// Whether other servers write to the same store, so that nothing may be remembered in this process alone.
    pub shares_store: bool,
    /// Whether NodeRestriction is on.
    pub node_restriction: bool,
    /// Whether nodes that are created ready are tainted until the node lifecycle controller removes the taint, as
    /// Kubernetes does. A process that schedules pods without that controller could use no node.
    pub taints_ready_nodes: bool,
    /// Authorization checks for plugins; without it all users are allowed everything.
    pub access: Option<Arc<dyn AccessChecker>>,
    /// Calls admission webhooks; without it none is called.
    pub webhooks: Option<Webhooks>,
    /// The plugins that are on besides the default ones (`--enable-admission-plugins`).
    pub enabled: Vec<String>,
    /// The default plugins that are off (`--disable-admission-plugins`).
    pub disabled: Vec<String>,
}

/// Authorization checks, for the plugins that depend on the user's permissions.
pub trait AccessChecker: Debug + Send + Sync {
    fn is_allowed(&self, user: &User, attributes: &AccessAttributes<'_>) -> bool;

    /// Decides a check of a CEL expression, for the user or for the service account that the expression names. By default
    /// the user alone counts, and paths are denied.
    fn decide(&self, user: &User, check: &Check) -> Decision {
        let allowed = match &check.target {
            CheckTarget::Resource(resource) => self.is_allowed(
                user,
                &AccessAttributes {
                    verb: &check.verb,
                    group: &resource.group,
                    resource: &resource.resource,
                    subresource: &resource.subresource,
                    namespace: &resource.namespace,
                    name: &resource.name,
                },
            ),
            _ => false,
        };
        Decision {
            allowed,
            ..Decision::default()
        }
    }
}

/// The attributes of an authorization check. An empty string means: not specified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessAttributes<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

/// A list of plugins that names an unknown one, or one that is both enabled and disabled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("{flag} plugin {name:?} is unknown")]
    Unknown { flag: &'static str, name: String },
    #[error("enable-admission-plugins plugin {0:?} is not built into this server")]
    NotBuilt(String),
    #[error("[{0}] in enable-admission-plugins and disable-admission-plugins overlapped")]
    Overlapping(String),
}

/// Plugins in the order they run; the first that rejects a write decides.
#[derive(Debug)]
pub struct Chain {
    plugins: Vec<Box<dyn Plugin>>,
}

impl Chain {
    pub fn new(plugins: Vec<Box<dyn Plugin>>) -> Self {
        Self { plugins }
    }

    /// The plugins that the configuration enables, in Kubernetes' order.
    pub fn standard(config: &Config) -> Self {
        let mut plugins = plugins::all(config);
        plugins.retain(|(plugin, by_default)| config.is_enabled(plugin.name(), *by_default));
        Self::new(plugins.into_iter().map(|(plugin, _)| plugin).collect())
    }

    /// The names of the plugins, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.plugins.iter().map(|plugin| plugin.name())
    }
}

/// The minimum that any server needs: NamespaceLifecycle.
impl Default for Chain {
    fn default() -> Self {
        Self::new(plugins::minimal())
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            service_cidr: "10.0.0.0/24".parse().expect("the text is a CIDR"),
            node_port_range: (30_000, 32_767),
            shares_store: false,
            node_restriction: false,
            taints_ready_nodes: false,
            access: None,
            webhooks: None,
            enabled: Vec::new(),
            disabled: Vec::new(),
        }
    }
}

impl Config {
    /// Rejects plugin lists with unknown names, enabled plugins that are not built, and plugins that are both enabled and
    /// disabled. To disable a plugin of Kubernetes that is not built is valid.
    pub fn check(&self) -> Result<(), ConfigError> {
        let built = plugins::all(self);
        let is_built = |name: &String| built.iter().any(|(plugin, _)| plugin.name() == name);
        let is_upstreams = |name: &String| plugins::NOT_BUILT.contains(&name.as_str());
        for (flag, list) in [
            ("enable-admission-plugins", &self.enabled),
            ("disable-admission-plugins", &self.disabled),
        ] {
            if let Some(name) = list.iter().find(|name| !is_built(name) && !is_upstreams(name)) {
                let name = name.clone();
                return Err(ConfigError::Unknown { flag, name });
            }
        }
        if let Some(name) = self.enabled.iter().find(|name| !is_built(name)) {
            return Err(ConfigError::NotBuilt(name.clone()));
        }
        let both = self.enabled.iter().filter(|name| self.disabled.contains(name));
        let both: Vec<&str> = both.map(String::as_str).collect();
        match both.is_empty() {
            true => Ok(()),
            false => Err(ConfigError::Overlapping(both.join(" "))),
        }
    }

    fn is_enabled(&self, name: &str, by_default: bool) -> bool {
        let is_in = |list: &[String]| list.iter().any(|own| own == name);
        !is_in(&self.disabled) && (by_default || is_in(&self.enabled))
    }
}

impl Admit for Chain {
    fn mutate<'a>(&'a self, review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        match self.mutate_until_wait(review, 0) {
            Err(status) => Box::pin(ready(Err(status))),
            Ok(None) => Box::pin(ready(Ok(()))),
            Ok(Some(index)) => Box::pin(self.mutate_from(index, review)),
        }
    }

    fn validate<'a>(&'a self, review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        match self.validate_until_wait(review, 0) {
            Err(status) => Box::pin(ready(Err(status))),
            Ok(None) => Box::pin(ready(Ok(()))),
            Ok(Some(index)) => Box::pin(self.validate_from(index, review)),
        }
    }

    fn shows_object(&self, review: &Review<'_>) -> bool {
        let mut waiting = self.plugins.iter().filter_map(|plugin| plugin.waiting());
        waiting.any(|plugin| plugin.shows_object(review))
    }
}

impl Chain {
    /// Runs mutating plugins from an index on, until one has to wait: returns its index. Runs all of them once more if
    /// a webhook or a policy has changed the object.
    fn mutate_until_wait(&self, review: &mut Review<'_>, start: usize) -> Result<Option<usize>, Status> {
        let mut start = start;
        loop {
            for (index, plugin) in self.plugins.iter().enumerate().skip(start) {
                match plugin.waiting() {
                    Some(waiting) if plugin.mutates(review.operation) && waiting.concerns(review) => {
                        return Ok(Some(index));
                    }
                    _ if plugin.mutates(review.operation) => plugin.mutate(review)?,
                    _ => {}
                }
            }
            if !review.reinvocation.start_second_round() {
                return Ok(None);
            }
            start = 0;
        }
    }

    async fn mutate_from(&self, index: usize, review: &mut Review<'_>) -> Result<(), Status> {
        let mut next = Some(index);
        while let Some(index) = next {
            if let Some(waiting) = self.plugins[index].waiting() {
                waiting.mutate(review).await?;
            }
            next = self.mutate_until_wait(review, index + 1)?;
        }
        Ok(())
    }

    /// Runs validating plugins from an index on, until one has to wait: returns its index.
    fn validate_until_wait(&self, review: &mut Review<'_>, start: usize) -> Result<Option<usize>, Status> {
        for (index, plugin) in self.plugins.iter().enumerate().skip(start) {
            match plugin.waiting() {
                Some(waiting) if waiting.concerns(review) => return Ok(Some(index)),
                _ => plugin.validate(review)?,
            }
        }
        Ok(None)
    }

    async fn validate_from(&self, index: usize, review: &mut Review<'_>) -> Result<(), Status> {
        let mut next = Some(index);
        while let Some(index) = next {
            if let Some(waiting) = self.plugins[index].waiting() {
                waiting.validate(review).await?;
            }
            next = self.validate_until_wait(review, index + 1)?;
        }
        Ok(())
    }
}
