//! [`ProfileConfig`]: a checked profile, from which plugins are built.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::plugin_sets::{at_point, multi_point};
use super::raw::{RawConfiguration, RawPlugin, RawPluginSet, RawPlugins, RawProfile};
use super::{ConfigError, default_name};
use crate::framework::{Handle, Profile, Registration, Score};
use crate::plugins::{DEFAULT_PLUGINS, PluginArgs};

/// The configuration of a profile.
#[derive(Debug, Clone)]
pub struct ProfileConfig {
    scheduler: String,
    percentage_of_nodes_to_score: u32,
    plugins: Arc<RawPlugins>,
    args: BTreeMap<String, Value>,
}

/// The profiles of a configuration; one with the defaults if it has none. Builds each once, so that errors show early.
pub(super) fn resolve(raw: RawConfiguration) -> Result<Vec<ProfileConfig>, ConfigError> {
    let global = raw.percentage_of_nodes_to_score;
    let mut profiles = raw.profiles;
    if profiles.is_empty() {
        profiles.push(RawProfile::default());
    }
    let mut profiles: Vec<ProfileConfig> = profiles
        .into_iter()
        .map(|profile| ProfileConfig::new(profile, global))
        .collect();
    let managed = raw.extenders.iter().flat_map(|one| &one.managed_resources);
    for resource in managed.filter(|resource| resource.ignored_by_scheduler) {
        profiles
            .iter_mut()
            .for_each(|profile| profile.ignore_resource(&resource.name));
    }
    for profile in &profiles {
        profile.build(&Handle::default())?;
    }
    Ok(profiles)
}

impl Default for ProfileConfig {
    fn default() -> Self {
        Self::new(RawProfile::default(), None)
    }
}

impl ProfileConfig {
    fn new(raw: RawProfile, percentage: Option<i64>) -> Self {
        let percentage = raw.percentage_of_nodes_to_score.or(percentage).unwrap_or(0);
        let configs = raw.plugin_config.into_iter();
        Self {
            scheduler: raw.scheduler_name.unwrap_or_else(default_name),
            percentage_of_nodes_to_score: u32::try_from(percentage).unwrap_or(0),
            plugins: Arc::new(raw.plugins),
            args: configs.map(|config| (config.name, config.args)).collect(),
        }
    }

    /// Lets NodeResourcesFit ignore a resource that an extender manages.
    fn ignore_resource(&mut self, name: &str) {
        let args = self.args.entry("NodeResourcesFit".to_owned()).or_default();
        match args["ignoredResources"].as_array_mut() {
            Some(ignored) => ignored.push(name.into()),
            None => args["ignoredResources"] = serde_json::json!([name]),
        }
    }

    /// Builds the plugins of the profile.
    pub fn build(&self, handle: &Handle) -> Result<Profile, ConfigError> {
        let multi = multi_point(&self.plugins.multi_point);
        let built = self.build_plugins(&multi, handle)?;
        let mut profile = Profile::new(&self.scheduler);
        profile.percentage_of_nodes_to_score = self.percentage_of_nodes_to_score;
        profile.waiting_pods = handle.waiting_pods().clone();
        let points = Points {
            multi: &multi,
            built: &built,
        };
        let sets = &*self.plugins;
        profile.pre_enqueue = points.collect("PreEnqueuePlugin", &sets.pre_enqueue, |one| {
            one.pre_enqueue.clone()
        })?;
        profile.queue_sort = points
            .collect("QueueSortPlugin", &sets.queue_sort, |one| one.queue_sort.clone())?
            .pop();
        profile.pre_filter =
            points.collect("PreFilterPlugin", &sets.pre_filter, |one| one.pre_filter.clone())?;
        profile.filter = points.collect("FilterPlugin", &sets.filter, |one| one.filter.clone())?;
        profile.post_filter = points.collect("PostFilterPlugin", &sets.post_filter, |one| {
            one.post_filter.clone()
        })?;
        profile.pre_score = points.collect("PreScorePlugin", &sets.pre_score, |one| one.pre_score.clone())?;
        profile.score = points.collect_weighted(&sets.score)?;
        profile.reserve = points.collect("ReservePlugin", &sets.reserve, |one| one.reserve.clone())?;
        profile.permit = points.collect("PermitPlugin", &sets.permit, |one| one.permit.clone())?;
        profile.pre_bind = points.collect("PreBindPlugin", &sets.pre_bind, |one| one.pre_bind.clone())?;
        profile.bind = points.collect("BindPlugin", &sets.bind, |one| one.bind.clone())?;
        profile.post_bind = points.collect("PostBindPlugin", &sets.post_bind, |one| one.post_bind.clone())?;
        check_required(&profile)?;
        profile.enqueue = built.values().filter_map(|one| one.enqueue.clone()).collect();
        let names = |name: &str| {
            profile.filter.iter().any(|one| one.name() == name)
                || profile.score.iter().any(|(one, _)| one.name() == name)
        };
        let planning: Vec<&Registration> = built.values().filter(|one| names(one.name)).collect();
        profile.sign = planning.iter().filter_map(|one| one.sign.clone()).collect();
        profile.unsigned = planning
            .iter()
            .filter(|one| one.sign.is_none())
            .map(|one| one.name)
            .collect();
        Ok(profile)
    }

    /// Builds each plugin that is enabled anywhere, once.
    fn build_plugins(
        &self,
        multi: &[RawPlugin],
        handle: &Handle,
    ) -> Result<BTreeMap<&'static str, Registration>, ConfigError> {
        let explicit = self
            .plugins
            .points()
            .into_iter()
            .flat_map(|(_, set)| &set.enabled);
        let mut built = BTreeMap::new();
        for plugin in multi.iter().chain(explicit) {
            let known = DEFAULT_PLUGINS.iter().find(|known| known.name == plugin.name);
            let Some(descriptor) = known else {
                let point = self.plugins.point_of(&plugin.name);
                return Err(ConfigError(format!("{point} {:?} does not exist", plugin.name)));
            };
            if built.contains_key(descriptor.name) {
                continue;
            }
            let args = self.args.get(descriptor.name).cloned().unwrap_or_default();
            let registration = (descriptor.build)(&PluginArgs(args), handle)
                .map_err(|error| ConfigError(format!("initializing plugin {:?}: {error}", plugin.name)))?;
            built.insert(descriptor.name, registration);
        }
        Ok(built)
    }
}

/// A Score plugin and its weight.
type WeightedScore = (Arc<dyn Score>, i64);

/// The plugins by extension point.
struct Points<'a> {
    multi: &'a [RawPlugin],
    built: &'a BTreeMap<&'static str, Registration>,
}

impl Points<'_> {
    /// The plugins of one extension point; `part` is the plugin's implementation of it.
    fn collect<T>(
        &self,
        point: &str,
        set: &RawPluginSet,
        part: impl Fn(&Registration) -> Option<T>,
    ) -> Result<Vec<T>, ConfigError> {
        let extends = |name: &str| self.built.get(name).is_some_and(|one| part(one).is_some());
        let plugins = at_point(self.multi, set, extends).into_iter();
        let parts = plugins.map(|plugin| {
            let found = self.built.get(plugin.name.as_str()).and_then(&part);
            found.ok_or_else(|| {
                ConfigError(format!("plugin {:?} does not extend {point} plugin", plugin.name))
            })
        });
        parts.collect()
    }

    fn collect_weighted(&self, set: &RawPluginSet) -> Result<Vec<WeightedScore>, ConfigError> {
        let scores = self.collect("ScorePlugin", set, |one| one.score.clone())?;
        let weight = |name: &str| {
            let mut all = set.enabled.iter().chain(self.multi);
            let plugin = all.find(|plugin| plugin.name == name);
            plugin
                .and_then(|plugin| plugin.weight)
                .filter(|weight| *weight != 0)
                .unwrap_or(1)
        };
        Ok(scores
            .into_iter()
            .map(|score| {
                let weight = weight(score.name());
                (score, weight)
            })
            .collect())
    }
}

/// A profile without a way to order or bind pods cannot work.
fn check_required(profile: &Profile) -> Result<(), ConfigError> {
    if profile.queue_sort.is_none() {
        let message = format!(
            "at least one queue sort plugin is needed for profile with scheduler name {:?}",
            profile.scheduler
        );
        return Err(ConfigError(message));
    }
    if profile.bind.is_empty() {
        let message = format!(
            "at least one bind plugin is needed for profile with scheduler name {:?}",
            profile.scheduler
        );
        return Err(ConfigError(message));
    }
    Ok(())
}

impl RawPlugins {
    /// The sets of all extension points, with upstream's names for them.
    fn points(&self) -> [(&'static str, &RawPluginSet); 12] {
        [
            ("PreEnqueuePlugin", &self.pre_enqueue),
            ("QueueSortPlugin", &self.queue_sort),
            ("PreFilterPlugin", &self.pre_filter),
            ("FilterPlugin", &self.filter),
            ("PostFilterPlugin", &self.post_filter),
            ("PreScorePlugin", &self.pre_score),
            ("ScorePlugin", &self.score),
            ("ReservePlugin", &self.reserve),
            ("PermitPlugin", &self.permit),
            ("PreBindPlugin", &self.pre_bind),
            ("BindPlugin", &self.bind),
            ("PostBindPlugin", &self.post_bind),
        ]
    }

    /// The first extension point that enables the plugin.
    fn point_of(&self, name: &str) -> &'static str {
        let mut points = self.points().into_iter();
        let found = points.find(|(_, set)| set.enabled.iter().any(|plugin| plugin.name == name));
        found.map_or("PreEnqueuePlugin", |(point, _)| point)
    }
}
