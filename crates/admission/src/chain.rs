//! The order of the rules.

use std::fmt::Debug;
use std::future::ready;
use std::sync::Arc;

use setpoint_api::{Status, User};
use setpoint_kinds::bootstrap::IpRange;
use setpoint_registry::{Admit, Review, Verdict};

use crate::plugins;

/// One rule. What it has nothing to say about, it lets pass.
pub trait Plugin: Debug + Send + Sync {
    /// The name under which Kubernetes knows it.
    fn name(&self) -> &'static str;

    /// May change the object.
    fn mutate(&self, _review: &mut Review<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// May refuse, or add what is to be written along.
    fn validate(&self, _review: &mut Review<'_>) -> Result<(), Status> {
        Ok(())
    }
}

/// What the rules are told of the cluster.
#[derive(Debug, Clone)]
pub struct Config {
    /// The addresses that services may have.
    pub services: IpRange,
    /// The ports of nodes that services may have, the first and the last.
    pub node_ports: (u16, u16),
    /// Whether nodes may touch only what is theirs.
    pub restrict_nodes: bool,
    /// What callers may do; without it they are taken for allowed.
    pub rights: Option<Arc<dyn Rights>>,
    /// The rules that are on besides the usual ones, by Kubernetes' names.
    pub enabled: Vec<String>,
    /// Those of the usual rules that are off.
    pub disabled: Vec<String>,
}

/// What a caller may do, for the rules that depend on it.
pub trait Rights: Debug + Send + Sync {
    fn may(&self, user: &User, right: &Right<'_>) -> bool;
}

/// Something that may be done. Empty text means: not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Right<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

/// A list of rules names one that does not exist, or says two things of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRules {
    #[error("{flag} plugin {name:?} is unknown")]
    Unknown { flag: &'static str, name: String },
    #[error("[{0}] in enable-admission-plugins and disable-admission-plugins overlapped")]
    Overlapping(String),
}

/// Rules in the order they are asked; the first that refuses decides.
#[derive(Debug)]
pub struct Chain {
    plugins: Vec<Box<dyn Plugin>>,
}

impl Chain {
    pub fn new(plugins: Vec<Box<dyn Plugin>>) -> Self {
        Self { plugins }
    }

    /// The rules that are on unless the configuration says otherwise, in Kubernetes' order.
    pub fn standard(config: &Config) -> Self {
        let mut rules = plugins::all(config);
        rules.retain(|(plugin, usually)| config.is_on(plugin.name(), *usually));
        Self::new(rules.into_iter().map(|(plugin, _)| plugin).collect())
    }

    /// The names of the rules, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.plugins.iter().map(|plugin| plugin.name())
    }
}

/// The least that any server needs: the life of namespaces.
impl Default for Chain {
    fn default() -> Self {
        Self::new(plugins::least())
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            services: "10.0.0.0/24".parse().expect("the text is a range"),
            node_ports: (30_000, 32_767),
            restrict_nodes: false,
            rights: None,
            enabled: Vec::new(),
            disabled: Vec::new(),
        }
    }
}

impl Config {
    /// Refuses lists of rules that name what is not there, or one rule twice.
    pub fn check(&self) -> Result<(), BadRules> {
        let known = plugins::all(self);
        let known = |name: &String| known.iter().any(|(plugin, _)| plugin.name() == name);
        for (flag, list) in [
            ("enable-admission-plugins", &self.enabled),
            ("disable-admission-plugins", &self.disabled),
        ] {
            if let Some(name) = list.iter().find(|name| !known(name)) {
                let name = name.clone();
                return Err(BadRules::Unknown { flag, name });
            }
        }
        let both = self.enabled.iter().filter(|name| self.disabled.contains(name));
        let both: Vec<&str> = both.map(String::as_str).collect();
        match both.is_empty() {
            true => Ok(()),
            false => Err(BadRules::Overlapping(both.join(" "))),
        }
    }

    fn is_on(&self, name: &str, usually: bool) -> bool {
        let is_in = |list: &[String]| list.iter().any(|own| own == name);
        !is_in(&self.disabled) && (usually || is_in(&self.enabled))
    }
}

impl Admit for Chain {
    fn mutate<'a>(&'a self, review: &'a mut Review<'_>) -> Verdict<'a> {
        let verdict = self.plugins.iter().try_for_each(|plugin| plugin.mutate(review));
        Box::pin(ready(verdict))
    }

    fn validate<'a>(&'a self, review: &'a mut Review<'_>) -> Verdict<'a> {
        let verdict = self.plugins.iter().try_for_each(|plugin| plugin.validate(review));
        Box::pin(ready(verdict))
    }
}
