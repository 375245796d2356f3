//! [`Profiles`]: all profiles of a scheduler by name, and the events that their plugins registered.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::events::{ClusterEvent, EventResource};
use super::profile::Profile;
use crate::extender::EXTENDER;

/// The profiles by scheduler name. Never empty.
#[derive(Debug)]
pub struct Profiles {
    by_name: HashMap<String, Arc<Profile>>,
    /// The events that each plugin registered.
    events: HashMap<&'static str, Vec<ClusterEvent>>,
}

impl Profiles {
    pub fn new(profiles: impl IntoIterator<Item = Profile>) -> Self {
        let profiles: Vec<Profile> = profiles.into_iter().collect();
        let plugins = profiles.iter().flat_map(|profile| &profile.enqueue);
        let events = plugins
            .map(|plugin| (plugin.name(), plugin.events_to_register()))
            .collect();
        let by_name = profiles
            .into_iter()
            .map(|profile| (profile.scheduler.clone(), Arc::new(profile)));
        Self {
            by_name: by_name.collect(),
            events,
        }
    }

    /// The profile for pods with this `spec.schedulerName`.
    pub fn find(&self, scheduler: &str) -> Option<&Arc<Profile>> {
        self.by_name.get(scheduler)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Profile>> {
        self.by_name.values()
    }

    /// The names of the plugins that registered the event, in any profile.
    pub(crate) fn plugins_for(&self, event: ClusterEvent) -> Vec<&'static str> {
        let names = self.events.keys().copied().chain([EXTENDER]);
        names.filter(|name| self.is_registered(name, event)).collect()
    }

    /// Whether the plugin registered the event. Extenders cannot register any: every event may help.
    pub(crate) fn is_registered(&self, plugin: &str, event: ClusterEvent) -> bool {
        if plugin == EXTENDER {
            return self.iter().any(|profile| !profile.extenders.is_empty());
        }
        let events = self.events.get(plugin);
        events.is_some_and(|events| events.iter().any(|registered| event.is_in(*registered)))
    }

    /// The resources whose events any plugin registered.
    pub(crate) fn event_resources(&self) -> BTreeSet<EventResource> {
        self.events
            .values()
            .flatten()
            .map(|event| event.resource)
            .collect()
    }
}
