//! [`RbacRules`]: the permissions a controller needs, collected by its builder; the source of its Role or ClusterRole.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::{ApiVerb, GroupResource};

/// Verbs on resources. Duplicates are merged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RbacRules {
    verbs: BTreeMap<GroupResource, BTreeSet<&'static str>>,
}

/// The verbs of an informer and of a live read.
const READ: [ApiVerb; 3] = [ApiVerb::Get, ApiVerb::List, ApiVerb::Watch];
const CHANGE: [ApiVerb; 2] = [ApiVerb::Update, ApiVerb::Patch];

impl RbacRules {
    /// Adds verbs on a resource or on a subresource such as `foos/status`: API verbs, or as text those that only RBAC
    /// knows, such as `impersonate`.
    pub fn add(&mut self, resource: GroupResource, verbs: impl IntoIterator<Item = impl Into<&'static str>>) {
        let verbs = verbs.into_iter().map(Into::into);
        self.verbs.entry(resource).or_default().extend(verbs);
    }

    /// Adds the verbs to read a resource.
    pub fn read(&mut self, resource: GroupResource) {
        self.add(resource, READ);
    }

    /// Adds the verbs to reconcile the objects of a resource, including their finalizers and status.
    pub fn reconcile(&mut self, resource: GroupResource) {
        self.add(
            subresource(&resource, "status"),
            [ApiVerb::Get, ApiVerb::Update, ApiVerb::Patch],
        );
        self.add(subresource(&resource, "finalizers"), [ApiVerb::Update]);
        self.add(resource.clone(), READ);
        self.add(resource, CHANGE);
    }

    /// Adds the verbs to create, change and delete the objects of a resource.
    pub fn own(&mut self, resource: GroupResource) {
        self.add(resource.clone(), READ);
        self.add(resource.clone(), CHANGE);
        self.add(resource, [ApiVerb::Create, ApiVerb::Delete]);
    }

    /// Adds all rules of another set.
    pub fn extend(&mut self, other: &Self) {
        for (resource, verbs) in &other.verbs {
            self.verbs.entry(resource.clone()).or_default().extend(verbs);
        }
    }

    /// Each resource with its verbs, by group and name.
    pub fn iter(&self) -> impl Iterator<Item = (&GroupResource, &BTreeSet<&'static str>)> {
        self.verbs.iter()
    }

    /// Whether the rules allow this verb.
    pub fn allows(&self, resource: &GroupResource, verb: &str) -> bool {
        self.verbs.get(resource).is_some_and(|verbs| verbs.contains(verb))
    }
}

fn subresource(resource: &GroupResource, name: &str) -> GroupResource {
    GroupResource::new(&resource.group, &format!("{}/{name}", resource.resource))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_added_twice_count_once_and_each_verb_is_kept() {
        let (foos, pods) = (GroupResource::new("x.io", "foos"), GroupResource::new("", "pods"));
        let mut rules = RbacRules::default();
        rules.reconcile(foos.clone());
        rules.read(pods.clone());
        let mut more = RbacRules::default();
        more.add(pods.clone(), ["get", "delete"]);
        rules.extend(&more);
        let lines: Vec<String> = rules
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
        assert_eq!(lines, expected);
        assert!(
            rules.allows(&pods, "delete") && !rules.allows(&pods, "create") && !rules.allows(&foos, "create")
        );
    }
}
