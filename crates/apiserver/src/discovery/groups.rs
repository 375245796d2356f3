//! The served groups and their versions: those of the kinds, and those of aggregated API servers.

use std::cmp::Reverse;
use std::sync::Arc;

use setpoint_strategy::{Kind, Kinds};

use crate::aggregate::{RemoteGroupVersion, RemoteGroups};
use crate::memo::ServedApis;

/// A group with its versions, the preferred one first.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    /// Empty for the core group.
    pub name: &'a str,
    pub versions: Vec<&'a str>,
}

impl<'a> Group<'a> {
    fn add(&mut self, version: &'a str) {
        if !self.versions.contains(&version) {
            self.versions.push(version);
        }
    }
}

/// The groups of this server's kinds, in their order.
pub(crate) fn local_groups(kinds: &Kinds) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for gvr in kinds.iter().map(|kind| &kind.info().gvr) {
        let at = groups
            .iter()
            .position(|group| group.name == gvr.group)
            .unwrap_or_else(|| {
                groups.push(Group {
                    name: &gvr.group,
                    versions: Vec::new(),
                });
                groups.len() - 1
            });
        groups[at].add(&gvr.version);
    }
    groups
}

/// Priority of the groups of custom resources, compared to those of APIServices.
const CRD_GROUP_PRIORITY: i32 = 1000;

/// All groups, those of aggregated API servers included. Built-in groups come first.
pub(crate) fn all_groups(apis: &ServedApis) -> Vec<Group<'_>> {
    let (kinds, remote_groups) = (&*apis.kinds, &*apis.remote_groups);
    let mut groups = local_groups(kinds);
    for remote in &remote_groups.versions {
        match groups.iter_mut().find(|group| group.name == remote.group) {
            Some(group) => group.add(&remote.version),
            None => {
                let at = insert_index(&groups, kinds, remote_groups, remote);
                groups.insert(
                    at,
                    Group {
                        name: &remote.group,
                        versions: vec![&remote.version],
                    },
                );
            }
        }
    }
    groups
}

/// All groups in the order of the unaggregated list of groups. That is the order of the APIServices, which are named
/// after version and group: of custom groups those with a `v1` come first, whatever their names.
pub(crate) fn in_api_service_order(apis: &ServedApis) -> Vec<Group<'_>> {
    let (kinds, remote_groups) = (&*apis.kinds, &*apis.remote_groups);
    let mut groups = all_groups(apis);
    groups.sort_by_cached_key(|group| {
        let priority = priority(kinds, remote_groups, group.name);
        let names = group
            .versions
            .iter()
            .map(|version| format!("{version}.{}", group.name));
        match priority {
            // The order of the built-in groups is fixed.
            i32::MAX => (Reverse(priority), None),
            _ => (Reverse(priority), names.min()),
        }
    });
    groups
}

/// The index of a remote group: after the built-in groups and all groups of higher priority.
fn insert_index(
    groups: &[Group<'_>],
    kinds: &Kinds,
    remote_groups: &RemoteGroups,
    remote: &RemoteGroupVersion,
) -> usize {
    let comes_before = |group: &&Group<'_>| {
        let priority = priority(kinds, remote_groups, group.name);
        (-priority, group.name) < (-remote.group_priority, remote.group.as_str())
    };
    groups.iter().take_while(comes_before).count()
}

/// The priority of a group among all. That of built-in groups is the highest.
fn priority(kinds: &Kinds, remote_groups: &RemoteGroups, group: &str) -> i32 {
    match remote_groups.of_group(group).next() {
        Some(remote) => remote.group_priority,
        None if is_custom_group(kinds, group) => CRD_GROUP_PRIORITY,
        None => i32::MAX,
    }
}

/// Whether all kinds of a group are custom.
pub(crate) fn is_custom_group(kinds: &Kinds, group: &str) -> bool {
    let mut of_group = kinds.iter().filter(|kind| kind.info().gvr.group == group);
    of_group.all(|kind| kind.info().is_custom)
}

/// The kinds of one group and version, by the name of their resource.
pub(crate) fn kinds_of<'a>(kinds: &'a Kinds, group: &str, version: &str) -> Vec<&'a Arc<dyn Kind>> {
    let is_in = |kind: &&Arc<dyn Kind>| kind.info().gvr.group == group && kind.info().gvr.version == version;
    let mut found: Vec<&Arc<dyn Kind>> = kinds.iter().filter(is_in).collect();
    found.sort_by_key(|kind| &kind.info().gvr.resource);
    found
}
