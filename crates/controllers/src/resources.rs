//! What is served, for the controllers that look after objects of every kind.

use std::collections::HashMap;

use compact_str::CompactString;
use setpoint_api::{GroupResource, Gvk, Gvr, Key};

/// One resource that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    pub gvk: Gvk,
    pub gvr: Gvr,
    pub namespaced: bool,
}

/// All resources that are served, each with its place in the list.
#[derive(Debug, Clone, Default)]
pub struct Resources {
    all: Vec<Resource>,
    /// Places by group and kind.
    by_kind: HashMap<(CompactString, CompactString), usize>,
}

/// One object of any kind: the place of its resource, and its key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Item {
    pub(crate) place: usize,
    pub(crate) key: Key,
}

impl Resources {
    pub fn iter(&self) -> impl Iterator<Item = &Resource> {
        self.all.iter()
    }

    pub(crate) fn at(&self, place: usize) -> &Resource {
        &self.all[place]
    }

    pub(crate) fn group_resource(&self, place: usize) -> GroupResource {
        self.all[place].gvr.group_resource()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The place of the kind that an owner reference names, whatever the version.
    pub(crate) fn find_kind(&self, api_version: &str, kind: &str) -> Option<usize> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        self.by_kind.get(&(group.into(), kind.into())).copied()
    }
}

impl FromIterator<Resource> for Resources {
    fn from_iter<I: IntoIterator<Item = Resource>>(resources: I) -> Self {
        let all: Vec<Resource> = resources.into_iter().collect();
        let name = |resource: &Resource| (resource.gvk.group.clone(), resource.gvk.kind.clone());
        let by_kind = all
            .iter()
            .enumerate()
            .map(|(place, one)| (name(one), place))
            .collect();
        Self { all, by_kind }
    }
}

impl Item {
    pub(crate) fn of(place: usize, object: &setpoint_api::Stored) -> Self {
        let key = object.key().clone();
        Self { place, key }
    }
}
