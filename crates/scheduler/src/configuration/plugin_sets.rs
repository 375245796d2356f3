//! Which plugins run at an extension point: the default ones, those that the profile enables or disables, and those enabled
//! for all their extension points (`multiPoint`).

use std::collections::BTreeSet;

use super::raw::{RawPlugin, RawPluginSet};
use crate::plugins::DEFAULT_PLUGINS;

/// The plugins of `multiPoint`: the default ones in their order, without the disabled ones, with changed weights, then
/// further ones (upstream: `mergePluginSet`).
pub(super) fn multi_point(custom: &RawPluginSet) -> Vec<RawPlugin> {
    let disabled: BTreeSet<&str> = custom
        .disabled
        .iter()
        .map(|plugin| plugin.name.as_str())
        .collect();
    let mut enabled = Vec::new();
    let mut replaced = BTreeSet::new();
    if !disabled.contains("*") {
        for default in DEFAULT_PLUGINS
            .iter()
            .filter(|plugin| !disabled.contains(plugin.name))
        {
            let custom = custom.enabled.iter().rfind(|plugin| plugin.name == default.name);
            replaced.extend(custom.map(|plugin| plugin.name.as_str()));
            enabled.push(custom.cloned().unwrap_or_else(|| RawPlugin {
                name: default.name.to_owned(),
                weight: Some(default.weight),
            }));
        }
    }
    let further = custom
        .enabled
        .iter()
        .filter(|plugin| !replaced.contains(plugin.name.as_str()));
    enabled.extend(further.cloned());
    enabled
}

/// The plugins of one extension point. `extends` is whether a plugin has it (upstream: `expandMultiPointPlugins`).
///
/// Plugins of `multiPoint` that are also enabled here come first, in the order given here; then the rest of `multiPoint`;
/// then the rest of those enabled here.
pub(super) fn at_point(
    multi_point: &[RawPlugin],
    point: &RawPluginSet,
    extends: impl Fn(&str) -> bool,
) -> Vec<RawPlugin> {
    let disabled: BTreeSet<&str> = point.disabled.iter().map(|plugin| plugin.name.as_str()).collect();
    let explicit = |name: &str| point.enabled.iter().any(|plugin| plugin.name == name);
    let inherited: Vec<&RawPlugin> = multi_point
        .iter()
        .filter(|plugin| extends(&plugin.name))
        .collect();
    let is_inherited = |name: &str| inherited.iter().any(|plugin| plugin.name == name);
    let (overriding, further): (Vec<&RawPlugin>, Vec<&RawPlugin>) = point
        .enabled
        .iter()
        .partition(|plugin| is_inherited(&plugin.name));
    let rest = inherited.iter().copied().filter(|plugin| {
        !explicit(&plugin.name) && !disabled.contains("*") && !disabled.contains(plugin.name.as_str())
    });
    overriding
        .into_iter()
        .chain(rest)
        .chain(further)
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A set as `+name=weight -name`.
    fn set(text: &str) -> RawPluginSet {
        let mut set = RawPluginSet::default();
        for word in text.split_whitespace() {
            let (name, weight) = word[1..].split_once('=').unwrap_or((&word[1..], ""));
            let plugin = RawPlugin {
                name: name.to_owned(),
                weight: weight.parse().ok(),
            };
            match word.starts_with('+') {
                true => set.enabled.push(plugin),
                false => set.disabled.push(plugin),
            }
        }
        set
    }

    fn names(plugins: &[RawPlugin]) -> Vec<&str> {
        plugins.iter().map(|plugin| plugin.name.as_str()).collect()
    }

    #[test]
    fn the_defaults_keep_their_order_and_may_be_disabled() {
        let all = multi_point(&set(""));
        let defaults: Vec<&str> = DEFAULT_PLUGINS.iter().map(|plugin| plugin.name).collect();
        assert_eq!(names(&all), defaults);
        let changed = multi_point(&set("-NodeName +TaintToleration=9 +Other"));
        assert!(!names(&changed).contains(&"NodeName"));
        let weight = changed
            .iter()
            .find(|plugin| plugin.name == "TaintToleration")
            .unwrap()
            .weight;
        assert_eq!(
            (weight, changed.last().unwrap().name.as_str()),
            (Some(9), "Other")
        );
        assert_eq!(names(&multi_point(&set("-* +NodeName"))), ["NodeName"]);
    }

    #[track_caller]
    fn check_point(point: &str, expected: &[&str]) {
        let multi = multi_point(&set("-* +A +B +C"));
        assert_eq!(
            names(&at_point(&multi, &set(point), |name| name != "C")),
            expected
        );
    }

    #[test]
    fn explicit_plugins_come_before_those_of_multi_point_which_they_replace() {
        check_point("", &["A", "B"]);
        check_point("-A", &["B"]);
        check_point("-* +B", &["B"]);
        check_point("+D", &["A", "B", "D"]);
        check_point("+D +B", &["B", "A", "D"]);
    }
}
