//! Reinvocation: mutating plugins run a second time if a webhook or a policy has changed the object after them.
//!
//! The first round runs every plugin. If one of the plugins that ask for it has changed the object
//! ([`ReinvocationContext::request`]), a second round runs the built-in plugins again, and of the webhooks and policies
//! those that were called before the change and whose `reinvocationPolicy` is `IfNeeded`. There is no third round.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_schema::Tree;

/// The state of reinvocation in one review (upstream: `admission.ReinvocationContext`).
#[derive(Debug, Default)]
pub struct ReinvocationContext {
    is_reinvocation: bool,
    is_requested: bool,
    /// By the name of the plugin.
    plugins: BTreeMap<&'static str, PluginReinvocation>,
}

/// What one plugin remembers between the rounds: its webhooks or policies, by a unique name of each.
#[derive(Debug, Default)]
pub struct PluginReinvocation {
    /// The object as the plugin left it.
    last_output: Option<Tree>,
    /// Those that were called and have the policy `IfNeeded`; a later change of the object moves them to `eligible`.
    called: BTreeSet<String>,
    /// Those that the second round calls again.
    eligible: BTreeSet<String>,
}

impl ReinvocationContext {
    /// Whether this is the second round.
    pub fn is_reinvocation(&self) -> bool {
        self.is_reinvocation
    }

    /// Requests a second round.
    pub fn request(&mut self) {
        self.is_requested = true;
    }

    /// Starts the second round, if there was a request for one in the first.
    pub fn start_second_round(&mut self) -> bool {
        let starts = self.is_requested && !self.is_reinvocation;
        self.is_reinvocation |= starts;
        starts
    }

    /// The state of a plugin.
    pub fn of(&mut self, plugin: &'static str) -> &mut PluginReinvocation {
        self.plugins.entry(plugin).or_default()
    }
}

impl PluginReinvocation {
    /// The object has changed: all that were called so far are called again in the second round.
    pub fn require(&mut self) {
        self.eligible.append(&mut self.called);
    }

    /// Notes a call of a webhook or policy with `reinvocationPolicy: IfNeeded`.
    pub fn add_called(&mut self, name: &str) {
        self.called.insert(name.to_owned());
    }

    /// Whether the second round calls this webhook or policy.
    pub fn is_eligible(&self, name: &str) -> bool {
        self.eligible.contains(name)
    }

    /// Whether other plugins have changed the object since [`PluginReinvocation::set_last_output`].
    pub fn has_changed(&self, object: Option<&Tree>) -> bool {
        match (&self.last_output, object) {
            (Some(before), Some(now)) => !before.semantic_eq(now),
            (None, None) => false,
            _ => true,
        }
    }

    /// Notes the object as the plugin leaves it.
    pub fn set_last_output(&mut self, object: Option<&Tree>) {
        self.last_output = object.cloned();
    }
}
