//! The order of the rules.

use std::fmt::Debug;
use std::future::ready;
use std::sync::Arc;

use setpoint_api::{Gvr, Status, User};
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
}

/// What a caller may do, for the rules that depend on it.
pub trait Rights: Debug + Send + Sync {
    /// Whether the caller may do this to a resource of the whole cluster that has the name.
    fn may(&self, user: &User, verb: &str, resource: &Gvr, name: &str) -> bool;
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

    /// The rules that are on unless someone says otherwise, in Kubernetes' order.
    pub fn standard(config: &Config) -> Self {
        Self::new(plugins::standard(config))
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
        }
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
