//! The groups that the table of kinds makes up, and those that others serve.

use std::sync::Arc;

use setpoint_kinds::{Kind, Kinds};

use crate::aggregate::{Other, Others};
use crate::made::Served;

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
        groups[at].add(&gvr.version);
    }
    groups
}

/// Where the groups of custom kinds stand among those of others.
const DEFINED_PRIORITY: i32 = 1000;

/// All groups, those of others among them. What Kubernetes itself has comes first.
pub(crate) fn with_others(served: &Served) -> Vec<Group<'_>> {
    let (kinds, others) = (&*served.kinds, &*served.others);
    let mut groups = all(kinds);
    for other in &others.all {
        match groups.iter_mut().find(|group| group.name == other.group) {
            Some(group) => group.add(&other.version),
            None => {
                let at = place_of(&groups, kinds, others, other);
                groups.insert(
                    at,
                    Group {
                        name: &other.group,
                        versions: vec![&other.version],
                    },
                );
            }
        }
    }
    groups
}

/// Behind what Kubernetes has, and behind every group that is wanted more.
fn place_of(groups: &[Group<'_>], kinds: &Kinds, others: &Others, other: &Other) -> usize {
    let comes_before = |group: &&Group<'_>| {
        let priority = match others.of_group(group.name).next() {
            Some(other) => other.group_priority,
            None if is_defined(kinds, group.name) => DEFINED_PRIORITY,
            None => i32::MAX,
        };
        (-priority, group.name) < (-other.group_priority, other.group.as_str())
    };
    groups.iter().take_while(comes_before).count()
}

fn is_defined(kinds: &Kinds, group: &str) -> bool {
    let mut of_group = kinds.iter().filter(|kind| kind.about().gvr.group == group);
    of_group.all(|kind| kind.about().defined)
}

/// The kinds of one group and version, by the name of their resource.
pub(crate) fn kinds_of<'a>(kinds: &'a Kinds, group: &str, version: &str) -> Vec<&'a Arc<dyn Kind>> {
    let is_in =
        |kind: &&Arc<dyn Kind>| kind.about().gvr.group == group && kind.about().gvr.version == version;
    let mut found: Vec<&Arc<dyn Kind>> = kinds.iter().filter(is_in).collect();
    found.sort_by_key(|kind| &kind.about().gvr.resource);
    found
}
