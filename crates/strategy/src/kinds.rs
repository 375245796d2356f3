//! All kinds that this server serves.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use setpoint_api::{GroupResource, Gvr};

use crate::kind::Kind;

/// All kinds, by resource and in the order discovery lists them.
#[derive(Debug, Default)]
pub struct Kinds {
    ordered: Vec<Arc<dyn Kind>>,
    /// Indexes into `ordered`.
    by_version: HashMap<Gvr, usize, RandomState>,
    /// Indexes into `ordered`: the preferred version of each resource.
    by_resource: HashMap<GroupResource, usize, RandomState>,
}

impl Kinds {
    /// The kind of a resource, if it is served in that version.
    pub fn find(&self, resource: &Gvr) -> Option<&Arc<dyn Kind>> {
        self.by_version.get(resource).map(|at| &self.ordered[*at])
    }

    /// The kind of a resource in its preferred version.
    pub fn find_resource(&self, resource: &GroupResource) -> Option<&Arc<dyn Kind>> {
        self.by_resource.get(resource).map(|at| &self.ordered[*at])
    }

    /// In the order of discovery: by group, then by resource.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Kind>> {
        self.ordered.iter()
    }

    pub fn len(&self) -> usize {
        self.ordered.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ordered.is_empty()
    }
}

impl FromIterator<Arc<dyn Kind>> for Kinds {
    fn from_iter<I: IntoIterator<Item = Arc<dyn Kind>>>(kinds: I) -> Self {
        let ordered: Vec<Arc<dyn Kind>> = kinds.into_iter().collect();
        let (mut by_version, mut by_resource) = (HashMap::default(), HashMap::default());
        for (at, kind) in ordered.iter().enumerate() {
            let gvr = &kind.info().gvr;
            by_version.entry(gvr.clone()).or_insert(at);
            by_resource.entry(gvr.group_resource()).or_insert(at);
        }
        Self {
            ordered,
            by_version,
            by_resource,
        }
    }
}
