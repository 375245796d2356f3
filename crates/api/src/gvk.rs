//! Names of kinds and resources: group and version with a kind, or with the resource (the plural in URLs).

use std::fmt;

use compact_str::CompactString;

/// GroupVersionKind: a kind in one version of its group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gvk {
    /// Empty for the core group.
    pub group: CompactString,
    pub version: CompactString,
    pub kind: CompactString,
}

/// GroupVersionResource: a resource in one version of its group, as in a URL.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gvr {
    /// Empty for the core group.
    pub group: CompactString,
    pub version: CompactString,
    pub resource: CompactString,
}

/// A resource without a version: the unit of storage and caching, and the name in errors.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// Empty for the core group.
    pub group: CompactString,
    pub resource: CompactString,
}

// === impl Gvk ===

impl Gvk {
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
        }
    }

    /// `v1`, or `apps/v1`: the `apiVersion` of an object.
    pub fn api_version(&self) -> CompactString {
        api_version(&self.group, &self.version)
    }
}

// === impl Gvr ===

impl Gvr {
    pub fn new(group: &str, version: &str, resource: &str) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            resource: resource.into(),
        }
    }

    /// `v1`, or `apps/v1`.
    pub fn api_version(&self) -> CompactString {
        api_version(&self.group, &self.version)
    }

    pub fn group_resource(&self) -> GroupResource {
        GroupResource {
            group: self.group.clone(),
            resource: self.resource.clone(),
        }
    }
}

// === impl GroupResource ===

impl GroupResource {
    pub fn new(group: &str, resource: &str) -> Self {
        Self {
            group: group.into(),
            resource: resource.into(),
        }
    }
}

/// `replicasets.apps`, or `nodes` in the core group.
impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

fn api_version(group: &str, version: &str) -> CompactString {
    match group {
        "" => version.into(),
        group => compact_str::format_compact!("{group}/{version}"),
    }
}
