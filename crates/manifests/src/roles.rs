//! The ClusterRole of a controller, and its binding.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use serde_json::{Value, json};
use setpoint_runtime::RbacRules;

use crate::manifests::from;

/// The ClusterRole. Resources of one group with the same verbs are one rule.
pub(crate) fn role(name: &str, rbac_rules: &RbacRules) -> ClusterRole {
    let mut by_verbs: BTreeMap<(&str, Vec<&str>), Vec<&str>> = BTreeMap::new();
    for (resource, verbs) in rbac_rules.iter() {
        let verbs = verbs.iter().copied().collect();
        let rule = by_verbs.entry((resource.group.as_str(), verbs)).or_default();
        rule.push(&resource.resource);
    }
    let rule = |((group, verbs), resources): ((&str, Vec<&str>), Vec<&str>)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let rules: Vec<Value> = by_verbs.into_iter().map(rule).collect();
    from(json!({"metadata": {"name": name}, "rules": rules}))
}

/// Binds the role to the service account of the controller.
pub(crate) fn binding(name: &str, namespace: &str) -> ClusterRoleBinding {
    from(json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }))
}
