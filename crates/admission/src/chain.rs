//! The order of the rules.

use std::fmt::Debug;
use std::future::ready;

use setpoint_api::Status;
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
    fn mutate<'a>(&'a self, review: &'a mut Review<'_>) -> Verdict<'a> {
        let verdict = self.plugins.iter().try_for_each(|plugin| plugin.mutate(review));
        Box::pin(ready(verdict))
    }

    fn validate<'a>(&'a self, review: &'a mut Review<'_>) -> Verdict<'a> {
        let verdict = self.plugins.iter().try_for_each(|plugin| plugin.validate(review));
        Box::pin(ready(verdict))
    }
}
