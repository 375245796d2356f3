//! [`Profiles`]: all profiles of a scheduler by name, and the events that their plugins registered.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::events::{ActionType, ClusterEvent, EventResource};
use super::profile::Profile;
use crate::extender::EXTENDER;

/// The profiles by scheduler name. Never empty.
#[derive(Debug)]
pub struct Profiles {
    by_name: HashMap<String, Arc<Profile>>,
    /// The plugins that registered events of a resource, with all their actions.
    events: BTreeMap<EventResource, Vec<(&'static str, ActionType)>>,
    has_extenders: bool,
}

impl Profiles {
    pub fn new(profiles: impl IntoIterator<Item = Profile>) -> Self {
        let profiles: Vec<Profile> = profiles.into_iter().collect();
        let mut events: BTreeMap<EventResource, Vec<(&'static str, ActionType)>> = BTreeMap::new();
        for plugin in profiles.iter().flat_map(|profile| &profile.enqueue) {
            for event in plugin.events_to_register() {
                let plugins = events.entry(event.resource).or_default();
                match plugins.iter_mut().find(|(name, _)| *name == plugin.name()) {
                    Some((_, actions)) => *actions = *actions | event.action,
                    None => plugins.push((plugin.name(), event.action)),
                }
            }
        }
        let has_extenders = profiles.iter().any(|profile| !profile.extenders.is_empty());
        let by_name = profiles
            .into_iter()
            .map(|profile| (profile.scheduler.clone(), Arc::new(profile)));
        Self {
            by_name: by_name.collect(),
            events,
            has_extenders,
        }
    }

    /// The profile for pods with this `spec.schedulerName`.
    pub fn find(&self, scheduler: &str) -> Option<&Arc<Profile>> {
        self.by_name.get(scheduler)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Profile>> {
        self.by_name.values()
    }

    /// The names of the plugins that registered the event, in any profile. Extenders cannot register any: every event may
    /// help.
    pub(crate) fn plugins_for(&self, event: ClusterEvent) -> impl Iterator<Item = &'static str> {
        let plugins = self.events.get(&event.resource).into_iter().flatten();
        let registered = plugins.filter(move |(_, actions)| event.action.intersects(*actions));
        let names = registered.map(|(name, _)| *name);
        names.chain(self.has_extenders.then_some(EXTENDER))
    }

    /// Whether the plugin registered the event.
    pub(crate) fn is_registered(&self, plugin: &str, event: ClusterEvent) -> bool {
        self.plugins_for(event).any(|name| name == plugin)
    }

    /// The resources whose events any plugin registered.
    pub(crate) fn event_resources(&self) -> impl Iterator<Item = EventResource> {
        self.events.keys().copied()
    }
}
