//! The order of the rules.

use std::fmt::Debug;

use setpoint_api::Status;
use setpoint_registry::{Admit, Review};

use crate::plugins;

/// One rule. What it has nothing to say about, it lets pass.
pub trait Plugin: Debug + Send + Sync {
    /// The name under which Kubernetes knows it.
    fn name(&self) -> &'static str;

    /// May change the draft.
    fn mutate(&self, _review: &mut Review<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// May refuse.
    fn validate(&self, _review: &Review<'_>) -> Result<(), Status> {
        Ok(())
    }
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

    /// The names of the rules, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.plugins.iter().map(|plugin| plugin.name())
    }
}

/// The rules that are on unless someone says otherwise, in Kubernetes' order.
impl Default for Chain {
    fn default() -> Self {
        Self::new(plugins::all())
    }
}

impl Admit for Chain {
    fn mutate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        self.plugins.iter().try_for_each(|plugin| plugin.mutate(review))
    }

    fn validate(&self, review: &Review<'_>) -> Result<(), Status> {
        self.plugins.iter().try_for_each(|plugin| plugin.validate(review))
    }
}
