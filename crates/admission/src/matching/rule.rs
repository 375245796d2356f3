//! [`Rule`]: operations and resources of a webhook or an admission policy.

use serde::{Deserialize, Deserializer};
use setpoint_api::Gvr;
use setpoint_registry_api::{Operation, Review};

use super::selector::namespace_of;

const ANY: &str = "*";

/// A rule with operations (upstream: `NamedRuleWithOperations`).
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Rule {
    #[serde(deserialize_with = "nullable_list")]
    operations: Vec<String>,
    #[serde(rename = "apiGroups", deserialize_with = "nullable_list")]
    groups: Vec<String>,
    #[serde(rename = "apiVersions", deserialize_with = "nullable_list")]
    versions: Vec<String>,
    /// `pods`, `pods/status`, `pods/*`, `*/scale`, `*` (all resources) or `*/*` (and all subresources).
    #[serde(deserialize_with = "nullable_list")]
    resources: Vec<String>,
    scope: Scope,
    /// The names of the objects, in policies; empty for all.
    #[serde(deserialize_with = "nullable_list")]
    resource_names: Vec<String>,
}

/// Which objects a rule concerns, by their scope.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
enum Scope {
    Cluster,
    Namespaced,
    #[default]
    #[serde(other, rename = "*")]
    All,
}

impl Rule {
    /// Whether the rule concerns a request, if its resource is called by this name.
    pub(super) fn matches(&self, review: &Review<'_>, resource: &Gvr) -> bool {
        self.matches_scope(review, resource)
            && has(&self.operations, operation_name(review.operation))
            && has(&self.groups, &resource.group)
            && has(&self.versions, &resource.version)
            && self.matches_resource(&resource.resource, review.subresource.unwrap_or_default())
            && self.matches_name(review.name)
    }

    /// A Namespace is cluster-scoped, although its requests have a namespace.
    fn matches_scope(&self, review: &Review<'_>, resource: &Gvr) -> bool {
        let is_cluster_scoped = || {
            let is_namespace =
                (&*resource.group, &*resource.version, &*resource.resource) == ("", "v1", "namespaces");
            is_namespace || namespace_of(review).is_empty()
        };
        match self.scope {
            Scope::All => true,
            Scope::Cluster => is_cluster_scoped(),
            Scope::Namespaced => !is_cluster_scoped(),
        }
    }

    fn matches_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|pattern| {
            let (name, sub) = pattern.split_once('/').unwrap_or((pattern, ""));
            (name == ANY || name == resource) && (sub == ANY || sub == subresource)
        })
    }

    fn matches_name(&self, name: &str) -> bool {
        self.resource_names.is_empty() || self.resource_names.iter().any(|one| one == name)
    }
}

/// The name of an operation in rules and in AdmissionReviews.
pub(crate) fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    }
}

fn has(patterns: &[String], value: &str) -> bool {
    patterns.iter().any(|pattern| pattern == ANY || pattern == value)
}

/// A list that may be null.
pub(super) fn nullable_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
