//! The groups that the table of kinds makes up.

use std::sync::Arc;

use setpoint_kinds::{Kind, Kinds};

/// A group with its versions, the preferred one first.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    /// Empty for the core group.
    pub name: &'a str,
    pub versions: Vec<&'a str>,
}

/// All groups in the order of the table.
pub(crate) fn all(kinds: &Kinds) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for gvr in kinds.iter().map(|kind| &kind.about().gvr) {
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
        if !groups[at].versions.contains(&gvr.version.as_str()) {
            groups[at].versions.push(&gvr.version);
        }
    }
    groups
}

/// The kinds of one group and version, by the name of their resource.
pub(crate) fn kinds_of<'a>(kinds: &'a Kinds, group: &str, version: &str) -> Vec<&'a Arc<dyn Kind>> {
    let is_in =
        |kind: &&Arc<dyn Kind>| kind.about().gvr.group == group && kind.about().gvr.version == version;
    let mut found: Vec<&Arc<dyn Kind>> = kinds.iter().filter(is_in).collect();
    found.sort_by_key(|kind| &kind.about().gvr.resource);
    found
}
