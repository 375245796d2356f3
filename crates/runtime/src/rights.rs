//! What a controller must be allowed to do, as its builder tells: the source of its roles.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::GroupResource;

/// Verbs on resources. What is said twice counts once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rights {
    verbs: BTreeMap<GroupResource, BTreeSet<&'static str>>,
}

/// What an informer does, and whoever looks anew.
const READ: &[&str] = &["get", "list", "watch"];
const CHANGE: &[&str] = &["update", "patch"];

impl Rights {
    /// These verbs on a resource, or on a part of it: `foos/status`.
    pub fn add(&mut self, resource: GroupResource, verbs: &[&'static str]) {
        self.verbs.entry(resource).or_default().extend(verbs);
    }

    /// What it takes to look at a resource.
    pub fn read(&mut self, resource: GroupResource) {
        self.add(resource, READ);
    }

    /// What it takes to look after the objects of a resource: their finalizers go on and off, and their status is told.
    pub fn reconcile(&mut self, resource: GroupResource) {
        self.add(part(&resource, "status"), &["get", "update", "patch"]);
        self.add(part(&resource, "finalizers"), &["update"]);
        self.add(resource.clone(), READ);
        self.add(resource, CHANGE);
    }

    /// What it takes to make, change and remove the objects of a resource.
    pub fn own(&mut self, resource: GroupResource) {
        self.add(resource.clone(), READ);
        self.add(resource.clone(), CHANGE);
        self.add(resource, &["create", "delete"]);
    }

    /// These rights and those.
    pub fn extend(&mut self, others: &Self) {
        for (resource, verbs) in &others.verbs {
            self.verbs.entry(resource.clone()).or_default().extend(verbs);
        }
    }

    /// Each resource with its verbs, by group and name.
    pub fn iter(&self) -> impl Iterator<Item = (&GroupResource, &BTreeSet<&'static str>)> {
        self.verbs.iter()
    }

    /// Whether this is among them.
    pub fn allow(&self, resource: &GroupResource, verb: &str) -> bool {
        self.verbs.get(resource).is_some_and(|verbs| verbs.contains(verb))
    }
}

fn part(resource: &GroupResource, part: &str) -> GroupResource {
    GroupResource::new(&resource.group, &format!("{}/{part}", resource.resource))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_twice_counts_once_and_each_right_is_kept() {
        let (foos, pods) = (GroupResource::new("x.io", "foos"), GroupResource::new("", "pods"));
        let mut rights = Rights::default();
        rights.reconcile(foos.clone());
        rights.read(pods.clone());
        let mut more = Rights::default();
        more.add(pods.clone(), &["get", "delete"]);
        rights.extend(&more);
        let shown: Vec<String> = rights
            .iter()
            .map(|(resource, verbs)| {
                format!(
                    "{resource} {}",
                    verbs.iter().copied().collect::<Vec<_>>().join(" ")
                )
            })
            .collect();
        let expected = [
            "pods delete get list watch",
            "foos.x.io get list patch update watch",
            "foos/finalizers.x.io update",
            "foos/status.x.io get patch update",
        ];
        assert_eq!(shown, expected);
        assert!(
            rights.allow(&pods, "delete") && !rights.allow(&pods, "create") && !rights.allow(&foos, "create")
        );
    }
}
